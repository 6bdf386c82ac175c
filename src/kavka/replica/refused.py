"""What a producer is told of a partition that took nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.kernels.layout import ProducedPartition
from kavka.model.errors import (
    CorruptMessage,
    InvalidTopicException,
    InvalidTxnState,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RecordListTooLarge,
    UnsupportedCompressionType,
)
from kavka.records.framing import SchemasNotKnown
from kavka.records.rejections import RecordsRejected, TimestampsRejected
from kavka.replica.partition import Partition


class NotAdded(InvalidTxnState, code=InvalidTxnState.code):
    """The partition is not part of the transaction."""


class NotVerified(NotEnoughReplicas, code=NotEnoughReplicas.code, retriable=True):
    """Whether the partition is part of the transaction cannot be told now."""


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
EXPLAINED: Final = (RecordsRejected, TimestampsRejected, NotAdded, NotVerified, SchemasNotKnown)
"""What is told in words, as in Kafka; of the rest the code says all."""


def refused_row(
    index: int, error: KafkaError, partition: Partition | None, leader: tuple[int, int] | None
) -> ProducedPartition:
    """The partition's row of the response; only who asked the wrong node is told the leader."""
    if not isinstance(error, NotLeaderOrFollower):
        leader = None
    start = -1 if partition is None or isinstance(error, WITHOUT_LOG_START) else partition.log_start_offset
    bad_records: Sequence[tuple[int, str | None]] = getattr(error, "record_errors", ())
    words = str(error) if isinstance(error, EXPLAINED) else None
    return (index, error.code, -1, -1, start, bad_records, words, leader)
