"""Records: what is inside a batch, for those few who must look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kavka.kernels.batches import HEADER_SIZE, TRUNCATED, BatchInfo, read_records, read_some, scan, scan_prefix
from kavka.model.errors import InvalidRecord
from kavka.wire.compression import MAX_DECOMPRESSED_BYTES, NONE, chunks, decompress

__all__ = [  # the packages above look at batches through this module, not through the kernel
    "TRUNCATED",
    "BatchInfo",
    "Buffer",
    "Header",
    "Record",
    "payload",
    "payload_parts",
    "record_fields",
    "record_parts",
    "records",
    "scan",
    "scan_prefix",
]

Buffer = bytes | bytearray | memoryview
Header = tuple[str, bytes | None]

_AT_ONCE: Final = 4096


class Record(NamedTuple):
    """One record, with its offset and time as a consumer sees them."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def records(buf: Buffer, info: BatchInfo, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """The records of a batch that was scanned in this buffer, decompressed to at most `max_bytes`."""
    return map(Record._make, record_fields(buf, info, max_bytes))


def record_fields(
    buf: Buffer, info: BatchInfo, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> list[tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]]:
    """The same records as bare tuples, for loops that have millions of them."""
    data, start, end = payload(buf, info, max_bytes)
    return read_records(data, info, start, end)


def record_parts(
    buf: Buffer, info: BatchInfo, max_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[list[tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]]]:
    """The same tuples, some at a time: of a batch of millions only a few thousand are there at once."""
    pending = bytearray()
    for part in payload_parts(buf, info, max_bytes):
        pending += part
        pos = 0
        while True:
            found, pos = read_some(pending, info, pos, _AT_ONCE)
            if not found:
                break
            yield found
        del pending[:pos]
    if pending:
        raise InvalidRecord(f"{len(pending)} bytes follow the batch's last record")


def payload_parts(buf: Buffer, info: BatchInfo, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Buffer]:
    """The bytes of a batch's records, decompressed in parts, some of which may be empty."""
    return chunks(info.codec, memoryview(buf)[info.position + HEADER_SIZE : info.position + info.size], max_bytes)


def payload(buf: Buffer, info: BatchInfo, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> tuple[Buffer, int, int]:
    """Where a batch's records are: a buffer, which is its own unless they are compressed, their start and their end."""
    start, end = info.position + HEADER_SIZE, info.position + info.size
    if info.codec == NONE:
        return buf, start, end
    data = decompress(info.codec, memoryview(buf)[start:end], max_bytes)
    return data, 0, len(data)
