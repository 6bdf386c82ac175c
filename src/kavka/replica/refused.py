"""What a producer is told of a partition that took nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.kernels.layout import ProducedPartition
from kavka.model.errors import (
    CorruptMessage,
    InvalidTopicException,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotLeaderOrFollower,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from kavka.replica.partition import Partition

WITHOUT_LOG_START: Final = (
    CorruptMessage,
    InvalidTopicException,
    KafkaStorageError,
    MessageTooLarge,
    NotLeaderOrFollower,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
"""With these Kafka does not say where the log starts; with the others a producer may need it (KIP-360)."""


def refused_row(
    index: int, error: KafkaError, partition: Partition | None, leader: tuple[int, int] | None
) -> ProducedPartition:
    """The partition's row of the response; only who asked the wrong node is told the leader."""
    if not isinstance(error, NotLeaderOrFollower):
        leader = None
    start = -1 if partition is None or isinstance(error, WITHOUT_LOG_START) else partition.log.log_start_offset
    bad_records: Sequence[tuple[int, str | None]] = getattr(error, "record_errors", ())
    return (index, error.code, -1, -1, start, bad_records, error.message or None, leader)
