"""Headers of batches in a slice of a file: as many as are asked for, without the records."""

from __future__ import annotations

import pytest

from kavka.model.errors import KafkaStorageError
from kavka.model.types import FileSlice
from kavka.records.builder import BatchBuilder
from kavka.replica.batch_headers import headers_of, part_of


class InMemory:
    """A file that counts what is read of it."""

    def __init__(self, data):
        self.data, self.read = data, 0

    def fileno(self) -> int:
        return -1

    def pin(self) -> None:
        """Nothing to keep open."""

    def unpin(self) -> None:
        """Nothing to let go."""

    def read_at(self, position: int, length: int) -> bytes:
        if self.data is None:
            raise OSError("gone")
        self.read += length
        return self.data[position : position + length]


def batches(*sizes, records=3):
    found, offset = [], 0
    for size in sizes:
        builder = BatchBuilder(base_offset=offset)
        for _ in range(records):
            builder.append(None, b"x" * size, 1)
        found.append(builder.build())
        offset += records
    return found


@pytest.mark.parametrize("sizes", [(10, 10, 10), (40_000, 5, 40_000), (16_000, 16_300, 200)])
def test_headers_are_found_whatever_lies_between_them(sizes):
    data = batches(*sizes)
    file = InMemory(b"junk" + b"".join(data) + data[0][:70])  # the last one is cut
    whole = FileSlice(file, 4, len(file.data) - 4)
    found = headers_of(whole, 1 << 40)
    assert [(one.base_offset, one.last_offset, one.size) for one in found] == [
        (0, 2, len(data[0])),
        (3, 5, len(data[1])),
        (6, 8, len(data[2])),
    ]
    assert found == headers_of(b"".join(data), 1 << 40)
    second = part_of(whole, found[1].position, found[1].position + found[1].size)
    assert isinstance(second, FileSlice)
    assert file.read_at(second.position, second.length) == data[1]


def test_no_more_is_read_than_is_asked_for():
    file = InMemory(b"".join(batches(*[60_000] * 50)))
    found = headers_of(FileSlice(file, 0, len(file.data)), 4)
    assert [one.base_offset for one in found] == [0, 3]
    assert file.read < 3 * 16_384


def test_a_file_that_cannot_be_read_is_an_error_of_the_storage():
    with pytest.raises(KafkaStorageError):
        headers_of(FileSlice(InMemory(None), 0, 1000), 1)
