"""Produce and Fetch responses in plain Python: the fallback, and the oracle of `_responses`."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from kavka.kernels.layout import INLINE_RECORDS, FetchedPartition, NodeEndpoint, ProducedPartition, Records, Topic
from kavka.model.errors import UnsupportedVersion
from kavka.model.types import FileSlice, Piece

_PRODUCE: Final = range(3, 14)
_FETCH: Final = range(4, 19)
_PRODUCE_FLEXIBLE: Final = 9
_FETCH_FLEXIBLE: Final = 12

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


def encode_produce_response(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[Topic, Sequence[ProducedPartition]]],
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The whole response frame; what the version has no field for is left out."""
    if version not in _PRODUCE:
        raise UnsupportedVersion(f"Produce has no version {version}")
    flexible = version >= _PRODUCE_FLEXIBLE
    out = _Writer(correlation_id, flexible)
    out.array(len(topics), flexible)
    for topic, partitions in topics:
        out.topic(topic, flexible)
        out.array(len(partitions), flexible)
        for partition in partitions:
            out.produced_partition(partition, version)
        if flexible:
            out.uvarint(0)
    out.int32(throttle_time_ms)
    if flexible:
        out.node_endpoints(node_endpoints if version >= 10 else ())
    out.finish()
    return bytes(out.first)


def encode_produced(
    version: int,
    correlation_id: int,
    topic: Topic,
    partition: int,
    offset: int,
    append_time: int,
    log_start_offset: int,
) -> bytes:
    """The response to a request whose one batch was appended."""
    row = (partition, 0, offset, append_time, log_start_offset)
    return encode_produce_response(version, correlation_id, [(topic, [row])])


def encode_fetch_response(
    version: int,
    correlation_id: int,
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    topics: Sequence[tuple[Topic, Sequence[FetchedPartition]]],
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Piece]:
    """The whole response frame in pieces: files and large records as they were given, bytes around them."""
    if version not in _FETCH:
        raise UnsupportedVersion(f"Fetch has no version {version}")
    flexible = version >= _FETCH_FLEXIBLE
    out = _Writer(correlation_id, flexible)
    out.int32(throttle_time_ms)
    if version >= 7:
        out.int16(error_code)
        out.int32(session_id)
    out.array(len(topics), flexible)
    for topic, partitions in topics:
        out.topic(topic, flexible)
        out.array(len(partitions), flexible)
        for partition in partitions:
            out.fetched_partition(partition, version)
        if flexible:
            out.uvarint(0)
    if flexible:
        out.node_endpoints(node_endpoints if version >= 16 else ())
    return out.finish()


class _Writer:
    """Writes a response frame, as pieces where it carries records by reference."""

    __slots__ = ("first", "out", "pieces", "total")

    def __init__(self, correlation_id: int, flexible: bool) -> None:
        self.first = self.out = bytearray(4)  # the frame's size, once it is known
        self.pieces: list[Piece] = []
        self.total = 0
        self.int32(correlation_id)
        if flexible:
            self.uvarint(0)

    def finish(self) -> list[Piece]:
        """The pieces, with the frame's size in the first."""
        self._cut()
        _INT32.pack_into(self.first, 0, self.total - 4)
        return self.pieces

    def int16(self, value: int) -> None:
        self.out += _INT16.pack(value)

    def int32(self, value: int) -> None:
        self.out += _INT32.pack(value)

    def int64(self, value: int) -> None:
        self.out += _INT64.pack(value)

    def uvarint(self, value: int) -> None:
        while value > 0x7F:
            self.out.append(value & 0x7F | 0x80)
            value >>= 7
        self.out.append(value)

    def array(self, size: int, flexible: bool) -> None:
        if flexible:
            self.uvarint(size + 1)
        else:
            self.int32(size)

    def string(self, text: str | None, flexible: bool) -> None:
        data = None if text is None else text.encode()
        size = -1 if data is None else len(data)
        if flexible:
            self.uvarint(size + 1)
        else:
            self.int16(size)
        if data:
            self.out += data

    def topic(self, topic: Topic, flexible: bool) -> None:
        if isinstance(topic, str):
            self.string(topic, flexible)
        else:
            self.out += topic

    def records(self, records: Records, flexible: bool) -> None:
        size = -1 if records is None else len(records)
        self.array(size, flexible)
        if records is None or size == 0:
            return
        if isinstance(records, FileSlice) or size > INLINE_RECORDS:
            self._cut()
            self.pieces.append(records)
            self.total += size
        else:
            self.out += records

    def produced_partition(self, partition: ProducedPartition, version: int) -> None:
        index, error_code, base_offset, log_append_time, log_start_offset = partition[:5]
        self.int32(index)
        self.int16(error_code)
        self.int64(base_offset)
        self.int64(log_append_time)
        if version >= 5:
            self.int64(log_start_offset)
        flexible = version >= _PRODUCE_FLEXIBLE
        record_errors: Sequence[tuple[int, str | None]] = ()
        message = leader = None
        if len(partition) == 8:
            record_errors, message, leader = partition[5], partition[6], partition[7]
        if version >= 8:
            self.array(len(record_errors), flexible)
            for batch_index, text in record_errors:
                self.int32(batch_index)
                self.string(text, flexible)
                if flexible:
                    self.uvarint(0)
            self.string(message, flexible)
        if flexible:
            self.tagged([(0, _pair(_INT32, _INT32, leader))] if version >= 10 else [])

    def fetched_partition(self, partition: FetchedPartition, version: int) -> None:
        index, error_code, high_watermark, last_stable_offset, log_start_offset, aborted, replica, records = partition[
            :8
        ]
        flexible = version >= _FETCH_FLEXIBLE
        self.int32(index)
        self.int16(error_code)
        self.int64(high_watermark)
        self.int64(last_stable_offset)
        if version >= 5:
            self.int64(log_start_offset)
        self.array(-1 if aborted is None else len(aborted), flexible)
        for producer_id, first_offset in aborted or ():
            self.int64(producer_id)
            self.int64(first_offset)
            if flexible:
                self.uvarint(0)
        if version >= 11:
            self.int32(replica)
        self.records(records, flexible)
        if flexible:
            diverging = leader = snapshot = None
            if len(partition) != 8:
                diverging, leader, snapshot = partition[8], partition[9], partition[10]
            self.tagged(
                [
                    (0, _pair(_INT32, _INT64, diverging)),
                    (1, _pair(_INT32, _INT32, leader)),
                    (2, _pair(_INT64, _INT32, snapshot)),
                ]
            )

    def tagged(self, fields: list[tuple[int, bytes | None]]) -> None:
        """A section of tagged fields, without those that have their default."""
        present = [(tag, field) for tag, field in fields if field is not None]
        self.uvarint(len(present))
        for tag, field in present:
            self.uvarint(tag)
            self.uvarint(len(field))
            self.out += field

    def node_endpoints(self, endpoints: Sequence[NodeEndpoint]) -> None:
        """The last section of tagged fields."""
        if not endpoints:
            self.uvarint(0)
            return
        inner = _Writer(0, True)
        inner.out.clear()
        inner.array(len(endpoints), True)
        for node_id, host, port, rack in endpoints:
            inner.int32(node_id)
            inner.string(host, True)
            inner.int32(port)
            inner.string(rack, True)
            inner.uvarint(0)
        self.tagged([(0, bytes(inner.out))])

    def _cut(self) -> None:
        self.pieces.append(self.out)
        self.total += len(self.out)
        self.out = bytearray()


def _pair(first: Struct, second: Struct, pair: tuple[int, int] | None) -> bytes | None:
    """A tagged structure of two numbers; None where both have their default."""
    if pair is None or pair == (-1, -1):
        return None
    return first.pack(pair[0]) + second.pack(pair[1]) + b"\0"
