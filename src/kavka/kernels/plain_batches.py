"""Record batch headers in plain Python: the fallback where nothing compiles, and the oracle of `_batches`.

Layout of a v2 batch: base offset 0-7, length of the rest 8-11, leader epoch 12-15, magic 16, CRC-32C 17-20
(of everything from 21), attributes 21-22, last offset delta 23-26, base timestamp 27-34, max timestamp 35-42,
producer id 43-50, producer epoch 51-52, base sequence 53-56, record count 57-60, records from 61.

A record: its length, attributes (one unused byte), timestamp delta, offset delta, key, value, headers; every
number a signed varint, and a length of -1 for a key or value that is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c as _crc32c

from kavka.kernels.layout import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    OLD_MAGIC,
    PREFIX_SIZE,
    TRUNCATED,
    WRONG_CRC,
    WRONG_MAGIC,
    WRONG_SIZE,
    Buffer,
    Header,
    RecordFields,
)
from kavka.kernels.plain_walk import RecordScan
from kavka.model.errors import CorruptMessage, InvalidRecord, KafkaError

_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_MIN_LENGTH: Final = 14  # of a v0 message: below it no format has anything to read
_LOG_APPEND_TIME: Final = 0x08
_INT32_MAX: Final = 0x7FFFFFFF
_INT64_HALF: Final = 1 << 63
_VARINT: Final = 28  # the shift of the last of five bytes
_VARLONG: Final = 63  # and of the last of ten

_HEADER = Struct(">qiibIhiqqqhii")
_INT64 = Struct(">q")
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_INT16 = Struct(">h")


class BatchInfo:
    """The header of one batch and where in the scanned buffer it lies."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
        "size",
    )

    def __init__(
        self,
        position: int = 0,
        size: int = HEADER_SIZE,
        base_offset: int = 0,
        leader_epoch: int = -1,
        magic: int = 2,
        crc: int = 0,
        attributes: int = 0,
        last_offset_delta: int = 0,
        base_timestamp: int = -1,
        max_timestamp: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        count: int = 0,
    ) -> None:
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
    def last_offset(self) -> int:
        """The offset of the last record the batch was built with."""
        return _wrapped(self.base_offset + self.last_offset_delta)

    @property
    def codec(self) -> int:
        """The id of the compression codec; 0 is none."""
        return self.attributes & 0x07

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record has the batch's max timestamp."""
        return self.attributes & _LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & 0x10 != 0

    @property
    def is_control(self) -> bool:
        """Whether the records are markers for brokers rather than data."""
        return self.attributes & 0x20 != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is the time from which tombstones may go (KIP-534)."""
        return self.attributes & 0x40 != 0

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record: after 2^31 - 1 comes 0."""
        if self.base_sequence == -1:
            return -1
        last = self.base_sequence + self.last_offset_delta
        return last if last <= _INT32_MAX else last - _INT32_MAX - 1

    def numbers(self) -> tuple[int, int, int, int, int, int, int, int]:
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

    def fields(self) -> tuple[int, ...]:
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

    def __eq__(self, other: object) -> bool:
        return self.fields() == other.fields() if isinstance(other, BatchInfo) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fields())

    def __reduce__(self) -> tuple[type[BatchInfo], tuple[int, ...]]:
        return BatchInfo, self.fields()

    def __repr__(self) -> str:
        return (
            f"BatchInfo(position={self.position}, size={self.size}, offsets={self.base_offset}-{self.last_offset}, "
            f"leader_epoch={self.leader_epoch}, count={self.count}, attributes={self.attributes:#06x}, "
            f"producer={self.producer_id}/{self.producer_epoch}, base_sequence={self.base_sequence})"
        )


class Limits:
    """What a topic demands of the batches that clients send it."""

    __slots__ = ("after_max_ms", "before_max_ms", "keyed", "max_size")

    def __init__(
        self,
        max_size: int = _INT32_MAX,
        after_max_ms: int = _INT64_HALF - 1,
        before_max_ms: int = _INT64_HALF - 1,
        keyed: bool = False,
    ) -> None:
        self.max_size = max_size
        self.after_max_ms = after_max_ms
        self.before_max_ms = before_max_ms
        self.keyed = keyed


_NO_LIMITS = Limits()


def scan(buf: Buffer, pos: int = 0, end: int = -1, check_crc: bool = True) -> list[BatchInfo]:
    """The batches that fill a buffer exactly; anything else raises as Kafka would."""
    infos, valid, reason = scan_prefix(buf, pos, end, check_crc)
    if reason is not None:
        raise _error(reason, valid)
    return infos


def scan_prefix(
    buf: Buffer, pos: int = 0, end: int = -1, check_crc: bool = True
) -> tuple[list[BatchInfo], int, str | None]:
    """The sound batches a buffer begins with, where they end, and what is wrong there (None: nothing)."""
    view = memoryview(buf)
    end = _bounds(len(view), pos, end)
    infos: list[BatchInfo] = []
    while pos < end:
        reason = _fault(view, pos, end, check_crc)
        if reason is not None:
            return infos, pos, reason
        info = _read(view, pos)
        infos.append(info)
        pos += info.size
    return infos, pos, None


def accept(buf: Buffer, pos: int = 0, end: int = -1, now_ms: int = 0, limits: Limits = _NO_LIMITS) -> BatchInfo | None:
    """The one sound batch that fills a buffer, if it breaks no rule for clients; None if anything is amiss.

    The records are walked through unless they are compressed: they are what the header says, the largest timestamp
    included, none is older or newer than it may be, and if they are to be keyed, all are.
    """
    view = memoryview(buf)
    end = _bounds(len(view), pos, end)
    if _fault(view, pos, end, True) is not None:
        return None
    info = _read(view, pos)
    sound = (
        info.size == end - pos
        and info.size <= limits.max_size
        and info.base_offset == 0
        and 0 < info.count == info.last_offset_delta + 1
        and not info.is_control
        and not info.is_log_append_time
        and (info.producer_id < 0 or info.base_sequence >= 0)
        and info.codec <= 4
    )
    if not sound or info.codec:
        return info if sound else None
    walk = RecordScan(info.count, info.base_timestamp)
    walk.require(now_ms, limits.before_max_ms, limits.after_max_ms, limits.keyed, True)
    try:
        walk.feed(view, pos + HEADER_SIZE, end)
        walk.finish()
    except InvalidRecord:
        return None
    return info if not walk.rejections and walk.max_timestamp == info.max_timestamp else None


def patch(buf: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch at a position its offset and leader epoch, in place; the CRC covers neither."""
    view = _writable(buf, position, PREFIX_SIZE)
    _INT64.pack_into(view, position, base_offset)
    _INT32.pack_into(view, position + 12, leader_epoch)


def patched_prefix(buf: Buffer, info: BatchInfo, base_offset: int, leader_epoch: int) -> bytes:
    """The batch's first 17 bytes with another offset and leader epoch; the rest of the batch follows unchanged."""
    position = info.position
    view = memoryview(buf)
    if position < 0 or len(view) - position < PREFIX_SIZE:
        raise _error(TRUNCATED, position)
    return b"".join(
        (
            _INT64.pack(base_offset),
            view[position + 8 : position + 12],
            _INT32.pack(leader_epoch),
            view[position + 16 : position + 17],
        )
    )


def set_log_append_time(buf: bytearray | memoryview, position: int, timestamp: int) -> None:
    """Stamp the batch at a position with the broker's time: timestamp type, max timestamp and CRC, in place."""
    view = _writable(buf, position, HEADER_SIZE)
    end = position + LOG_OVERHEAD + int(_INT32.unpack_from(view, position + 8)[0])
    if end > len(view) or end < position + HEADER_SIZE:
        raise _error(TRUNCATED, position)
    (attributes,) = _INT16.unpack_from(view, position + _ATTRIBUTES_AT)
    _INT16.pack_into(view, position + _ATTRIBUTES_AT, attributes & 0x7F | _LOG_APPEND_TIME)
    _INT64.pack_into(view, position + 35, timestamp)
    _UINT32.pack_into(view, position + _CRC_AT, _crc32c(view[position + _ATTRIBUTES_AT : end]))


def crc32c(buf: Buffer, value: int = 0) -> int:
    """The CRC-32C of some bytes, or of `value`'s bytes followed by them."""
    return _crc32c(buf, value)


def read_records(data: Buffer, info: BatchInfo, pos: int = 0, end: int = -1) -> list[RecordFields]:
    """The records in a batch's decompressed payload; InvalidRecord unless the payload is exactly these."""
    view = memoryview(data)
    end = _bounds(len(view), pos, end)
    if info.count < 0:
        raise InvalidRecord(f"the batch says it has {info.count} records")
    append_time = info.max_timestamp if info.is_log_append_time else None
    records: list[RecordFields] = []
    for _ in range(info.count):
        record, pos = _read_record(view, pos, end, info.base_offset, info.base_timestamp, append_time)
        records.append(record)
    if pos != end:
        raise InvalidRecord(f"{end - pos} bytes follow the batch's last record")
    return records


def read_some(data: Buffer, info: BatchInfo, pos: int, most: int) -> tuple[list[RecordFields], int]:
    """The records that are whole in what is there of a batch's decompressed payload, and where the next one begins.

    Not more than `most` of them.
    """
    view = memoryview(data)
    end = _bounds(len(view), pos, len(view))
    append_time = info.max_timestamp if info.is_log_append_time else None
    records: list[RecordFields] = []
    while len(records) < most:
        first = next((at for at in range(pos, min(pos + 4, end)) if view[at] < 0x80), pos + 4)
        if first >= end:
            break
        size, at = _read_varint(view, pos, end)
        if size > end - at:
            break
        record, pos = _read_record(view, pos, end, info.base_offset, info.base_timestamp, append_time)
        records.append(record)
    view.release()
    return records, pos


def encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
) -> bytes:
    """One record as a batch's payload holds it."""
    body = bytearray(1)  # attributes: none is in use
    _write_varint(body, timestamp_delta)
    _write_varint(body, offset_delta)
    _write_nullable(body, key)
    _write_nullable(body, value)
    _write_varint(body, len(headers))
    for name, content in headers:
        _write_nullable(body, name.encode())
        _write_nullable(body, content)
    out = bytearray()
    _write_varint(out, len(body))
    return bytes(out + body)


def _read_record(
    view: memoryview, pos: int, end: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> tuple[RecordFields, int]:
    size, pos = _read_varint(view, pos, end)
    if not 0 < size <= end - pos:
        raise InvalidRecord(f"a record of {size} bytes in {end - pos}")
    end = pos + size
    timestamp_delta, pos = _read_varint(view, pos + 1, end, _VARLONG)
    offset_delta, pos = _read_varint(view, pos, end)
    key, pos = _read_nullable(view, pos, end)
    value, pos = _read_nullable(view, pos, end)
    count, pos = _read_varint(view, pos, end)
    if not 0 <= count <= end - pos:
        raise InvalidRecord(f"a record with {count} headers in {end - pos} bytes")
    headers: list[Header] = []
    for _ in range(count):
        raw_name, pos = _read_nullable(view, pos, end)
        name = _header_name(raw_name)
        content, pos = _read_nullable(view, pos, end)
        headers.append((name, content))
    if pos != end:
        raise InvalidRecord(f"a record is {end - pos} bytes longer than its fields")
    timestamp = _wrapped(base_timestamp + timestamp_delta) if append_time is None else append_time
    return (_wrapped(base_offset + offset_delta), timestamp, key, value, tuple(headers)), pos


def _wrapped(value: int) -> int:
    """A sum as 64 bits hold it, which is all that its readers have."""
    return (value + _INT64_HALF) % (2 * _INT64_HALF) - _INT64_HALF


def _header_name(name: bytes | None) -> str:
    if name is None:
        raise InvalidRecord("a header without a name")
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise InvalidRecord("a header's name is not UTF-8") from None


def _read_nullable(view: memoryview, pos: int, end: int) -> tuple[bytes | None, int]:
    size, pos = _read_varint(view, pos, end)
    if size < 0:
        return None, pos
    if size > end - pos:
        raise InvalidRecord(f"a field of {size} bytes in {end - pos}")
    return bytes(view[pos : pos + size]), pos + size


def _read_varint(view: memoryview, pos: int, end: int, max_shift: int = _VARINT) -> tuple[int, int]:
    value = shift = 0
    while pos < end:
        byte = view[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == max_shift and byte >> (4 if max_shift == _VARINT else 1):
                break
            return (value >> 1) ^ -(value & 1), pos
        if shift == max_shift:
            break
        shift += 7
    raise InvalidRecord("a record has a bad variable-length integer")


def _write_varint(out: bytearray, value: int) -> None:
    value = value << 1 if value >= 0 else ~(value << 1)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _write_nullable(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)  # the varint of -1
    else:
        _write_varint(out, len(data))
        out += data


def _bounds(size: int, pos: int, end: int) -> int:
    if end == -1:
        end = size
    if not 0 <= pos <= end <= size:
        raise ValueError(f"no range of {size} bytes: {pos} to {end}")
    return end


def _fault(view: memoryview, pos: int, end: int, check_crc: bool) -> str | None:
    """What keeps the bytes at a position from being a batch; None if they are one."""
    remaining = end - pos
    if remaining < LOG_OVERHEAD:
        return TRUNCATED
    length: int = _INT32.unpack_from(view, pos + 8)[0]
    if length < _MIN_LENGTH:
        return WRONG_SIZE
    if remaining < PREFIX_SIZE:
        return TRUNCATED
    magic = view[pos + 16]
    if magic > 2:
        return WRONG_MAGIC
    if length + LOG_OVERHEAD > remaining:
        return TRUNCATED
    if magic < 2:
        return OLD_MAGIC
    if length + LOG_OVERHEAD < HEADER_SIZE:
        return WRONG_SIZE
    if check_crc:
        (crc,) = _UINT32.unpack_from(view, pos + _CRC_AT)
        if crc != _crc32c(view[pos + _ATTRIBUTES_AT : pos + LOG_OVERHEAD + length]):
            return WRONG_CRC
    return None


def _read(view: memoryview, pos: int) -> BatchInfo:
    base_offset, length, *rest = _HEADER.unpack_from(view, pos)
    return BatchInfo(pos, length + LOG_OVERHEAD, base_offset, *rest)


def _error(reason: str, position: int) -> KafkaError:
    kind = InvalidRecord if reason == OLD_MAGIC else CorruptMessage
    return kind(f"{reason} (at byte {position})")


def _writable(buf: bytearray | memoryview, position: int, needed: int) -> memoryview:
    view = memoryview(buf)
    if view.readonly:
        raise TypeError("a batch is patched in a writable buffer")
    if position < 0 or len(view) - position < needed:
        raise _error(TRUNCATED, position)
    return view
