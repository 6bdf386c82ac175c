"""The producer snapshot file: version 1, a CRC-32C of what follows it, and one fixed-size entry per producer."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kavka.model.errors import KafkaStorageError
from kavka.storage.producer_state import MAX_SEQUENCE, NO_OFFSET, BatchMeta, ProducerEntry
from kavka.wire.crc32c import crc32c

_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_FROM = 6
_VERSION = 1


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The bytes of a snapshot; of each producer only the last batch is kept, as Kafka does."""
    body = bytearray()
    count = 0
    for entry in entries:
        last = entry.batches[-1] if entry.batches else None
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            last.last_sequence if last else -1,
            last.last_offset if last else NO_OFFSET,
            last.last_offset - last.first_offset if last else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
        count += 1
    body[:0] = struct.pack(">i", count)
    return struct.pack(">hI", _VERSION, crc32c(body)) + bytes(body)


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers of a snapshot; raises KafkaStorageError if the bytes are not a whole one."""
    if len(data) < _HEADER.size:
        raise KafkaStorageError("the snapshot is too short")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise KafkaStorageError(f"the snapshot has version {version}, not {_VERSION}")
    if crc != crc32c(memoryview(data)[_CRC_FROM:]):
        raise KafkaStorageError("the snapshot's CRC is wrong")
    if count < 0 or len(data) != _HEADER.size + count * _ENTRY.size:
        raise KafkaStorageError(f"the snapshot should have {count} entries")
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(data[_HEADER.size :])]


def _entry(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> ProducerEntry:
    batches = []
    if last_offset >= 0:
        first_sequence = last_sequence - delta
        if first_sequence < 0 <= last_sequence:
            first_sequence += MAX_SEQUENCE + 1
        elif last_sequence < 0:
            first_sequence = last_sequence
        batches.append(BatchMeta(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp))
    first_offset = txn_first_offset if txn_first_offset >= 0 else NO_OFFSET
    return ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp, first_offset, batches)
