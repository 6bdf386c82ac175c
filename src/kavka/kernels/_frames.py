"""Frames, request headers, Produce and Fetch requests, compiled from pure-Python syntax. `plain_frames` explains them.

Rule: no byte is read before `_take` compared its position with the end of the range.
"""
# ruff: noqa: F821, PERF401  (a C variable is declared by its annotation; a loop compiles better than a comprehension)

import cython

if not cython.compiled:
    raise ImportError("this kernel is not compiled")

from cython.cimports.cpython.buffer import Py_buffer, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.unicode import PyUnicode_DecodeUTF8
from cython.cimports.kavka.kernels._native import load16, load32, load64
from cython.cimports.libc.stdint import int32_t, int64_t, uint64_t
from cython.cimports.libc.string import memcmp

from kavka.kernels.layout import FLEXIBLE_FROM, MAX_FETCHED, MAX_PRODUCED, MAX_TAGS, NEVER, FetchFields
from kavka.model.errors import MalformedMessage, UnsupportedVersion
from kavka.model.types import Uuid

_PRODUCE_MIN: cython.int = 3
_PRODUCE_MAX: cython.int = 13
_PRODUCE_FLEXIBLE: cython.int = 9
_MAX_PRODUCED: cython.Py_ssize_t = MAX_PRODUCED
_MAX_FETCHED: cython.Py_ssize_t = MAX_FETCHED
_MAX_TAGS: int64_t = MAX_TAGS
_FETCH_MIN: cython.int = 4
_FETCH_MAX: cython.int = 18
_FETCH_FLEXIBLE: cython.int = 12
_TOPIC_IDS: cython.int = 13

_FLEXIBLE_FROM: bytes = FLEXIBLE_FROM
_KEYS: cython.Py_ssize_t = len(FLEXIBLE_FROM)
_NEVER: cython.int = NEVER
_NO_ID = Uuid.ZERO
_NO_HIGH_WATERMARK = 0x7FFFFFFFFFFFFFFF
_new_bytes = bytes.__new__
_new_tuple = tuple.__new__

_Reader = cython.struct(data=cython.p_uchar, pos=cython.Py_ssize_t, end=cython.Py_ssize_t)
"""Where in a range the reading is."""


def split(buf, start: cython.Py_ssize_t, end: cython.Py_ssize_t, max_frame: cython.Py_ssize_t):
    """The whole frames in a range: their bounds, where the rest begins, and the size of the frame it begins."""
    view: Py_buffer
    data: cython.p_uchar
    size: cython.Py_ssize_t
    frames: list = []
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        _check_bounds(view.len, start, end)
        data = cython.cast(cython.p_uchar, view.buf)
        while end - start >= 4:
            size = load32(data + start)
            if size < 0 or size > max_frame:
                if frames:
                    return frames, start, -1
                raise MalformedMessage(f"a frame of {size} bytes: from 0 to {max_frame} are allowed")
            if end - start - 4 < size:
                return frames, start, size + 4
            frames.append((start + 4, start + 4 + size))
            start += 4 + size
        return frames, start, 0
    finally:
        PyBuffer_Release(cython.address(view))


def parse_header(buf, pos: cython.Py_ssize_t, end: cython.Py_ssize_t):
    """API key, version, correlation id, client id ("" if null), and where the request's body begins."""
    view: Py_buffer
    reader: _Reader
    key: cython.int
    version: cython.int
    correlation_id: int32_t
    first: cython.int = _NEVER
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        _begin(cython.address(reader), cython.address(view), pos, end)
        pos = _take(cython.address(reader), 8)
        key = load16(reader.data + pos)
        version = load16(reader.data + pos + 2)
        correlation_id = load32(reader.data + pos + 4)
        client_id = _nullable_string(cython.address(reader), False)
        if 0 <= key < _KEYS:
            first = cython.cast(cython.p_uchar, PyBytes_AS_STRING(_FLEXIBLE_FROM))[key]
        if first != _NEVER and version >= first:
            _skip_tags(cython.address(reader))
        return key, version, correlation_id, "" if client_id is None else client_id, reader.pos
    finally:
        PyBuffer_Release(cython.address(view))


def sole_client(buf, frames: list):
    """The key of the API and the client id ("" if null) that all frames have; None if they differ."""
    view: Py_buffer
    data: cython.p_uchar
    named: cython.p_uchar
    first: cython.p_uchar = cython.NULL
    key: cython.int = 0
    start: cython.Py_ssize_t
    end: cython.Py_ssize_t
    size: cython.Py_ssize_t
    length: cython.Py_ssize_t = 0
    frame: tuple
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        for frame in frames:
            start = frame[0]
            end = frame[1]
            if start < 0 or end > view.len or end - start < 10:
                return None
            data = cython.cast(cython.p_uchar, view.buf) + start
            size = load16(data + 8)
            if size < -1 or 10 + size > end - start:
                return None
            size = size if size > 0 else 0
            named = data + 10
            if first == cython.NULL:
                key = load16(data)
                first = named
                length = size
            elif load16(data) != key or size != length or memcmp(first, named, length) != 0:
                return None
        if first == cython.NULL:
            return None
        return key, PyUnicode_DecodeUTF8(cython.cast(cython.p_char, first), length, cython.NULL)
    except UnicodeDecodeError:
        return None
    finally:
        PyBuffer_Release(cython.address(view))


def parse_produce(buf, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, version: cython.int):
    """Transactional id, acks, timeout, and each topic's (partition, records) pairs; records are views of `buf`."""
    if version < _PRODUCE_MIN or version > _PRODUCE_MAX:
        raise UnsupportedVersion(f"Produce has no version {version}")
    view: Py_buffer
    reader: _Reader
    at: cython.pointer[_Reader] = cython.address(reader)
    flexible: cython.bint = version >= _PRODUCE_FLEXIBLE
    acks: cython.int
    timeout_ms: int32_t
    left: cython.Py_ssize_t = _MAX_PRODUCED
    topics: list = []
    partitions: list
    whole = buf if type(buf) is memoryview else memoryview(buf)
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        _begin(at, cython.address(view), pos, end)
        transactional_id = _nullable_string(at, flexible)
        pos = _take(at, 6)
        acks = load16(reader.data + pos)
        timeout_ms = load32(reader.data + pos + 2)
        for _ in range(_array(at, flexible)):
            topic = _topic(at, version, flexible)
            partitions = _produce_partitions(at, flexible, whole, left)
            left -= len(partitions) + 1
            if left < 0:
                raise MalformedMessage(f"records for more than {_MAX_PRODUCED} topics and partitions")
            topics.append((topic, partitions))
            if flexible:
                _skip_tags(at)
        if flexible:
            _skip_tags(at)
        return transactional_id, acks, timeout_ms, topics
    finally:
        PyBuffer_Release(cython.address(view))


def parse_single(buf, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, version: cython.int):
    """Acks, topic, partition, and where the records begin and end, of a Produce request that is no more than that."""
    if version < _PRODUCE_MIN or version > _PRODUCE_MAX:
        raise UnsupportedVersion(f"Produce has no version {version}")
    view: Py_buffer
    reader: _Reader
    at: cython.pointer[_Reader] = cython.address(reader)
    flexible: cython.bint = version >= _PRODUCE_FLEXIBLE
    acks: cython.int
    partition: int32_t
    size: cython.Py_ssize_t
    start: cython.Py_ssize_t
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        _begin(at, cython.address(view), pos, end)
        if _nullable_string(at, flexible) is not None:
            return None
        acks = load16(reader.data + _take(at, 6))
        if _array(at, flexible) != 1:
            return None
        topic = _topic(at, version, flexible)
        if _array(at, flexible) != 1:
            return None
        partition = _int32(at)
        size = _uvarint(at) - 1 if flexible else _int32(at)
        if size == -1:
            return None
        start = _take(at, size)
        if flexible:
            _skip_tags(at)
            _skip_tags(at)
            _skip_tags(at)
        return acks, topic, partition, start, start + size
    finally:
        PyBuffer_Release(cython.address(view))


def parse_fetch(buf, pos: cython.Py_ssize_t, end: cython.Py_ssize_t, version: cython.int):
    """The fields of a fetch request."""
    if version < _FETCH_MIN or version > _FETCH_MAX:
        raise UnsupportedVersion(f"Fetch has no version {version}")
    view: Py_buffer
    reader: _Reader
    at: cython.pointer[_Reader] = cython.address(reader)
    flexible: cython.bint = version >= _FETCH_FLEXIBLE
    replica_id: int32_t = -1
    replica_epoch: int64_t = -1
    max_wait_ms: int32_t
    min_bytes: int32_t
    max_bytes: int32_t
    isolation_level: cython.schar
    session_id: int32_t = 0
    session_epoch: int32_t = -1
    left: cython.Py_ssize_t = _MAX_FETCHED
    topics: list = []
    partitions: list
    forgotten: list = []
    indexes: list
    cluster_id = None
    rack_id = ""
    PyObject_GetBuffer(buf, cython.address(view), PyBUF_SIMPLE)
    try:
        _begin(at, cython.address(view), pos, end)
        if version < 15:
            replica_id = _int32(at)
        max_wait_ms = _int32(at)
        min_bytes = _int32(at)
        max_bytes = _int32(at)
        isolation_level = cython.cast(cython.schar, reader.data[_take(at, 1)])
        if version >= 7:
            session_id = _int32(at)
            session_epoch = _int32(at)
        for _ in range(_array(at, flexible)):
            topic = _topic(at, version, flexible)
            partitions = _fetch_partitions(at, version, flexible, left)
            left = _within(left, len(partitions) + 1)
            topics.append((topic, partitions))
            if flexible:
                _skip_tags(at)
        if version >= 7:
            for _ in range(_array(at, flexible)):
                topic = _topic(at, version, flexible)
                indexes = _int32s(at, flexible, left)
                left = _within(left, len(indexes) + 1)
                forgotten.append((topic, indexes))
                if flexible:
                    _skip_tags(at)
        if version >= 11:
            rack_id = _string(at, flexible)
        if flexible:
            cluster_id = _fetch_tags(at, version, cython.address(replica_id), cython.address(replica_epoch))
        fields = (
            replica_id,
            replica_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            topics,
            forgotten,
            rack_id,
            cluster_id,
        )
        return _new_tuple(FetchFields, fields)
    finally:
        PyBuffer_Release(cython.address(view))


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _check_bounds(size: cython.Py_ssize_t, pos: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
    if pos < 0 or pos > end or end > size:
        raise ValueError(f"no range of {size} bytes: {pos} to {end}")
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _begin(
    at: cython.pointer[_Reader], view: cython.pointer[Py_buffer], pos: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.int:
    _check_bounds(view.len, pos, end)
    at.data = cython.cast(cython.p_uchar, view.buf)
    at.pos = pos
    at.end = end
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def _take(at: cython.pointer[_Reader], size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Move on by a size; where it was."""
    pos: cython.Py_ssize_t = at.pos
    if size < 0 or size > at.end - pos:
        raise MalformedMessage(f"{size} bytes are wanted where {at.end - pos} are left")
    at.pos = pos + size
    return pos


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=True)
def _int32(at: cython.pointer[_Reader]) -> int32_t:
    return load32(at.data + _take(at, 4))


@cython.cfunc
@cython.exceptval(-1)
def _uvarint(at: cython.pointer[_Reader]) -> int64_t:
    value: uint64_t = 0
    shift: cython.int = 0
    byte: cython.uchar
    while True:
        byte = at.data[_take(at, 1)]
        value |= cython.cast(uint64_t, byte & 0x7F) << shift
        if byte < 0x80:
            break
        if shift == 28:
            raise MalformedMessage("a variable-length integer has no last byte")
        shift += 7
    if value > 0xFFFFFFFF:
        raise MalformedMessage("a variable-length integer is too large for its type")
    return value


@cython.cfunc
def _nullable_string(at: cython.pointer[_Reader], flexible: cython.bint):
    size: cython.Py_ssize_t
    pos: cython.Py_ssize_t
    size = _uvarint(at) - 1 if flexible else load16(at.data + _take(at, 2))
    if size == -1:
        return None
    pos = _take(at, size)
    try:
        return PyUnicode_DecodeUTF8(cython.cast(cython.p_char, at.data + pos), size, cython.NULL)
    except UnicodeDecodeError:
        raise MalformedMessage("a string is not UTF-8") from None


@cython.cfunc
def _string(at: cython.pointer[_Reader], flexible: cython.bint):
    text = _nullable_string(at, flexible)
    if text is None:
        raise MalformedMessage("a string is null that may not be")
    return text


@cython.cfunc
@cython.exceptval(-1)
def _array(at: cython.pointer[_Reader], flexible: cython.bint) -> cython.Py_ssize_t:
    """The number of elements that follow; each has at least one byte."""
    size: cython.Py_ssize_t
    size = _uvarint(at) - 1 if flexible else _int32(at)
    if size < 0 or size > at.end - at.pos:
        raise MalformedMessage(f"an array of {size} elements in {at.end - at.pos} bytes")
    return size


@cython.cfunc
def _uuid(at: cython.pointer[_Reader]):
    pos: cython.Py_ssize_t = _take(at, 16)
    return _new_bytes(Uuid, PyBytes_FromStringAndSize(cython.cast(cython.p_char, at.data + pos), 16))


@cython.cfunc
def _topic(at: cython.pointer[_Reader], version: cython.int, flexible: cython.bint):
    return _uuid(at) if version >= _TOPIC_IDS else _string(at, flexible)


@cython.cfunc
def _produce_partitions(at: cython.pointer[_Reader], flexible: cython.bint, whole, left: cython.Py_ssize_t) -> list:
    partitions: list = []
    partition: int32_t
    size: cython.Py_ssize_t
    pos: cython.Py_ssize_t
    count: cython.Py_ssize_t = _array(at, flexible)
    if count > left:
        raise MalformedMessage(f"records for more than {_MAX_PRODUCED} topics and partitions")
    for _ in range(count):
        partition = _int32(at)
        size = _uvarint(at) - 1 if flexible else _int32(at)
        if size == -1:
            partitions.append((partition, None))
        else:
            pos = _take(at, size)
            partitions.append((partition, whole[pos : pos + size]))
        if flexible:
            _skip_tags(at)
    return partitions


@cython.cfunc
@cython.exceptval(-1)
def _within(left: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """What a Fetch may name after so many topics and partitions."""
    if count > left:
        raise MalformedMessage(f"a Fetch of more than {_MAX_FETCHED} topics and partitions")
    return left - count


@cython.cfunc
def _fetch_partitions(
    at: cython.pointer[_Reader], version: cython.int, flexible: cython.bint, left: cython.Py_ssize_t
) -> list:
    partitions: list = []
    elements: cython.Py_ssize_t = _array(at, flexible)
    _within(left, elements)
    partition: int32_t
    leader_epoch: int32_t
    fetch_offset: int64_t
    last_fetched_epoch: int32_t
    log_start_offset: int64_t
    max_bytes: int32_t
    count: int64_t
    tag: int64_t
    field: _Reader
    for _ in range(elements):
        partition = _int32(at)
        leader_epoch = _int32(at) if version >= 9 else -1
        fetch_offset = load64(at.data + _take(at, 8))
        last_fetched_epoch = _int32(at) if version >= 12 else -1
        log_start_offset = load64(at.data + _take(at, 8)) if version >= 5 else -1
        max_bytes = _int32(at)
        directory_id = _NO_ID
        high_watermark = _NO_HIGH_WATERMARK
        if flexible:
            count = _tag_count(at)
            while count:
                count -= 1
                tag = _tagged(at, cython.address(field))
                if tag == 0 and version >= 17:
                    directory_id = _uuid(cython.address(field))
                elif tag == 1 and version >= 18:
                    high_watermark = load64(field.data + _take(cython.address(field), 8))
        partitions.append(
            (
                partition,
                leader_epoch,
                fetch_offset,
                last_fetched_epoch,
                log_start_offset,
                max_bytes,
                directory_id,
                high_watermark,
            )
        )
    return partitions


@cython.cfunc
def _fetch_tags(
    at: cython.pointer[_Reader],
    version: cython.int,
    replica_id: cython.pointer[int32_t],
    replica_epoch: cython.pointer[int64_t],
):
    """Reads the last section of a fetch request; the cluster id."""
    cluster_id = None
    field: _Reader
    pos: cython.Py_ssize_t
    tag: int64_t
    count: int64_t = _tag_count(at)
    while count:
        count -= 1
        tag = _tagged(at, cython.address(field))
        if tag == 0:
            cluster_id = _nullable_string(cython.address(field), True)
        elif tag == 1 and version >= 15:
            pos = _take(cython.address(field), 12)
            replica_id[0] = load32(field.data + pos)
            replica_epoch[0] = load64(field.data + pos + 4)
            _skip_tags(cython.address(field))
    return cluster_id


@cython.cfunc
def _int32s(at: cython.pointer[_Reader], flexible: cython.bint, left: cython.Py_ssize_t) -> list:
    numbers: list = []
    elements: cython.Py_ssize_t = _array(at, flexible)
    _within(left, elements)
    for _ in range(elements):
        numbers.append(_int32(at))
    return numbers


@cython.cfunc
@cython.exceptval(-1)
def _tag_count(at: cython.pointer[_Reader]) -> int64_t:
    count: int64_t = _uvarint(at)
    if count > at.end - at.pos or count > _MAX_TAGS:
        raise MalformedMessage(f"{count} tagged fields in {at.end - at.pos} bytes")
    return count


@cython.cfunc
@cython.exceptval(-1)
def _tagged(at: cython.pointer[_Reader], field: cython.pointer[_Reader]) -> int64_t:
    """The tag of the next tagged field; `field` reads its bytes."""
    tag: int64_t = _uvarint(at)
    size: int64_t = _uvarint(at)
    field.data = at.data
    field.pos = _take(at, size)
    field.end = at.pos
    return tag


@cython.cfunc
@cython.exceptval(-1)
def _skip_tags(at: cython.pointer[_Reader]) -> cython.int:
    field: _Reader
    count: int64_t = _tag_count(at)
    while count:
        count -= 1
        _tagged(at, cython.address(field))
    return 0
