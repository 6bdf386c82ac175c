"""The whole catalogue as bytes and back: what a node keeps on disk so that it need not replay its topic from the start.

Magic and version, a CRC-32 of the rest, how far each metadata partition was read, then each partition with its
segments and, per epoch, which of them are read. A file that is not exactly that is no snapshot: replay instead.
"""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct, error
from typing import Any, Final, TypeVar
from zlib import crc32

from kavka.catalog.epochs import EpochSegments
from kavka.catalog.machine import Catalogue
from kavka.catalog.partition import PartitionSegments
from kavka.catalog.segment import DeleteState, TopicIdPartition
from kavka.model.errors import KafkaStorageError
from kavka.model.types import Uuid

T = TypeVar("T")

VERSION: Final = 2
_MAGIC: Final = b"KVKRLC"
_HEAD: Final = Struct(">6sHIQ")
_COUNT: Final = Struct(">I")
_OFFSET: Final = Struct(">Iqi")
_PARTITION: Final = Struct(">16siIbqIIH")
_SEGMENT: Final = Struct(">16sI")
_EPOCH: Final = Struct(">i?qII")
_REFERRED: Final = Struct(">Iqq")
_NOT_DELETED: Final = -1


def encode_snapshot(catalogue: Catalogue) -> bytes:
    """The bytes of a catalogue: its durable state, and how far it was read."""
    return _at_once(encoding(catalogue))


def encoding(catalogue: Catalogue) -> Generator[None, None, bytes]:
    """The same in steps, between which the catalogue may change: each has one metadata partition as it is then."""
    places: dict[int, tuple[int, int]] = {}
    body, partitions = bytearray(), 0
    for metadata_partition in range(catalogue.partition_count):
        if metadata_partition not in catalogue.following.next_offsets:
            continue
        places[metadata_partition] = catalogue.following.place(metadata_partition)
        for held in catalogue.partitions.values():
            if held.metadata_partition == metadata_partition:
                _write_partition(body, held)
                partitions += 1
        yield
    head = bytearray(_COUNT.pack(catalogue.partition_count) + _COUNT.pack(len(places)))
    for metadata_partition, place in places.items():
        head += _OFFSET.pack(metadata_partition, *place)
    head += _COUNT.pack(partitions)
    return _HEAD.pack(_MAGIC, VERSION, crc32(body, crc32(head)), len(head) + len(body)) + bytes(head) + bytes(body)


def decode_snapshot(data: bytes) -> Catalogue:
    """The catalogue of a snapshot, following nothing yet; KafkaStorageError if it is not a whole one."""
    return _at_once(decoding(data))


def decoding(data: bytes) -> Generator[None, None, Catalogue]:
    """The same in steps, each of one partition."""
    try:
        magic, version, checksum, length = _HEAD.unpack_from(data)
    except error:
        raise KafkaStorageError("a catalogue snapshot of less than its head") from None
    if magic != _MAGIC or version != VERSION:
        raise KafkaStorageError(f"not a catalogue snapshot of version {VERSION}")
    body = memoryview(data)[_HEAD.size :]
    if len(body) != length or crc32(body) != checksum:
        raise KafkaStorageError("a catalogue snapshot whose checksum is wrong")
    read = _Reader(body)
    catalogue = Catalogue(read.number())
    for _ in range(read.number()):
        metadata_partition, offset, epoch = read.fields(_OFFSET)
        catalogue.following.next_offsets[metadata_partition] = offset
        catalogue.following.epochs[metadata_partition] = epoch
    for _ in range(read.number()):
        held = _read_partition(read)
        catalogue.partitions[held.name.topic_id, held.name.partition] = held
        yield
    return catalogue


def _at_once(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found


class _Reader:
    """Goes through the body of a snapshot, whose checksum was right."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._position = 0

    def fields(self, struct: Struct) -> tuple[Any, ...]:
        found = struct.unpack_from(self._data, self._position)
        self._position += struct.size
        return found

    def number(self) -> int:
        found: int = self.fields(_COUNT)[0]
        return found

    def bytes(self, length: int) -> bytes:
        found = bytes(self._data[self._position : self._position + length])
        self._position += length
        return found


def _write_partition(body: bytearray, held: PartitionSegments) -> None:
    name = held.name.topic.encode()
    state = _NOT_DELETED if held.delete_state is None else int(held.delete_state)
    counts = (len(held), len(held.epochs), len(name))
    body += _PARTITION.pack(
        held.name.topic_id, held.name.partition, held.metadata_partition, state, held.given_up_before, *counts
    )
    body += name
    slots: dict[Uuid, int] = {}
    for slot, (id, packed) in enumerate(held.packed()):
        slots[id] = slot
        body += _SEGMENT.pack(id, len(packed)) + packed
    for epoch, of_epoch in held.epochs.items():
        highest = of_epoch.highest
        unreferenced = of_epoch.unreferenced
        counts_of = (len(of_epoch.referenced), len(unreferenced))
        body += _EPOCH.pack(epoch, highest is not None, highest or 0, *counts_of)
        for id, start, end in of_epoch.entries():
            body += _REFERRED.pack(slots[id], start, end)
        for id in unreferenced:
            body += _COUNT.pack(slots[id])


def _read_partition(read: _Reader) -> PartitionSegments:
    topic_id, partition, metadata_partition, state, given_up_before, segments, epochs, length = read.fields(_PARTITION)
    name = TopicIdPartition(Uuid(topic_id), partition, read.bytes(length).decode())
    held = PartitionSegments(name, metadata_partition)
    held.given_up_before = given_up_before
    held.delete_state = None if state == _NOT_DELETED else DeleteState(state)
    ids: list[Uuid] = []
    for _ in range(segments):
        raw, size = read.fields(_SEGMENT)
        ids.append(Uuid(raw))
        held.restore(ids[-1], read.bytes(size))
    for _ in range(epochs):
        epoch, has_highest, highest, referenced, unreferenced = read.fields(_EPOCH)
        of_epoch = held.epochs[epoch] = EpochSegments()
        of_epoch.highest = highest if has_highest else None
        for _ in range(referenced):
            slot, start, end = read.fields(_REFERRED)
            of_epoch.refer(ids[slot], start, end)
        for _ in range(unreferenced):
            held.restore_unreferenced(epoch, ids[read.number()])
    return held
