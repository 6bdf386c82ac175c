"""Snapshots of the metadata (KIP-630): an image as records, between a header and a footer, in a file of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kavka.metadata.records import decode_record
from kavka.model.errors import KafkaError, KafkaStorageError
from kavka.protocol.schemas.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from kavka.quorum.voters import ControlState, messages_in
from kavka.records.batch import record_fields, scan
from kavka.records.builder import BatchBuilder
from kavka.records.control import quorum_batch
from kavka.storage.disk import Disk

BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
MAX_BATCH_BYTES: Final = 8 << 20
"""How large a batch of the metadata log may be, as in Kafka."""
_BATCH_BYTES: Final = 1 << 20
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_UNFINISHED = re.compile(r"\d{20}-\d{10}.*\.checkpoint\.(part|tmp|deleted)")


class SnapshotId(NamedTuple):
    """The end offset of the log that a snapshot stands for, and the epoch of its last batch; later ones are larger."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The name of its file."""
        return f"{self.offset:020d}-{self.epoch:010d}.checkpoint"


BOOTSTRAP_ID: Final = SnapshotId(0, 0)
"""The snapshot that formatting leaves: nothing but the voters."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a snapshot's file holds."""

    control: ControlState
    records: list[Any]
    log_timestamp: int = -1
    """When the last record that it stands for was written."""


class SnapshotWriter:
    """Makes the bytes of a snapshot, record by record."""

    def __init__(self, epoch: int, log_timestamp: int, now_ms: int, control: ControlState | None = None) -> None:
        self._epoch = epoch
        self._now_ms = now_ms
        header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=log_timestamp)
        messages = [header, *(control.messages() if control else ())]
        self._done = [quorum_batch(messages, base_offset=0, leader_epoch=epoch, timestamp=now_ms)]
        self._next = len(messages)
        self._batch: BatchBuilder | None = None

    def add(self, value: bytes) -> None:
        """One more record, encoded."""
        if self._batch is None:
            self._batch = BatchBuilder(base_offset=self._next, leader_epoch=self._epoch)
        self._batch.append(None, value, self._now_ms)
        self._next += 1
        if self._batch.size >= _BATCH_BYTES:
            self._flush()

    def finish(self) -> bytes:
        """The whole file."""
        self._flush()
        footer = SnapshotFooterRecord(version=0)
        self._done.append(
            quorum_batch([footer], base_offset=self._next, leader_epoch=self._epoch, timestamp=self._now_ms)
        )
        return b"".join(self._done)

    def _flush(self) -> None:
        if self._batch is not None:
            self._done.append(self._batch.build())
            self._batch = None


def encode_snapshot(
    values: Iterable[bytes], *, epoch: int, log_timestamp: int, now_ms: int, control: ControlState | None = None
) -> bytes:
    """A snapshot of encoded records at once."""
    writer = SnapshotWriter(epoch, log_timestamp, now_ms, control)
    for value in values:
        writer.add(value)
    return writer.finish()


def list_snapshots(disk: Disk, directory: str) -> list[SnapshotId]:
    """The snapshots in a directory, newest first."""
    found = (_NAME.fullmatch(name) for name in disk.listdir(directory))
    return sorted((SnapshotId(int(match[1]), int(match[2])) for match in found if match), reverse=True)


def read_snapshot(disk: Disk, path: str) -> Snapshot:
    """The snapshot in a file; raises KafkaStorageError if it is damaged or was not written to its end."""
    data = disk.read_file(path)
    control = ControlState()
    found: list[Any] = []
    kinds: list[type] = []
    log_timestamp = -1
    try:
        for batch in scan(data):
            if batch.is_control:
                messages = messages_in(data, batch)
                kinds += map(type, messages)
                control = control.after(messages)
                if not found and messages and isinstance(messages[0], SnapshotHeaderRecord):
                    log_timestamp = messages[0].last_contained_log_timestamp
            else:
                found += [decode_record(value) for _, _, _, value, _ in record_fields(data, batch) if value is not None]
    except KafkaError as error:
        raise KafkaStorageError(f"{path} is damaged: {error}") from None
    if kinds[:1] != [SnapshotHeaderRecord] or kinds[-1:] != [SnapshotFooterRecord]:
        raise KafkaStorageError(f"{path} has no header or no footer")
    return Snapshot(control, found, log_timestamp)


def store_snapshot(disk: Disk, directory: str, id_: SnapshotId, data: bytes) -> None:
    """Put a snapshot in its place, durably and as a whole."""
    disk.replace_file(f"{directory}/{id_.file_name}", data)


def unfinished_snapshots(disk: Disk, directory: str) -> Iterator[str]:
    """Files of snapshots whose writing or removal was cut off."""
    return (name for name in disk.listdir(directory) if _UNFINISHED.fullmatch(name))
