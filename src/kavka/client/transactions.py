"""A producer's transactions: its requests to the transaction coordinator, and its state.

At transaction version 2 (KIP-890) brokers add the partitions that are written to, and every end brings a new epoch.
Before, partitions and offsets are added by requests of their own, and the epoch stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping
from enum import Enum
from itertools import count
from typing import Any, Final, NamedTuple, TypeVar

from kavka.client.group_link import TRANSACTION, GroupLink, top_code
from kavka.client.group_offsets import Identity
from kavka.client.pool import Pool
from kavka.client.view import error_for
from kavka.model.errors import (
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    KafkaError,
    NetworkException,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionCoordinatorFenced,
    UnknownProducerId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from kavka.model.types import TopicPartition
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kavka.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kavka.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kavka.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

R = TypeVar("R")

logger = logging.getLogger(__name__)

FEATURE: Final = "transaction.version"
BUMPS_EPOCH: Final = 2
TWO_PHASES_SINCE: Final = 6
FIRST_RETRY_SECONDS: Final = 0.001
"""The markers of the last transaction are mostly written by then."""
ASKED_AGAIN: Final = (ConcurrentTransactions.code, NetworkException.code, UnknownTopicOrPartition.code)
KNOWN_EVERYWHERE_SECONDS: Final = 5.0
"""How long a topic that was just created may be unknown to some node."""
FATAL: Final = (
    ProducerFenced,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    TransactionalIdAuthorizationFailed,
    TransactionCoordinatorFenced,
    UnsupportedVersion,
)
"""Fatal errors of a transactional producer: most often another one has fenced it."""


class TransactorState(Enum):
    """What a producer may do."""

    IDLE = "idle"
    OPEN = "open"
    PREPARED = "prepared"
    FAILED = "failed"
    """Only abort."""
    DEAD = "dead"


class ProducerIdAndEpoch(NamedTuple):
    """What a producer writes as; -1 and -1 before InitProducerId."""

    producer_id: int = -1
    epoch: int = -1


class PreparedTransaction(NamedTuple):
    """A transaction that is written and waits to be decided on (KIP-939): what to remember with the decision."""

    producer_id: int
    producer_epoch: int


class Transactor:
    """The transactions of one transactional id."""

    def __init__(
        self, pool: Pool, transactional_id: str, *, timeout_ms: int, max_block_ms: int, two_phase_commit: bool
    ) -> None:
        self.transactional_id = transactional_id
        self.producer = ProducerIdAndEpoch()
        self.level = 0
        """The cluster's transaction version."""
        self.state = TransactorState.IDLE
        self.kept: PreparedTransaction | None = None
        """The prepared transaction of an earlier instance."""
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._max_block_ms = max_block_ms
        self._two_phase_commit = two_phase_commit
        self._link = GroupLink(pool, transactional_id, key_type=TRANSACTION)
        self._groups: dict[str, GroupLink] = {}
        self._added: set[TopicPartition] = set()
        self._added_groups: set[str] = set()
        self._begun = False
        self._failure: KafkaError | None = None

    @property
    def bumps_epoch(self) -> bool:
        """Whether brokers add partitions, and every end brings a new epoch."""
        return self.level >= BUMPS_EPOCH

    # -- life ---------------------------------------------------------------------------------------------

    async def init(self, *, again: bool = False, keep_prepared: bool = False) -> None:
        """InitProducerId: fence earlier producers of the transactional id, or bump the epoch after an error."""
        connection = await self._pool.node(await self._link.node())
        self.level = connection.features.get(FEATURE, 0)
        producer_id, epoch = self.producer if again else ProducerIdAndEpoch()
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            enable2_pc=self._two_phase_commit,
            keep_prepared_txn=keep_prepared,
        )
        version = None
        if self._two_phase_commit:
            version = TWO_PHASES_SINCE
            if connection.versions.get(ApiKey.INIT_PRODUCER_ID, (0, -1))[1] < version:
                raise UnsupportedVersion("the cluster does not offer two-phase commit")
        answer = await self._ask(request, InitProducerIdResponse, version=version)
        self._raise_for(answer.error_code)
        self.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        self.state = TransactorState.IDLE
        if answer.ongoing_txn_producer_id >= 0:
            self.kept = PreparedTransaction(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
            self.state, self._begun = TransactorState.PREPARED, True

    def begin(self) -> None:
        """Open a transaction."""
        self.require(TransactorState.IDLE)
        self.state = TransactorState.OPEN
        self._failure = None

    def require(self, *states: TransactorState) -> None:
        """Raise unless the producer is in one of these states."""
        if self.state in states:
            return
        if self._failure is not None:
            raise type(self._failure)(self._failure.message)
        raise RuntimeError(
            f"the transaction is {self.state.value}, not {' or '.join(expected.value for expected in states)}"
        )

    def sending_failed(self, error: KafkaError) -> None:
        """A record of the transaction was refused; an old epoch may mean no more than that time was up."""
        if self.bumps_epoch and isinstance(error, InvalidProducerEpoch):
            error = TransactionAbortable(error.message or "the transaction was ended by its coordinator")
        self.fail(error)

    def fail(self, error: KafkaError) -> None:
        """Something of the transaction went wrong: it can only be aborted, or nothing can be done at all."""
        if self.state is not TransactorState.DEAD:
            self.state = TransactorState.DEAD if isinstance(error, FATAL) else TransactorState.FAILED
            self._failure = error

    # -- what belongs to a transaction ----------------------------------------------------------------------

    async def write_to(self, partition: TopicPartition) -> None:
        """Add a partition to the transaction, unless brokers do that."""
        self._begun = True
        if self.bumps_epoch or partition in self._added:
            return
        topic = AddPartitionsToTxnTopic(name=partition.topic, partitions=[partition.partition])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer.producer_id,
            v3_and_below_producer_epoch=self.producer.epoch,
            v3_and_below_topics=[topic],
        )
        answer = await self._ask(request, AddPartitionsToTxnResponse, code=_code_of_adding, at_most=3)
        self._raise_for(_code_of_adding(answer))
        self._added.add(partition)

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int], group: str, identity: Identity, instance_id: str | None
    ) -> None:
        """Commit these offsets of a group with the transaction."""
        self.require(TransactorState.OPEN)
        self._begun = True
        if not self.bumps_epoch and group not in self._added_groups:
            adding = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                group_id=group,
            )
            self._raise_for((await self._ask(adding, AddOffsetsToTxnResponse)).error_code)
            self._added_groups.add(group)
        by_topic: defaultdict[str, list[TxnOffsetCommitRequestPartition]] = defaultdict(list)
        for tp, offset in offsets.items():
            row = TxnOffsetCommitRequestPartition(
                partition_index=tp.partition, committed_offset=offset, committed_metadata=""
            )
            by_topic[tp.topic].append(row)
        member_id, epoch = identity()
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.epoch,
            generation_id=epoch,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in by_topic.items()],
        )
        link = self._groups.setdefault(group, GroupLink(self._pool, group))
        at_most = None if self.bumps_epoch else 4
        answer = await self._ask(request, TxnOffsetCommitResponse, code=_code_of_offsets, at_most=at_most, link=link)
        self._raise_for(_code_of_offsets(answer))

    # -- the end -------------------------------------------------------------------------------------------

    async def end(self, *, commit: bool) -> None:
        """Commit or abort; then another transaction may begin."""
        broken = self.state is TransactorState.FAILED
        if self._begun:
            request = EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.epoch,
                committed=commit,
            )
            answer = await self._ask(request, EndTxnResponse, at_most=None if self.bumps_epoch else 4)
            self._raise_for(answer.error_code)
            if self.bumps_epoch:
                self.producer = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
        self.state, self.kept = TransactorState.IDLE, None
        self._begun, self._failure = False, None
        self._added.clear()
        self._added_groups.clear()
        if broken and not self.bumps_epoch:
            # What was sent before the failure may still arrive: a new epoch keeps it out (KIP-360).
            await self.init(again=True)

    # -- asking ----------------------------------------------------------------------------------------------

    async def _ask(
        self,
        request: Any,
        response: type[R],
        *,
        code: Any = top_code,
        at_most: int | None = None,
        version: int | None = None,
        link: GroupLink | None = None,
    ) -> R:
        """The coordinator's answer, asked again while the last transaction is being ended."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._max_block_ms / 1000
        known_by = loop.time() + KNOWN_EVERYWHERE_SECONDS
        for attempt in count(1):
            left_ms = max(1, int((deadline - loop.time()) * 1000))
            answer = await (link or self._link).ask(
                request, response, code=code, timeout_ms=left_ms, at_most=at_most, version=version
            )
            wait = min(FIRST_RETRY_SECONDS * 2 ** min(attempt, 10), self._pool.retry_delay(attempt))
            found = code(answer)
            until = known_by if found == UnknownTopicOrPartition.code else deadline
            if found not in ASKED_AGAIN or loop.time() + wait > until:
                return answer
            logger.debug("retrying %s of %r: %s", type(request).__name__, self.transactional_id, error_for(found))
            await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    def _raise_for(self, code: int) -> None:
        if not code:
            return
        error = error_for(code)
        if isinstance(error, InvalidProducerEpoch | UnknownProducerId):
            error = ProducerFenced(error.message or "another producer has the transactional id")
        if not error.retriable:
            self.fail(error)
        raise error


def _code_of_adding(answer: AddPartitionsToTxnResponse) -> int:
    """The first error of a partition: that of the whole is said of each."""
    rows = (row for topic in answer.results_by_topic_v3_and_below for row in topic.results_by_partition)
    return next((row.partition_error_code for row in rows if row.partition_error_code), 0)


def _code_of_offsets(answer: TxnOffsetCommitResponse) -> int:
    return next((row.error_code for topic in answer.topics for row in topic.partitions if row.error_code), 0)
