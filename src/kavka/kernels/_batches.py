"""Record batch headers and records, compiled: Cython in pure-Python syntax. `plain_batches` tells what each does.

Rule: no byte is read before its position was compared with the end of the buffer.
"""
# ruff: noqa: F821, PERF401  (a C variable is declared by its annotation; a loop compiles better than a comprehension)

import cython

if not cython.compiled:
    raise ImportError("this kernel is not compiled")

from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory
from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8
from cython.cimports.kavka.kernels._native import (
    crc32c_init,
    load16,
    load32,
    load64,
    load_u32,
    native_crc32c,
    store16,
    store32,
    store64,
)
from cython.cimports.kavka.kernels._walk import Walk, begin, demand, go_on
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t, uint64_t
from cython.cimports.libc.string import memcpy

from kavka.kernels.layout import OLD_MAGIC, TRUNCATED, WRONG_CRC, WRONG_MAGIC, WRONG_SIZE
from kavka.model.errors import CorruptMessage, InvalidRecord

_HEADER: cython.Py_ssize_t = 61
_OVERHEAD: cython.Py_ssize_t = 12
_PREFIX: cython.Py_ssize_t = 17
_MIN_LENGTH: cython.Py_ssize_t = 14

# What _fault finds; the texts are in the same order.
_SOUND: cython.int = 0
_IS_TRUNCATED: cython.int = 1
_HAS_WRONG_SIZE: cython.int = 2
_HAS_WRONG_MAGIC: cython.int = 3
_HAS_OLD_MAGIC: cython.int = 4
_HAS_WRONG_CRC: cython.int = 5
_REASONS: tuple = (None, TRUNCATED, WRONG_SIZE, WRONG_MAGIC, OLD_MAGIC, WRONG_CRC)

_HARDWARE_CRC: cython.bint = crc32c_init()


@cython.final
@cython.freelist(64)
@cython.cclass
class BatchInfo:
    """The header of one batch and where in the scanned buffer it lies."""

    position = cython.declare(cython.Py_ssize_t, visibility="readonly")
    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    base_offset = cython.declare(int64_t, visibility="readonly")
    leader_epoch = cython.declare(int32_t, visibility="readonly")
    magic = cython.declare(cython.int, visibility="readonly")
    crc = cython.declare(uint32_t, visibility="readonly")
    attributes = cython.declare(cython.int, visibility="readonly")
    last_offset_delta = cython.declare(int32_t, visibility="readonly")
    base_timestamp = cython.declare(int64_t, visibility="readonly")
    max_timestamp = cython.declare(int64_t, visibility="readonly")
    producer_id = cython.declare(int64_t, visibility="readonly")
    producer_epoch = cython.declare(cython.int, visibility="readonly")
    base_sequence = cython.declare(int32_t, visibility="readonly")
    count = cython.declare(int32_t, visibility="readonly")

    def __init__(
        self,
        position: cython.Py_ssize_t = 0,
        size: cython.Py_ssize_t = 61,
        base_offset: int64_t = 0,
        leader_epoch: int32_t = -1,
        magic: cython.int = 2,
        crc: uint32_t = 0,
        attributes: cython.int = 0,
        last_offset_delta: int32_t = 0,
        base_timestamp: int64_t = -1,
        max_timestamp: int64_t = -1,
        producer_id: int64_t = -1,
        producer_epoch: cython.int = -1,
        base_sequence: int32_t = -1,
        count: int32_t = 0,
    ):
        self.position = position
        self.size = size
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.count = count

    @property
    def last_offset(self):
        """The offset of the last record the batch was built with."""
        return _sum(self.base_offset, self.last_offset_delta)

    @property
    def codec(self):
        """The id of the compression codec; 0 is none."""
        return self.attributes & 0x07

    @property
    def is_log_append_time(self):
        """Whether every record has the batch's max timestamp."""
        return self.attributes & 0x08 != 0

    @property
    def is_transactional(self):
        """Whether the batch belongs to a transaction."""
        return self.attributes & 0x10 != 0

    @property
    def is_control(self):
        """Whether the records are markers for brokers rather than data."""
        return self.attributes & 0x20 != 0

    @property
    def has_delete_horizon(self):
        """Whether the base timestamp is the time from which tombstones may go (KIP-534)."""
        return self.attributes & 0x40 != 0

    @property
    def last_sequence(self):
        """The sequence number of the last record: after 2^31 - 1 comes 0."""
        last: int64_t = self.base_sequence
        if last == -1:
            return -1
        last += self.last_offset_delta
        return last if last <= 0x7FFFFFFF else last - 0x80000000

    def numbers(self):
        """What appending the batch takes, in one go, as each attribute costs a lookup."""
        return (
            self.position,
            self.size,
            self.last_offset_delta,
            self.attributes,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
        )

    def fields(self):
        """Every field, in the order the constructor takes them."""
        return (
            self.position,
            self.size,
            self.base_offset,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        )

    def __eq__(self, other):
        return self.fields() == other.fields() if isinstance(other, BatchInfo) else NotImplemented

    def __hash__(self):
        return hash(self.fields())

    def __reduce__(self):
        return BatchInfo, self.fields()

    def __repr__(self):
        return (
            f"BatchInfo(position={self.position}, size={self.size}, offsets={self.base_offset}-{self.last_offset}, "
            f"leader_epoch={self.leader_epoch}, count={self.count}, attributes={self.attributes:#06x}, "
            f"producer={self.producer_id}/{self.producer_epoch}, base_sequence={self.base_sequence})"
        )


@cython.final
@cython.cclass
class Limits:
    """What a topic demands of the batches that clients send it."""

    max_size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    after_max_ms = cython.declare(int64_t, visibility="readonly")
    before_max_ms = cython.declare(int64_t, visibility="readonly")
    keyed = cython.declare(cython.bint, visibility="readonly")

    def __init__(
        self,
        max_size: cython.Py_ssize_t = 0x7FFFFFFF,
        after_max_ms: int64_t = 0x7FFFFFFFFFFFFFFF,
        before_max_ms: int64_t = 0x7FFFFFFFFFFFFFFF,
        keyed: cython.bint = False,
    ):
        self.max_size = max_size
        self.after_max_ms = after_max_ms
        self.before_max_ms = before_max_ms
        self.keyed = keyed


_NO_LIMITS = cython.declare(Limits, Limits())


def scan(buf, pos: cython.Py_ssize_t = 0, end: cython.Py_ssize_t = -1, check_crc: cython.bint = True):
    """The batches that fill a buffer exactly; anything else raises as Kafka would."""
    view: Py_buffer
    infos: list = []
    fault: cython.int
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        end = _bounds(view.len, pos, end)
        pos = _scan(cython.cast(cython.p_uchar, view.buf), pos, end, check_crc, infos, cython.address(fault))
    finally:
        PyBuffer_Release(cython.address(view))
    if fault:
        raise _error(fault, pos)
    return infos


def scan_prefix(buf, pos: cython.Py_ssize_t = 0, end: cython.Py_ssize_t = -1, check_crc: cython.bint = True):
    """The sound batches a buffer begins with, where they end, and what is wrong there (None: nothing)."""
    view: Py_buffer
    infos: list = []
    fault: cython.int
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        end = _bounds(view.len, pos, end)
        pos = _scan(cython.cast(cython.p_uchar, view.buf), pos, end, check_crc, infos, cython.address(fault))
    finally:
        PyBuffer_Release(cython.address(view))
    return infos, pos, _REASONS[fault]


def accept(
    buf, pos: cython.Py_ssize_t = 0, end: cython.Py_ssize_t = -1, now_ms: int64_t = 0, limits: Limits = _NO_LIMITS
):
    """The one sound batch that fills a buffer, if it breaks no rule for clients; None if anything is amiss."""
    view: Py_buffer
    data: cython.p_uchar
    attributes: cython.int
    walk: Walk
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        end = _bounds(view.len, pos, end)
        data = cython.cast(cython.p_uchar, view.buf) + pos
        if _fault(data, end - pos, True) != _SOUND:
            return None
        attributes = load16(data + 21)
        if (
            load32(data + 8) + _OVERHEAD != end - pos
            or end - pos > limits.max_size
            or load64(data) != 0
            or load32(data + 57) <= 0
            or load32(data + 57) != cython.cast(int64_t, load32(data + 23)) + 1
            or attributes & 0x28
            or attributes & 0x07 > 4
            or (load64(data + 43) >= 0 and load32(data + 53) < 0)
        ):
            return None
        if not attributes & 0x07:
            begin(cython.address(walk), load32(data + 57), load64(data + 27), False, -1)
            demand(cython.address(walk), now_ms, limits.before_max_ms, limits.after_max_ms, limits.keyed, True)
            go_on(cython.address(walk), data, _HEADER, end - pos)
            if (
                walk.fault
                or walk.rejected
                or walk.state
                or walk.shift
                or walk.seen != walk.count
                or walk.max_timestamp != load64(data + 35)
            ):
                return None
        return _read(data, pos)
    finally:
        PyBuffer_Release(cython.address(view))


def patch(buf, position: cython.Py_ssize_t, base_offset: int64_t, leader_epoch: int32_t):
    """Give the batch at a position its offset and leader epoch, in place; the CRC covers neither."""
    view: Py_buffer
    data: cython.p_uchar
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        _check_writable(cython.address(view), position, _PREFIX)
        data = cython.cast(cython.p_uchar, view.buf) + position
        store64(data, base_offset)
        store32(data + 12, leader_epoch)
    finally:
        PyBuffer_Release(cython.address(view))


def patched_prefix(buf, info: BatchInfo, base_offset: int64_t, leader_epoch: int32_t):
    """The batch's first 17 bytes with another offset and leader epoch; the rest of the batch follows unchanged."""
    view: Py_buffer
    position: cython.Py_ssize_t = info.position
    prefix: cython.uchar[17]
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        if position < 0 or view.len - position < _PREFIX:
            raise _error(_IS_TRUNCATED, position)
        memcpy(prefix, cython.cast(cython.p_uchar, view.buf) + position, 17)
    finally:
        PyBuffer_Release(cython.address(view))
    store64(prefix, base_offset)
    store32(cython.cast(cython.p_uchar, prefix) + 12, leader_epoch)
    return PyBytes_FromStringAndSize(cython.cast(cython.p_char, prefix), 17)


def set_log_append_time(buf, position: cython.Py_ssize_t, timestamp: int64_t):
    """Stamp the batch at a position with the broker's time: timestamp type, max timestamp and CRC, in place."""
    view: Py_buffer
    data: cython.p_uchar
    size: cython.Py_ssize_t
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        _check_writable(cython.address(view), position, _HEADER)
        data = cython.cast(cython.p_uchar, view.buf) + position
        size = load32(data + 8) + _OVERHEAD
        if size > view.len - position or size < _HEADER:
            raise _error(_IS_TRUNCATED, position)
        store16(data + 21, load16(data + 21) & 0x7F | 0x08)
        store64(data + 35, timestamp)
        store32(data + 17, cython.cast(int32_t, _crc(0, data + 21, size - 21)))
    finally:
        PyBuffer_Release(cython.address(view))


def crc32c(buf, value: uint32_t = 0):
    """The CRC-32C of some bytes, or of `value`'s bytes followed by them."""
    view: Py_buffer
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        return _crc(value, cython.cast(cython.p_uchar, view.buf), view.len)
    finally:
        PyBuffer_Release(cython.address(view))


def read_records(buf, info: BatchInfo, pos: cython.Py_ssize_t = 0, end: cython.Py_ssize_t = -1):
    """The records in a batch's decompressed payload; InvalidRecord unless the payload is exactly these."""
    view: Py_buffer
    records: list = []
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        end = _bounds(view.len, pos, end)
        if info.count < 0:
            raise InvalidRecord(f"the batch says it has {info.count} records")
        for _ in range(info.count):
            records.append(_read_record(cython.cast(cython.p_uchar, view.buf), cython.address(pos), end, info))
    finally:
        PyBuffer_Release(cython.address(view))
    if pos != end:
        raise InvalidRecord(f"{end - pos} bytes follow the batch's last record")
    return records


def read_some(buf, info: BatchInfo, pos: cython.Py_ssize_t, most: cython.Py_ssize_t):
    """The records that are whole in what is there of a batch's decompressed payload, and where the next one begins."""
    view: Py_buffer
    records: list = []
    size: int64_t
    at: cython.Py_ssize_t
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        _bounds(view.len, pos, view.len)
        while len(records) < most:
            at = pos
            while at < view.len and at - pos < 4 and cython.cast(cython.p_uchar, view.buf)[at] >= 0x80:
                at += 1
            if at >= view.len:
                break
            at = pos
            size = _varint(cython.cast(cython.p_uchar, view.buf), cython.address(at), view.len, 28)
            if size > view.len - at:
                break
            records.append(_read_record(cython.cast(cython.p_uchar, view.buf), cython.address(pos), view.len, info))
    finally:
        PyBuffer_Release(cython.address(view))
    return records, pos


def encode_record(offset_delta: int64_t, timestamp_delta: int64_t, key, value, headers=()):
    """One record as a batch's payload holds it."""
    key_bytes: bytes | None = _as_bytes(key)
    value_bytes: bytes | None = _as_bytes(value)
    fields: list = []  # the headers' names and values, one after the other
    field: bytes | None
    for name, content in headers:
        fields.append(name.encode())
        fields.append(_as_bytes(content))
    count: cython.Py_ssize_t = len(fields) // 2
    size: cython.Py_ssize_t = 1 + _size_of_varint(timestamp_delta) + _size_of_varint(offset_delta)
    size += _size_of_nullable(key_bytes) + _size_of_nullable(value_bytes) + _size_of_varint(count)
    for field in fields:
        size += _size_of_nullable(field)
    record: bytes = PyBytes_FromStringAndSize(cython.NULL, size + _size_of_varint(size))
    out: cython.p_uchar = cython.cast(cython.p_uchar, PyBytes_AS_STRING(record))
    out = _put_varint(out, size)
    out[0] = 0  # attributes: none is in use
    out = _put_varint(out + 1, timestamp_delta)
    out = _put_varint(out, offset_delta)
    out = _put_nullable(out, key_bytes)
    out = _put_nullable(out, value_bytes)
    out = _put_varint(out, count)
    for field in fields:
        out = _put_nullable(out, field)
    return record


@cython.cfunc
@cython.inline
@cython.exceptval(-2)
def _bounds(size: cython.Py_ssize_t, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    if end == -1:
        end = size
    if pos < 0 or pos > end or end > size:
        raise ValueError(f"no range of {size} bytes: {pos} to {end}")
    return end


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _sum(a: int64_t, b: int64_t) -> int64_t:
    """A sum as 64 bits hold it: unsigned, because C leaves the overflow of signed numbers undefined."""
    return cython.cast(int64_t, cython.cast(uint64_t, a) + cython.cast(uint64_t, b))


@cython.cfunc
@cython.exceptval(-1)
def _scan(
    data: cython.p_uchar,
    pos: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    check_crc: cython.bint,
    infos: list,
    fault: cython.p_int,
) -> cython.Py_ssize_t:
    info: BatchInfo
    fault[0] = _SOUND
    while pos < end:
        fault[0] = _fault(data + pos, end - pos, check_crc)
        if fault[0] != _SOUND:
            break
        info = _read(data + pos, pos)
        infos.append(info)
        pos += info.size
    return pos


@cython.cfunc
@cython.exceptval(-1)
def _fault(data: cython.p_uchar, remaining: cython.Py_ssize_t, check_crc: cython.bint) -> cython.int:
    """What keeps the bytes here from being a batch."""
    size: cython.Py_ssize_t
    if remaining < _OVERHEAD:
        return _IS_TRUNCATED
    size = load32(data + 8)
    if size < _MIN_LENGTH:
        return _HAS_WRONG_SIZE
    if remaining < _PREFIX:
        return _IS_TRUNCATED
    if data[16] > 2:
        return _HAS_WRONG_MAGIC
    size += _OVERHEAD
    if size > remaining:
        return _IS_TRUNCATED
    if data[16] < 2:
        return _HAS_OLD_MAGIC
    if size < _HEADER:
        return _HAS_WRONG_SIZE
    if check_crc and load_u32(data + 17) != _crc(0, data + 21, size - 21):
        return _HAS_WRONG_CRC
    return _SOUND


@cython.cfunc
@cython.exceptval(-1, check=True)
def _crc(start: uint32_t, data: cython.p_uchar, size: cython.Py_ssize_t) -> uint32_t:
    if _HARDWARE_CRC:
        return native_crc32c(start, data, size)
    from crc32c import crc32c as library  # only here: its import takes longer than a node's start should

    return library(PyMemoryView_FromMemory(cython.cast(cython.p_char, data), size, 0x100), start)


@cython.cfunc
@cython.inline
def _read(data: cython.p_uchar, pos: cython.Py_ssize_t) -> BatchInfo:
    """The header at a position where _fault found nothing."""
    info: BatchInfo = BatchInfo.__new__(BatchInfo)
    info.position = pos
    info.size = load32(data + 8) + _OVERHEAD
    info.base_offset = load64(data)
    info.leader_epoch = load32(data + 12)
    info.magic = data[16]
    info.crc = load_u32(data + 17)
    info.attributes = load16(data + 21)
    info.last_offset_delta = load32(data + 23)
    info.base_timestamp = load64(data + 27)
    info.max_timestamp = load64(data + 35)
    info.producer_id = load64(data + 43)
    info.producer_epoch = load16(data + 51)
    info.base_sequence = load32(data + 53)
    info.count = load32(data + 57)
    return info


@cython.cfunc
def _error(fault: cython.int, position: cython.Py_ssize_t):
    kind = InvalidRecord if fault == _HAS_OLD_MAGIC else CorruptMessage
    return kind(f"{_REASONS[fault]} (at byte {position})")


@cython.cfunc
@cython.exceptval(-1)
def _check_writable(
    view: cython.pointer[Py_buffer], position: cython.Py_ssize_t, needed: cython.Py_ssize_t
) -> cython.int:
    if view.readonly:
        raise TypeError("a batch is patched in a writable buffer")
    if position < 0 or view.len - position < needed:
        raise _error(_IS_TRUNCATED, position)
    return 0


@cython.cfunc
def _read_record(
    data: cython.p_uchar, at: cython.pointer[cython.Py_ssize_t], end: cython.Py_ssize_t, info: BatchInfo
) -> tuple:
    size: int64_t = _varint(data, at, end, 28)
    timestamp: int64_t
    offset: int64_t
    count: int64_t
    headers: tuple = ()
    if size <= 0 or size > end - at[0]:
        raise InvalidRecord(f"a record of {size} bytes in {end - at[0]}")
    end = at[0] + size
    at[0] += 1
    timestamp = _sum(info.base_timestamp, _varint(data, at, end, 63))
    if info.attributes & 0x08:
        timestamp = info.max_timestamp
    offset = _sum(info.base_offset, _varint(data, at, end, 28))
    key = _nullable(data, at, end)
    value = _nullable(data, at, end)
    count = _varint(data, at, end, 28)
    if count < 0 or count > end - at[0]:
        raise InvalidRecord(f"a record with {count} headers in {end - at[0]} bytes")
    if count:
        headers = _headers(data, at, end, count)
    if at[0] != end:
        raise InvalidRecord(f"a record is {end - at[0]} bytes longer than its fields")
    return (offset, timestamp, key, value, headers)


@cython.cfunc
def _headers(
    data: cython.p_uchar, at: cython.pointer[cython.Py_ssize_t], end: cython.Py_ssize_t, count: int64_t
) -> tuple:
    headers: list = []
    size: int64_t
    for _ in range(count):
        size = _varint(data, at, end, 28)
        if size < 0:
            raise InvalidRecord("a header without a name")
        if size > end - at[0]:
            raise InvalidRecord(f"a field of {size} bytes in {end - at[0]}")
        try:
            name = PyUnicode_DecodeUTF8(cython.cast(cython.p_char, data + at[0]), size, cython.NULL)
        except UnicodeDecodeError:
            raise InvalidRecord("a header's name is not UTF-8") from None
        at[0] += size
        headers.append((name, _nullable(data, at, end)))
    return tuple(headers)


@cython.cfunc
def _nullable(data: cython.p_uchar, at: cython.pointer[cython.Py_ssize_t], end: cython.Py_ssize_t):
    size: int64_t = _varint(data, at, end, 28)
    if size < 0:
        return None
    if size > end - at[0]:
        raise InvalidRecord(f"a field of {size} bytes in {end - at[0]}")
    field = PyBytes_FromStringAndSize(cython.cast(cython.p_char, data + at[0]), size)
    at[0] += size
    return field


@cython.cfunc
@cython.exceptval(-1, check=True)
def _varint(
    data: cython.p_uchar, at: cython.pointer[cython.Py_ssize_t], end: cython.Py_ssize_t, last_shift: cython.int
) -> int64_t:
    """A signed integer of 32 bits (last shift 28) or 64 (63)."""
    value: uint64_t = 0
    shift: cython.int = 0
    byte: cython.uchar
    while at[0] < end:
        byte = data[at[0]]
        at[0] += 1
        value |= cython.cast(uint64_t, byte & 0x7F) << shift
        if byte < 0x80:
            if shift == last_shift and byte >> (4 if last_shift == 28 else 1):
                break
            return cython.cast(int64_t, value >> 1) ^ -cython.cast(int64_t, value & 1)
        if shift == last_shift:
            break
        shift += 7
    raise InvalidRecord("a record has a bad variable-length integer")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _zigzag(value: int64_t) -> uint64_t:
    return (cython.cast(uint64_t, value) << 1) ^ cython.cast(uint64_t, value >> 63)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _size_of_varint(value: int64_t) -> cython.Py_ssize_t:
    rest: uint64_t = _zigzag(value) >> 7
    size: cython.Py_ssize_t = 1
    while rest:
        size += 1
        rest >>= 7
    return size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_varint(out: cython.p_uchar, value: int64_t) -> cython.p_uchar:
    rest: uint64_t = _zigzag(value)
    while rest > 0x7F:
        out[0] = rest & 0x7F | 0x80
        out += 1
        rest >>= 7
    out[0] = rest
    return out + 1


@cython.cfunc
def _as_bytes(field) -> bytes | None:
    return field if field is None or type(field) is bytes else bytes(memoryview(field))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _size_of_nullable(field: bytes | None) -> cython.Py_ssize_t:
    if field is None:
        return 1
    size: cython.Py_ssize_t = PyBytes_GET_SIZE(field)
    return _size_of_varint(size) + size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_nullable(out: cython.p_uchar, field: bytes | None) -> cython.p_uchar:
    if field is None:
        return _put_varint(out, -1)
    size: cython.Py_ssize_t = PyBytes_GET_SIZE(field)
    out = _put_varint(out, size)
    memcpy(out, PyBytes_AS_STRING(field), size)
    return out + size
