"""How Kafka names the files and directories of a log."""

from __future__ import annotations

import re
from typing import NamedTuple

from kavka.model.types import TopicPartition

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
SEGMENT_KINDS = (LOG, INDEX, TIME_INDEX, TXN_INDEX)

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

DELETE_DIR = "-delete"
FUTURE_DIR = "-future"
STRAY_DIR = "-stray"

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"

_MAX_NAME = 255
_LAST_OFFSET = (1 << 63) - 1
_MARKED_DIR = re.compile(r"(\S+)-(\d+)\.(\S+)(-delete|-future|-stray)")


class FileName(NamedTuple):
    """The parts of a name such as `00000000000000000042.timeindex.swap`."""

    offset: int
    kind: str
    suffix: str


class DirName(NamedTuple):
    """What a directory inside a log dir holds; the mark is empty or one of -delete, -future, -stray."""

    topic_partition: TopicPartition
    mark: str


def file_name(offset: int, kind: str, suffix: str = "") -> str:
    """The name of a segment's file."""
    return f"{offset:020d}{kind}{suffix}"


def parse_file_name(name: str) -> FileName | None:
    """The parts of a segment file's name; None for any other file."""
    digits, dot, rest = name.partition(".")
    if not dot or not digits.isdecimal():
        return None
    offset = int(digits) if len(digits) <= _MAX_NAME else _LAST_OFFSET + 1
    if offset > _LAST_OFFSET:  # no log comes so far: somebody else's file
        return None
    kind, _, suffix = rest.partition(".")
    return FileName(offset, "." + kind, "." + suffix if suffix else "")


def dir_name(topic_partition: TopicPartition) -> str:
    """The directory of a partition."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def marked_dir_name(topic_partition: TopicPartition, unique: str, mark: str) -> str:
    """The directory of a partition that is deleted, stray or being moved in; `unique` is 32 hex digits."""
    tail = f"-{topic_partition.partition}.{unique}{mark}"
    topic = topic_partition.topic if mark == FUTURE_DIR else topic_partition.topic[: _MAX_NAME - len(tail)]
    return topic + tail


def parse_dir_name(name: str) -> DirName | None:
    """What a directory's name says; None if it is no partition's."""
    mark = ""
    if name.endswith((DELETE_DIR, FUTURE_DIR, STRAY_DIR)):
        match = _MARKED_DIR.fullmatch(name)
        if match is None:
            return None
        topic, partition, mark = match[1], match[2], match[4]
    else:
        topic, _, partition = name.rpartition("-")
    if not topic or not partition.isdecimal():
        return None
    return DirName(TopicPartition(topic, int(partition)), mark)
