"""Kafka's checkpoint files: a version line, a count line, and one entry per line.

Offsets by partition (recovery points, log starts, high watermarks, cleaned offsets) and the leader epochs of one log.
A bad file is a `KafkaStorageError` whose message names the file and the line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kavka.model.errors import KafkaStorageError
from kavka.model.types import TopicPartition
from kavka.storage.disk import Disk

_VERSION = 0


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The offsets of a checkpoint file; empty if there is none."""
    offsets: dict[TopicPartition, int] = {}
    for line in _read_lines(disk, path):
        try:
            topic, partition, offset = line.split()
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise _malformed(path, line) from None
    return offsets


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint file durably."""
    disk.replace_file(path, _encode(f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()))


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]]:
    """The (epoch, start offset) pairs of a leader-epoch checkpoint; empty if there is none."""
    return _parse_epochs(path, _read_lines(disk, path))


def decode_epochs(what: str, data: bytes) -> list[tuple[int, int]]:
    """The (epoch, start offset) pairs in the bytes of a leader-epoch checkpoint; `what` names them in errors."""
    return _parse_epochs(what, _lines(what, data))


def encode_epochs(epochs: Sequence[tuple[int, int]]) -> bytes:
    """The bytes of a leader-epoch checkpoint."""
    return _encode(f"{epoch} {start}" for epoch, start in epochs)


def _parse_epochs(path: str, lines: list[str]) -> list[tuple[int, int]]:
    epochs = []
    for line in lines:
        try:
            epoch, start = line.split()
            epochs.append((int(epoch), int(start)))
        except ValueError:
            raise _malformed(path, line) from None
    return epochs


def _encode(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""]).encode()


def _read_lines(disk: Disk, path: str) -> list[str]:
    try:
        data = disk.read_file(path)
    except FileNotFoundError:
        return []
    return _lines(path, data)


def _lines(path: str, data: bytes) -> list[str]:
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise KafkaStorageError(f"{path} is not a checkpoint file: it is not text") from None
    if not lines:
        return []  # Kafka creates these files empty
    if lines[0] != str(_VERSION):
        raise KafkaStorageError(f"{path} has checkpoint version {lines[0]!r}, not {_VERSION}")
    if len(lines) == 1:
        return []
    count, entries = lines[1], lines[2:]
    if not count.isdecimal():
        raise _malformed(path, count)
    if int(count) != len(entries):
        raise KafkaStorageError(f"{path} should have {count} entries but has {len(entries)}")
    return entries


def _malformed(path: str, line: str) -> KafkaStorageError:
    return KafkaStorageError(f"{path} has a malformed line: {line!r}")
