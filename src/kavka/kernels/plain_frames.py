"""Frames, request headers, Produce and Fetch requests in plain Python: the fallback, and the oracle of `_frames`.

Whatever the bytes, reading ends with an answer or MalformedMessage; nothing is allocated for a length before
that many bytes are known to be there.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kavka.kernels.layout import (
    FLEXIBLE_FROM,
    MAX_FETCHED,
    MAX_PRODUCED,
    MAX_TAGS,
    NEVER,
    Buffer,
    FetchFields,
    FetchPartition,
    ProduceFields,
    ProduceTopic,
    Topic,
)
from kavka.model.errors import MalformedMessage, UnsupportedVersion
from kavka.model.types import Uuid

_PRODUCE: Final = range(3, 14)
_CLIENT_ID: Final = 10  # where the client id's characters begin in a frame
_FETCH: Final = range(4, 19)
_PRODUCE_FLEXIBLE: Final = 9
_FETCH_FLEXIBLE: Final = 12
_TOPIC_IDS: Final = 13  # of both
_INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF

_INT8 = Struct(">b")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


def split(buf: Buffer, start: int, end: int, max_frame: int) -> tuple[list[tuple[int, int]], int, int]:
    """The whole frames in a range: their bounds, where the rest begins, and the size of the frame it begins.

    The bounds leave out the 4-byte size, the last number counts it; it is 0 while the size is not all there and -1
    if the size is bad. A bad size (negative, or above `max_frame`) raises once it comes first, so that the frames
    before it can be served.
    """
    view = memoryview(buf)
    _check_bounds(view, start, end)
    frames: list[tuple[int, int]] = []
    while end - start >= 4:
        size: int = _INT32.unpack_from(view, start)[0]
        if size < 0 or size > max_frame:
            if frames:
                return frames, start, -1
            raise MalformedMessage(f"a frame of {size} bytes: from 0 to {max_frame} are allowed")
        if end - start - 4 < size:
            return frames, start, size + 4
        frames.append((start + 4, start + 4 + size))
        start += 4 + size
    return frames, start, 0


def parse_header(buf: Buffer, pos: int, end: int) -> tuple[int, int, int, str, int]:
    """API key, version, correlation id, client id ("" if null), and where the request's body begins."""
    reader = _Reader(buf, pos, end)
    key, version, correlation_id = reader.int16(), reader.int16(), reader.int32()
    client_id = reader.nullable_string(False) or ""
    flexible_from = FLEXIBLE_FROM[key] if 0 <= key < len(FLEXIBLE_FROM) else NEVER
    if flexible_from != NEVER and version >= flexible_from:
        reader.skip_tags()
    return key, version, correlation_id, client_id, reader.pos


def sole_client(buf: Buffer, frames: list[tuple[int, int]]) -> tuple[int, str] | None:
    """The key of the API and the client id ("" if null) that all frames have; None if they differ."""
    view = memoryview(buf)
    sole: tuple[bytes, bytes] | None = None
    for start, end in frames:
        if start < 0 or end > len(view) or end - start < _CLIENT_ID:
            return None
        size = _INT16.unpack_from(view, start + _CLIENT_ID - 2)[0]
        ends = start + _CLIENT_ID + max(size, 0)
        if size < -1 or ends > end:
            return None
        named = bytes(view[start : start + 2]), bytes(view[start + _CLIENT_ID : ends])
        if sole is None:
            sole = named
        elif sole != named:
            return None
    if sole is None:
        return None
    key, client_id = sole
    try:
        return int.from_bytes(key, "big", signed=True), client_id.decode()
    except UnicodeDecodeError:
        return None


def parse_produce(buf: Buffer, pos: int, end: int, version: int) -> ProduceFields:
    """Transactional id, acks, timeout, and each topic's (partition, records) pairs; records are views of `buf`."""
    if version not in _PRODUCE:
        raise UnsupportedVersion(f"Produce has no version {version}")
    flexible = version >= _PRODUCE_FLEXIBLE
    reader = _Reader(buf, pos, end)
    transactional_id = reader.nullable_string(flexible)
    acks, timeout_ms = reader.int16(), reader.int32()
    topics: list[ProduceTopic] = []
    left = MAX_PRODUCED
    for _ in range(reader.array(flexible)):
        topic = reader.topic(version, flexible)
        partitions: list[tuple[int, memoryview | None]] = []
        count = reader.array(flexible)
        if count > left:
            raise MalformedMessage(f"records for more than {MAX_PRODUCED} topics and partitions")
        for _ in range(count):
            partition = reader.int32()
            partitions.append((partition, reader.records(flexible)))
            if flexible:
                reader.skip_tags()
        left -= count + 1
        if left < 0:
            raise MalformedMessage(f"records for more than {MAX_PRODUCED} topics and partitions")
        if flexible:
            reader.skip_tags()
        topics.append((topic, partitions))
    if flexible:
        reader.skip_tags()
    return transactional_id, acks, timeout_ms, topics


def parse_single(buf: Buffer, pos: int, end: int, version: int) -> tuple[int, Topic, int, int, int] | None:
    """Acks, topic, partition, and where the records begin and end, of a Produce request that is no more than that.

    None if it is part of a transaction, or has records for none or several partitions.
    """
    if version not in _PRODUCE:
        raise UnsupportedVersion(f"Produce has no version {version}")
    flexible = version >= _PRODUCE_FLEXIBLE
    reader = _Reader(buf, pos, end)
    if reader.nullable_string(flexible) is not None:
        return None
    acks, _ = reader.int16(), reader.int32()
    if reader.array(flexible) != 1:
        return None
    topic = reader.topic(version, flexible)
    if reader.array(flexible) != 1:
        return None
    partition = reader.int32()
    records = reader.records(flexible)
    if records is None:
        return None
    stop = reader.pos
    if flexible:
        for _ in range(3):
            reader.skip_tags()
    return acks, topic, partition, stop - len(records), stop


def _within(left: int, count: int) -> int:
    """What a Fetch may name after so many topics and partitions."""
    if count > left:
        raise MalformedMessage(f"a Fetch of more than {MAX_FETCHED} topics and partitions")
    return left - count


def parse_fetch(buf: Buffer, pos: int, end: int, version: int) -> FetchFields:
    """The fields of a fetch request."""
    if version not in _FETCH:
        raise UnsupportedVersion(f"Fetch has no version {version}")
    flexible = version >= _FETCH_FLEXIBLE
    reader = _Reader(buf, pos, end)
    replica_id = reader.int32() if version < 15 else -1
    max_wait_ms, min_bytes, max_bytes = reader.int32(), reader.int32(), reader.int32()
    isolation_level = reader.int8()
    session_id, session_epoch = (reader.int32(), reader.int32()) if version >= 7 else (0, -1)
    left = MAX_FETCHED
    topics: list[tuple[Topic, list[FetchPartition]]] = []
    for _ in range(reader.array(flexible)):
        topic = reader.topic(version, flexible)
        count = reader.array(flexible)
        left = _within(left, count + 1)
        topics.append((topic, [reader.fetch_partition(version) for _ in range(count)]))
        if flexible:
            reader.skip_tags()
    forgotten: list[tuple[Topic, list[int]]] = []
    for _ in range(reader.array(flexible) if version >= 7 else 0):
        topic = reader.topic(version, flexible)
        count = reader.array(flexible)
        left = _within(left, count + 1)
        forgotten.append((topic, [reader.int32() for _ in range(count)]))
        if flexible:
            reader.skip_tags()
    rack_id = reader.string(flexible) if version >= 11 else ""
    replica_epoch, cluster_id = -1, None
    for tag, field in reader.tags() if flexible else ():
        if tag == 0:
            cluster_id = field.nullable_string(True)
        elif tag == 1 and version >= 15:
            replica_id, replica_epoch = field.int32(), field.int64()
            field.skip_tags()
    return FetchFields(
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


def _check_bounds(view: memoryview, pos: int, end: int) -> None:
    if not 0 <= pos <= end <= len(view):
        raise ValueError(f"no range of {len(view)} bytes: {pos} to {end}")


class _Reader:
    """Reads a request from a range of a buffer."""

    __slots__ = ("end", "pos", "view")

    def __init__(self, buf: Buffer, pos: int, end: int) -> None:
        self.view = memoryview(buf)
        _check_bounds(self.view, pos, end)
        self.pos = pos
        self.end = end

    def take(self, size: int) -> int:
        """Move on by a size; where it was."""
        pos = self.pos
        if not 0 <= size <= self.end - pos:
            raise MalformedMessage(f"{size} bytes are wanted where {self.end - pos} are left")
        self.pos = pos + size
        return pos

    def int8(self) -> int:
        value: int = _INT8.unpack_from(self.view, self.take(1))[0]
        return value

    def int16(self) -> int:
        value: int = _INT16.unpack_from(self.view, self.take(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack_from(self.view, self.take(4))[0]
        return value

    def int64(self) -> int:
        value: int = _INT64.unpack_from(self.view, self.take(8))[0]
        return value

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.view[self.take(1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            if shift == 28:
                raise MalformedMessage("a variable-length integer has no last byte")
            shift += 7
        if value > 0xFFFFFFFF:
            raise MalformedMessage("a variable-length integer is too large for its type")
        return value

    def text(self, size: int) -> str:
        pos = self.take(size)
        try:
            return str(self.view[pos : pos + size], "utf-8")
        except UnicodeDecodeError:
            raise MalformedMessage("a string is not UTF-8") from None

    def nullable_string(self, flexible: bool) -> str | None:
        size = self.uvarint() - 1 if flexible else self.int16()
        if size == -1:
            return None
        return self.text(size)

    def string(self, flexible: bool) -> str:
        text = self.nullable_string(flexible)
        if text is None:
            raise MalformedMessage("a string is null that may not be")
        return text

    def array(self, flexible: bool) -> int:
        """The number of elements that follow; each has at least one byte."""
        size = self.uvarint() - 1 if flexible else self.int32()
        if not 0 <= size <= self.end - self.pos:
            raise MalformedMessage(f"an array of {size} elements in {self.end - self.pos} bytes")
        return size

    def uuid(self) -> Uuid:
        pos = self.take(16)
        return Uuid(self.view[pos : pos + 16])

    def topic(self, version: int, flexible: bool) -> Topic:
        return self.uuid() if version >= _TOPIC_IDS else self.string(flexible)

    def records(self, flexible: bool) -> memoryview | None:
        size = self.uvarint() - 1 if flexible else self.int32()
        if size == -1:
            return None
        pos = self.take(size)
        return self.view[pos : pos + size]

    def fetch_partition(self, version: int) -> FetchPartition:
        partition = self.int32()
        current_leader_epoch = self.int32() if version >= 9 else -1
        fetch_offset = self.int64()
        last_fetched_epoch = self.int32() if version >= 12 else -1
        log_start_offset = self.int64() if version >= 5 else -1
        max_bytes = self.int32()
        directory_id, high_watermark = Uuid.ZERO, _INT64_MAX
        for tag, field in self.tags() if version >= _FETCH_FLEXIBLE else ():
            if tag == 0 and version >= 17:
                directory_id = field.uuid()
            elif tag == 1 and version >= 18:
                high_watermark = field.int64()
        return (
            partition,
            current_leader_epoch,
            fetch_offset,
            last_fetched_epoch,
            log_start_offset,
            max_bytes,
            directory_id,
            high_watermark,
        )

    def tags(self) -> list[tuple[int, _Reader]]:
        """The tagged fields here: each tag, and a reader of its bytes."""
        count = self.uvarint()
        if count > self.end - self.pos or count > MAX_TAGS:
            raise MalformedMessage(f"{count} tagged fields in {self.end - self.pos} bytes")
        fields = []
        for _ in range(count):
            tag, size = self.uvarint(), self.uvarint()
            pos = self.take(size)
            fields.append((tag, _Reader(self.view, pos, pos + size)))
        return fields

    def skip_tags(self) -> None:
        self.tags()
