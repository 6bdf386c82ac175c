"""The headers of batches in a slice of a log: for those who must know where batches begin, and not what is in them.

Of a slice in a file only the headers are read, a page at a time: small batches lie in one page, large ones are hopped
over.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from kavka.kernels.layout import LOG_OVERHEAD
from kavka.model.errors import KafkaStorageError
from kavka.model.types import FileSlice
from kavka.records.batch import scan
from kavka.storage.scan import read_marker

_HEADER: Final = Struct(">qi9xhi16xq")
"""Base offset, length, attributes, last offset delta and producer id of a batch."""
_PAGE_BYTES: Final = 16_384
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


class BatchHeader(NamedTuple):
    """What is to be known of a batch without reading its records."""

    position: int
    """Where it begins in the slice."""
    size: int
    base_offset: int
    last_offset: int
    producer_id: int
    transactional: bool
    control: bool


def headers_of(records: bytes | FileSlice, until: int) -> list[BatchHeader]:
    """The headers of batches from the beginning of a slice, to the one that has an offset, or to the last whole one."""
    found: list[BatchHeader] = []
    position, length = 0, len(records)
    page, page_at = b"", 0
    while position + _HEADER.size <= length:
        at = position - page_at
        if at < 0 or at + _HEADER.size > len(page):
            page, page_at, at = _read(records, position, min(_PAGE_BYTES, length - position)), position, 0
            if len(page) < _HEADER.size:
                break  # the file was cut meanwhile
        base, rest, attributes, delta, producer = _HEADER.unpack_from(page, at)
        size = rest + LOG_OVERHEAD
        if rest <= 0 or position + size > length:
            break
        transactional, control = bool(attributes & _TRANSACTIONAL), bool(attributes & _CONTROL)
        found.append(BatchHeader(position, size, base, base + delta, producer, transactional, control))
        if base + delta >= until:
            break
        position += size
    return found


def aborts(records: bytes | FileSlice, header: BatchHeader) -> bool:
    """Whether a batch is the marker that ends an aborted transaction."""
    if not header.control:
        return False
    data = _read(records, header.position, header.size)
    marker = read_marker(data, scan(data)[0])
    return marker is not None and not marker.commit


def part_of(records: bytes | FileSlice, begin: int, end: int) -> bytes | FileSlice:
    """The bytes of a slice between two positions."""
    if isinstance(records, FileSlice):
        return FileSlice(records.file, records.position + begin, end - begin)
    return records if (begin, end) == (0, len(records)) else records[begin:end]


def _read(records: bytes | FileSlice, position: int, length: int) -> bytes:
    if not isinstance(records, FileSlice):
        return records[position : position + length]
    try:
        return records.file.read_at(records.position + position, length)
    except OSError as error:
        raise KafkaStorageError(f"cannot read a batch: {error}") from error
