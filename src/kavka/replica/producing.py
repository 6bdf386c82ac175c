"""Appending what producers send, and waiting for it: for the disk, for the in-sync replicas, or for both."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from kavka.kernels.layout import ATTRIBUTES_LOW_BYTE, ProducedPartition, Topic
from kavka.metadata.names import may_write
from kavka.model.clock import Clock
from kavka.model.errors import (
    InvalidRecord,
    InvalidTopicException,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownServerError,
)
from kavka.replica.committing import Awaited, Errors, ReplicasWait, committed
from kavka.replica.judging import LARGE_BYTES, Judging, RequestIndex, Schemas, Sent, judge
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.replica.refused import refused_row
from kavka.replica.syncing import Failed, Syncer
from kavka.replica.waiting import Purgatory

logger = logging.getLogger(__name__)

COMPLAIN_EVERY_MS: Final = 1_000
TRANSACTIONAL: Final = 0x10

Rows = list[tuple[Topic, list[ProducedPartition]]]
Due = Mapping[RequestIndex, Partition]
"""What has to be on disk before it is acknowledged."""
Behind = Mapping[RequestIndex, Awaited]
"""What has to be on the in-sync replicas before it is acknowledged."""
Appended = tuple[Rows, KafkaError | None, Due | None, Behind | None]
"""The rows of the answer, the last error, and what has to be waited for."""


class PendingProduce(NamedTuple):
    """An answer that cannot be given yet."""

    timeout_ms: int
    rows: Rows
    due: Due | None
    behind: Behind | None


class PartitionVerification(Protocol):
    """What the coordinator of a transaction says of a request's partitions."""

    def require(self, partition: Partition, /) -> None:
        """Raise why a partition is no part of the transaction, if it is none."""


class Producing:
    """Appends to the partitions of this node."""

    def __init__(
        self,
        replicas: ReplicaManager,
        syncer: Syncer,
        clock: Clock,
        purgatory: Purgatory,
        schemas: Callable[[], Schemas | None] | None = None,
    ) -> None:
        self._replicas = replicas
        self.schemas = schemas
        """Who knows which schemas are registered, if anybody does here."""
        self._syncer = syncer
        self._purgatory = purgatory
        self._now_ms = clock.now_ms
        self._complained_ms = 0

    def judge(self, sent: Sent, version: int, size: int) -> Judging | None:
        """What is to be judged before anything of a request of this size is appended; None if nothing is."""
        return judge(sent, self._replicas, self._now_ms(), version, size > LARGE_BYTES, self.schemas)

    def append(
        self,
        sent: Sent,
        acks: int,
        version: int,
        client_id: str,
        refused: KafkaError | None,
        verdict: PartitionVerification | None,
        judging: Judging | None,
    ) -> Appended:
        """Append to each partition: the rows of the answer, the last error, and what has to be waited for."""
        now_ms = self._now_ms()
        judged = judging.found if judging is not None else {}
        rows: Rows = []
        failed: KafkaError | None = None
        due: dict[RequestIndex, Partition] | None = None
        behind: dict[RequestIndex, Awaited] | None = None
        for topic, partitions in sent:
            out: list[ProducedPartition] = []
            for index, data in partitions:
                partition: Partition | None = None
                try:
                    if refused is not None:
                        raise refused
                    partition = self._replicas.find(topic, index)
                    if data is None:
                        raise InvalidRecord("no records were sent")
                    if partition.write_protected and not may_write(client_id, partition.topic_partition.topic):
                        raise InvalidTopicException("clients do not write to internal topics")
                    if verdict is not None:
                        verdict.require(partition)
                    info = partition.append(data, acks, now_ms, version, judged.get((len(rows), len(out))))
                    if partition.rules.flushes and partition.sync_due:
                        due = due or {}
                        due[len(rows), len(out)] = partition
                    if acks == -1 and partition.high_watermark <= info.last_offset:
                        behind = behind or {}
                        behind[len(rows), len(out)] = Awaited(partition, info.last_offset + 1, partition.led_since)
                    out.append((index, 0, info.first_offset, info.log_append_time, partition.log.log_start_offset))
                except Exception as error:
                    failed = self._complain(error, now_ms)
                    out.append(self._refused(topic, index, partition, failed))
            rows.append((topic, out))
        return rows, failed, due, behind

    def refuse(self, topic: Topic, partition: Partition, error: Exception, now_ms: int) -> Rows:
        """The rows of a request whose one batch was not appended."""
        index = partition.topic_partition.partition
        return [(topic, [self._refused(topic, index, partition, self._complain(error, now_ms))])]

    def _refused(self, topic: Topic, index: int, partition: Partition | None, error: KafkaError) -> ProducedPartition:
        if partition is not None:
            partition.traffic.produce_requests += 1
            partition.traffic.failed_produce_requests += 1
        return refused_row(index, error, partition, self._replicas.leader_of(topic, index))

    def _complain(self, error: Exception, now_ms: int) -> KafkaError:
        """Tell the operator what is not the client's fault, but not once per request; what the client is told."""
        known = error if isinstance(error, KafkaError) else UnknownServerError()
        blameless = known is not error or isinstance(error, KafkaStorageError)
        # A full disk refuses thousands a second.
        if blameless and now_ms - self._complained_ms >= COMPLAIN_EVERY_MS:
            self._complained_ms = now_ms
            logger.error("append failed: %s", error, exc_info=error if known is not error else None)
        return known

    def force(self, due: Due) -> None:
        """Force to disk what nobody waits for."""
        self._syncer.sync(partition.log for partition in due.values())

    def settle(self, waits: PendingProduce, done: Callable[[], None]) -> None:
        """Call back when the rows say how it ended: on disk and on the replicas, or not in time."""
        timeout_ms, rows, due, behind = waits

        def replicated(errors: Errors[RequestIndex]) -> None:
            for (topic, row), error in errors.items():
                out = rows[topic][1]
                out[row] = self._unreplicated(rows[topic][0], out[row], error)
            done()

        def wait(left: Behind) -> None:
            if left:
                ReplicasWait(left, committed, replicated).park(timeout_ms, self._purgatory)
            else:
                done()

        def synced(failed: Failed) -> None:
            left = dict(behind or {})
            for (topic, row), partition in (due or {}).items():
                error = failed.get(partition.log)
                if error is not None:
                    out = rows[topic][1]
                    out[row] = refused_row(out[row][0], error, partition, None)
                    left.pop((topic, row), None)
            wait(left)

        if due:
            self._syncer.sync((partition.log for partition in due.values()), synced)
        else:
            wait(behind or {})

    def _unreplicated(self, topic: Topic, row: ProducedPartition, error: KafkaError) -> ProducedPartition:
        """The row of records that are in the leader's log, but perhaps nowhere else."""
        leader = self._replicas.leader_of(topic, row[0]) if isinstance(error, NotLeaderOrFollower) else None
        return (row[0], error.code, row[2], row[3], row[4], (), None, leader)


def has_transactional(sent: Sent) -> bool:
    """Whether the first batch of any partition is part of a transaction."""
    for _, partitions in sent:
        for _, data in partitions:
            if data is not None and len(data) > ATTRIBUTES_LOW_BYTE and data[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL:
                return True
    return False
