"""Building v2 record batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final

from kavka.kernels.batches import HEADER_SIZE, LOG_OVERHEAD, BatchInfo, encode_record
from kavka.records.batch import Buffer, Header, Record
from kavka.wire.compression import NONE, compress
from kavka.wire.crc32c import crc32c

NO_TIMESTAMP: Final = -1

_INT32_MAX: Final = 0x7FFFFFFF
_INT64_HALF: Final = 1 << 63

_OUTSIDE_CRC = Struct(">qiibI")  # base offset, length, leader epoch, magic, CRC
_UNDER_CRC = Struct(">hiqqqhii")  # attributes, last offset delta, base and max timestamp, producer, sequence, count

_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_DELETE_HORIZON: Final = 0x40
_IN_USE: Final = 0x7F


class BatchBuilder:
    """Collects records and makes a batch of them; the public attributes may change until then."""

    __slots__ = (
        "_base_timestamp",
        "_max_timestamp",
        "_payload",
        "base_offset",
        "base_sequence",
        "codec",
        "control",
        "count",
        "delete_horizon_ms",
        "last_offset",
        "leader_epoch",
        "level",
        "log_append_time",
        "producer_epoch",
        "producer_id",
        "transactional",
    )

    def __init__(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = -1,
        codec: int = NONE,
        level: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        log_append_time: int | None = None,
        delete_horizon_ms: int | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        self.codec = codec
        self.level = level
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.transactional = transactional
        self.control = control
        self.log_append_time = log_append_time
        self.delete_horizon_ms = delete_horizon_ms
        self.count = 0
        self.last_offset = base_offset - 1
        self._payload = bytearray()
        self._base_timestamp = NO_TIMESTAMP if delete_horizon_ms is None else delete_horizon_ms
        self._max_timestamp = NO_TIMESTAMP

    @property
    def size(self) -> int:
        """How large the batch would be now, uncompressed."""
        return HEADER_SIZE + len(self._payload)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp: int = NO_TIMESTAMP,
        headers: Sequence[Header] = (),
        offset: int | None = None,
    ) -> int:
        """Add a record, at the next offset unless a later one is given; the offset it got."""
        if offset is None:
            offset = self.last_offset + 1
        elif offset <= self.last_offset:
            raise ValueError(f"offset {offset} does not follow {self.last_offset}")
        if offset - self.base_offset > _INT32_MAX:
            raise ValueError(f"offset {offset} is too far from the batch's first, {self.base_offset}")
        if not self.count and self.delete_horizon_ms is None:
            self._base_timestamp = timestamp
        delta = timestamp - self._base_timestamp
        if not -_INT64_HALF <= delta < _INT64_HALF:
            delta = (delta + _INT64_HALF) % (
                2 * _INT64_HALF
            ) - _INT64_HALF  # readers add in 64 bits, and come out right
        self._payload += encode_record(offset - self.base_offset, delta, key, value, headers)
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        self.last_offset = offset
        self.count += 1
        return offset

    def build(self, last_offset: int | None = None) -> bytes:
        """The batch; compaction gives the last offset the batch had before records were dropped from its end."""
        if not self.count:
            raise ValueError("a batch has at least one record")
        payload = self._payload if self.codec == NONE else compress(self.codec, self._payload, self.level)
        return _seal(
            BatchInfo(
                size=HEADER_SIZE + len(payload),
                base_offset=self.base_offset,
                leader_epoch=self.leader_epoch,
                attributes=self._attributes(),
                last_offset_delta=(self.last_offset if last_offset is None else last_offset) - self.base_offset,
                base_timestamp=self._base_timestamp,
                max_timestamp=self._max_timestamp if self.log_append_time is None else self.log_append_time,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
                count=self.count,
            ),
            payload,
        )

    def _attributes(self) -> int:
        attributes = self.codec
        if self.log_append_time is not None:
            attributes |= _LOG_APPEND_TIME
        if self.transactional:
            attributes |= _TRANSACTIONAL
        if self.control:
            attributes |= _CONTROL
        if self.delete_horizon_ms is not None:
            attributes |= _DELETE_HORIZON
        return attributes


def build_batch(
    records: Iterable[Record],
    *,
    leader_epoch: int = -1,
    codec: int = NONE,
    level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    log_append_time: int | None = None,
) -> bytes:
    """A batch of records that have their offsets; the first one's is the base offset."""
    builder: BatchBuilder | None = None
    for record in records:
        if builder is None:
            builder = BatchBuilder(
                base_offset=record.offset,
                leader_epoch=leader_epoch,
                codec=codec,
                level=level,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                transactional=transactional,
                control=control,
                log_append_time=log_append_time,
            )
        builder.append(record.key, record.value, record.timestamp, record.headers, record.offset)
    if builder is None:
        raise ValueError("a batch has at least one record")
    return builder.build()


def empty_batch(info: BatchInfo) -> bytes:
    """A batch that lost all its records to compaction: its header stays to remember the producer's sequence."""
    attributes = info.attributes & (_LOG_APPEND_TIME | _TRANSACTIONAL | _CONTROL)
    return _seal(
        BatchInfo(
            size=HEADER_SIZE,
            base_offset=info.base_offset,
            leader_epoch=info.leader_epoch,
            attributes=attributes,
            last_offset_delta=info.last_offset_delta,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=info.max_timestamp,
            producer_id=info.producer_id,
            producer_epoch=info.producer_epoch,
            base_sequence=info.base_sequence,
            count=0,
        ),
        b"",
    )


def restamped(buf: Buffer, info: BatchInfo, max_timestamp: int) -> bytes:
    """A batch with CreateTime and another max timestamp, its records untouched."""
    return _seal(
        BatchInfo(
            size=info.size,
            base_offset=info.base_offset,
            leader_epoch=info.leader_epoch,
            attributes=info.attributes & _IN_USE & ~_LOG_APPEND_TIME,
            last_offset_delta=info.last_offset_delta,
            base_timestamp=info.base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=info.producer_id,
            producer_epoch=info.producer_epoch,
            base_sequence=info.base_sequence,
            count=info.count,
        ),
        memoryview(buf)[info.position + HEADER_SIZE : info.position + info.size],
    )


def recoded(
    info: BatchInfo, codec: int, payload: Buffer, max_timestamp: int, log_append_time: int | None = None
) -> bytes:
    """A batch with the same records in another codec."""
    return _seal(
        BatchInfo(
            size=HEADER_SIZE + len(payload),
            base_offset=info.base_offset,
            leader_epoch=info.leader_epoch,
            attributes=codec | info.attributes & _TRANSACTIONAL | (0 if log_append_time is None else _LOG_APPEND_TIME),
            last_offset_delta=info.last_offset_delta,
            base_timestamp=info.base_timestamp,
            max_timestamp=max_timestamp if log_append_time is None else log_append_time,
            producer_id=info.producer_id,
            producer_epoch=info.producer_epoch,
            base_sequence=info.base_sequence,
            count=info.count,
        ),
        payload,
    )


def _seal(info: BatchInfo, payload: Buffer) -> bytes:
    checked = _UNDER_CRC.pack(
        info.attributes,
        info.last_offset_delta,
        info.base_timestamp,
        info.max_timestamp,
        info.producer_id,
        info.producer_epoch,
        info.base_sequence,
        info.count,
    )
    crc = crc32c(payload, crc32c(checked))
    prefix = _OUTSIDE_CRC.pack(info.base_offset, info.size - LOG_OVERHEAD, info.leader_epoch, info.magic, crc)
    return b"".join((prefix, checked, payload))
