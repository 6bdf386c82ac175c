"""A log directory's own files: meta.properties, the clean-shutdown marker, the lock, and each partition's topic id."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kavka.model.errors import KafkaStorageError
from kavka.model.types import Uuid
from kavka.storage import files
from kavka.storage.disk import Disk, DiskLock

_PARTITION_METADATA = re.compile(r"version:\s+(\d+)\ntopic_id:\s+(\S+)\s*")


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Whose directory this is: version 1 of Kafka's meta.properties (version 0 is of ZooKeeper times)."""

    cluster_id: str
    node_id: int
    directory_id: Uuid | None = None


def read_meta_properties(disk: Disk, root: str) -> MetaProperties | None:
    """The meta.properties of a directory; None if it is not formatted."""
    path = f"{root}/{files.META_PROPERTIES}"
    try:
        text = disk.read_file(path).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise KafkaStorageError(f"{path} is not text") from None
    properties = parse_properties(text)
    version = properties.get("version", "0").strip()
    if version != "1":
        raise KafkaStorageError(f"{path} has version {version}; only version 1 (KRaft) is supported")
    try:
        directory = properties.get("directory.id")
        return MetaProperties(
            cluster_id=properties["cluster.id"],
            node_id=int(properties["node.id"]),
            directory_id=Uuid.parse(directory) if directory is not None else None,
        )
    except KeyError as error:
        raise KafkaStorageError(f"{path} lacks {error.args[0]}") from None
    except ValueError as error:
        raise KafkaStorageError(f"{path} is malformed: {error}") from None


def write_meta_properties(disk: Disk, root: str, meta: MetaProperties) -> None:
    """Make a directory a formatted one, durably and all at once."""
    properties = {"cluster.id": meta.cluster_id, "node.id": str(meta.node_id), "version": "1"}
    if meta.directory_id is not None:
        properties["directory.id"] = str(meta.directory_id)
    lines = [f"{key}={_escape(value)}\n" for key, value in properties.items()]
    disk.replace_file(f"{root}/{files.META_PROPERTIES}", "".join(["#\n", *lines]).encode())


def lock_dir(disk: Disk, root: str) -> DiskLock:
    """Take the directory for this process; a JVM broker that holds it counts too."""
    lock = disk.lock(f"{root}/{files.LOCK}")
    if lock is None:
        raise KafkaStorageError(f"{root} is in use by another node (its {files.LOCK} file is locked)")
    return lock


def take_clean_shutdown(disk: Disk, root: str) -> int | None:
    """Whether the last stop was a clean one: the broker epoch in its marker (-1 if unreadable), or None.

    The marker goes away: if loading is cut short, the next start must recover.
    """
    path = f"{root}/{files.CLEAN_SHUTDOWN}"
    try:
        data = disk.read_file(path)
    except FileNotFoundError:
        return None
    disk.unlink(path)
    disk.fsync_dir(root)
    match = re.search(rb'"brokerEpoch"\s*:\s*(-?\d+)', data)
    return int(match[1]) if match else -1


def write_clean_shutdown(disk: Disk, root: str, broker_epoch: int) -> None:
    """Mark a clean stop; everything else must be durable by now."""
    marker = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
    disk.replace_file(f"{root}/{files.CLEAN_SHUTDOWN}", marker.encode())


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    """The bytes of a partition.metadata file."""
    return f"version: 0\ntopic_id: {topic_id}".encode()


def read_partition_metadata(disk: Disk, log_path: str) -> Uuid | None:
    """The topic id of a log's directory; None if nothing was written yet."""
    path = f"{log_path}/{files.PARTITION_METADATA}"
    try:
        text = disk.read_file(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    match = _PARTITION_METADATA.fullmatch(text)
    try:
        topic_id = Uuid.parse(match[2]) if match else Uuid.ZERO
    except ValueError:
        topic_id = Uuid.ZERO
    if topic_id == Uuid.ZERO:
        raise KafkaStorageError(f"{path} does not name a topic id")
    return topic_id


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values of a Java properties file."""
    properties: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        logical = line.lstrip(" \t\f")
        if not logical or logical[0] in "#!":
            continue
        while _continues(logical):
            logical = logical[:-1] + next(lines, "").lstrip(" \t\f")
        match = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", logical, re.DOTALL)
        if match:
            properties[_unescape(match[1])] = _unescape(match[2])
    return properties


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        char = match[1]
        return chr(int(char[1:], 16)) if len(char) > 1 else {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(char, char)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", replace, text)


def _escape(text: str) -> str:
    escaped = re.sub(r"([\\=:#!])", r"\\\1", text)
    return "\\" + escaped if escaped[:1] == " " else escaped
