"""Whether a producer may write to a partition in its transaction: its coordinator knows (KIP-890).

The first batch of a transaction in a partition waits until the coordinator says that the partition is part of the
transaction; from transaction version 2 on, it makes it so. What follows needs no asking, for the log knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.model.clock import Clock
from kavka.model.errors import (
    BY_CODE,
    BrokerNotAvailable,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    NetworkException,
    NotCoordinator,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
    UnknownServerError,
)
from kavka.model.settings import coordinators as keys
from kavka.model.settings.values import Values
from kavka.model.types import TopicPartition, Uuid
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.replica.refused import NotAdded, NotVerified
from kavka.runtime.markers import Ask
from kavka.runtime.transactions import Transactions
from kavka.runtime.versions import Knows, knows_offsets

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from kavka.coordinator.txn.requests import ProducerIdAndEpoch

Topics = Iterable[tuple[str | Uuid, Sequence[tuple[int, memoryview | None]]]]
Errors = dict[TopicPartition, KafkaError]

HEADER: Final = Struct(">21x h 20x qhi")
"""Of a batch: attributes, producer id, producer epoch, base sequence."""
TRANSACTIONAL: Final = 0x10
NO_SEQUENCE: Final = -1
FIRST_RETRY_MS: Final = 1
VERSION_2: Final = 2


class Guarded(NamedTuple):
    """A transaction that begins in a partition."""

    partition: Partition
    producer: tuple[int, int]
    guard: Any


class VerificationResult:
    """What the coordinator said about the partitions of a request."""

    __slots__ = ("_errors", "_guards")

    def __init__(self, guards: dict[TopicPartition, Guarded], errors: Errors) -> None:
        self._guards = guards
        self._errors = errors

    def require(self, partition: Partition) -> None:
        """Raise if nothing may be written to a partition, right before something is."""
        error = self._errors.get(partition.topic_partition)
        if error is not None:
            raise error
        found = self._guards.get(partition.topic_partition)
        if found is not None:
            partition.producers.require_verified(*found.producer, found.guard)


class Verification:
    """Asks coordinators for the partitions of this node."""

    def __init__(self, replicas: ReplicaManager, transactions: Transactions, ask: Ask, clock: Clock) -> None:
        self._replicas = replicas
        self._transactions = transactions
        self._ask = ask
        self._clock = clock
        self._waiting: asyncio.Queue[Callable[[], Any]] = asyncio.Queue()

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task((await self._waiting.get())())

    # -- Produce ----------------------------------------------------------------------------------------

    def begin(self, topics: Topics, knows: Knows) -> dict[TopicPartition, Guarded] | None:
        """What a transactional request begins; None if nothing has to be asked. Raises for two producers in one."""
        values: Values = self._replicas.values
        if not knows.adds and not values[keys.TRANSACTION_PARTITION_VERIFICATION_ENABLE]:
            return None
        found: dict[TopicPartition, Guarded] = {}
        producers = set()
        for topic, partitions in topics:
            for index, data in partitions:
                if data is None or len(data) < HEADER.size:
                    continue
                attributes, producer_id, epoch, sequence = HEADER.unpack_from(data)
                partition = self._replicas.held(topic, index)
                if not attributes & TRANSACTIONAL or producer_id < 0 or partition is None or not partition.leads:
                    continue  # appending says what is wrong
                producers.add((producer_id, epoch))
                verification = self._start(partition, (producer_id, epoch), sequence, knows)
                if verification is not None:
                    found[partition.topic_partition] = verification
        if len(producers) > 1:
            raise InvalidProducerIdMapping("a request with transactions of several producers")
        return found or None

    def _start(self, partition: Partition, producer: tuple[int, int], sequence: int, knows: Knows) -> Guarded | None:
        try:
            guard = partition.producers.start_verification(
                *producer, sequence, bumps_epoch=knows.adds, now_ms=self._clock.now_ms()
            )
        except InvalidProducerEpoch:
            return None  # appending says so
        return None if guard is None else Guarded(partition, producer, guard)

    def ask(
        self,
        transactional_id: str,
        begun: dict[TopicPartition, Guarded],
        knows: Knows,
        done: Callable[[VerificationResult], None],
    ) -> None:
        """Ask the coordinator about what begins, and give its verdict."""

        async def work() -> None:
            try:
                verdict = await self.judge(transactional_id, begun, knows)
            except Exception:
                # One request's fault: the others still have to be asked for.
                logger.exception("verifying the transaction of %s failed", transactional_id)
                verdict = VerificationResult(begun, dict.fromkeys(begun, UnknownServerError()))
            done(verdict)

        self._waiting.put_nowait(work)

    async def judge(
        self, transactional_id: str, begun: dict[TopicPartition, Guarded], knows: Knows
    ) -> VerificationResult:
        """The coordinator's verdict, in a producer's words."""
        producer = next(iter(begun.values())).producer
        errors = await self.check(transactional_id, producer, list(begun), knows)
        return VerificationResult(begun, {tp: for_producer(error, knows) for tp, error in errors.items()})

    # -- TxnOffsetCommit --------------------------------------------------------------------------------

    async def offsets(
        self, transactional_id: str, producer: tuple[int, int], topic: str, index: int, version: int
    ) -> Callable[[], None]:
        """Ask whether a transaction may commit offsets; what must not raise right before they are written."""
        knows = knows_offsets(version)
        partition = self._replicas.held(topic, index)
        if partition is None or not partition.leads:
            raise NotCoordinator(f"this node is not the coordinator of {topic}-{index}")
        if not knows.adds and not self._replicas.values[keys.TRANSACTION_PARTITION_VERIFICATION_ENABLE]:
            return lambda: None
        producers = partition.producers
        guard = producers.start_verification(
            *producer, NO_SEQUENCE, bumps_epoch=knows.adds, now_ms=self._clock.now_ms()
        )
        if guard is not None:
            errors = await self.check(transactional_id, producer, [partition.topic_partition], knows)
            for error in errors.values():
                raise error
        return lambda: producers.require_verified(*producer, guard)

    # -- asking -----------------------------------------------------------------------------------------

    async def check(
        self, transactional_id: str, producer: tuple[int, int], partitions: Collection[TopicPartition], knows: Knows
    ) -> Errors:
        """What is wrong with partitions; where they are added, an end that is under way is waited for a while."""
        values: Values = self._replicas.values
        wait_ms = values[keys.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS] if knows.adds else 0
        step_ms = FIRST_RETRY_MS  # markers are mostly written sooner than Kafka's first look
        until_ms = self._clock.monotonic_ms() + wait_ms
        while True:
            errors = await self._check_once(transactional_id, producer, partitions, knows)
            busy = any(isinstance(error, ConcurrentTransactions) for error in errors.values())
            if not busy or self._clock.monotonic_ms() >= until_ms:
                return errors
            await asyncio.sleep(step_ms / 1000)
            step_ms = min(2 * step_ms, values[keys.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS])

    async def _check_once(
        self, transactional_id: str, producer: tuple[int, int], partitions: Collection[TopicPartition], knows: Knows
    ) -> Errors:
        from kavka.coordinator.txn.requests import ProducerIdAndEpoch

        node = self._transactions.coordinator_of(transactional_id)
        who = ProducerIdAndEpoch(*producer)
        try:
            if node < 0:
                raise CoordinatorNotAvailable(f"{transactional_id} has no coordinator")
            if node != self._replicas.node_id:
                return await self._check_there(node, transactional_id, who, partitions, knows)
            if knows.adds:
                await self._transactions.add_partitions(transactional_id, who, partitions, VERSION_2)
                return {}
            codes = await self._transactions.verify_partitions(transactional_id, who, partitions)
        except KafkaError as error:
            return dict.fromkeys(partitions, for_client(error, knows))
        return errors_of(codes, knows)

    async def _check_there(
        self,
        node: int,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        knows: Knows,
    ) -> Errors:
        from kavka.protocol.schemas.add_partitions_to_txn import (
            AddPartitionsToTxnRequest,
            AddPartitionsToTxnTopic,
            AddPartitionsToTxnTransaction,
        )

        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    verify_only=not knows.adds,
                    topics=[AddPartitionsToTxnTopic(name=name, partitions=there) for name, there in topics.items()],
                )
            ]
        )
        try:
            answer = await self._ask(node, request)
        except RequestTimedOut as error:
            raise NetworkException(error.message) from error
        except BrokerNotAvailable as error:  # it is fenced, and what it leads is not led by another one yet
            raise CoordinatorNotAvailable(error.message) from error
        if answer.error_code:
            raise BY_CODE.get(answer.error_code, UnknownServerError)()
        codes = {
            TopicPartition(topic.name, row.partition_index): row.partition_error_code
            for result in answer.results_by_transaction
            for topic in result.topic_results
            for row in topic.results_by_partition
        }
        return errors_of(codes, knows)


def errors_of(codes: dict[TopicPartition, int], knows: Knows) -> Errors:
    """What is wrong, by partition."""
    return {tp: for_client(BY_CODE.get(code, UnknownServerError)(), knows) for tp, code in codes.items() if code}


def for_client(error: KafkaError, knows: Knows) -> KafkaError:
    """A coordinator's refusal in words that the producer's version knows."""
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch(error.message)
    if isinstance(error, InvalidTxnState) or (isinstance(error, TransactionAbortable) and not knows.abortable):
        return NotAdded()
    return error


def for_producer(error: KafkaError, knows: Knows) -> KafkaError:
    """A refusal as Produce has it: what passes by itself is asked for again, without looking for another leader."""
    passes: tuple[type[KafkaError], ...] = (
        NetworkException,
        CoordinatorLoadInProgress,
        CoordinatorNotAvailable,
        NotCoordinator,
    )
    if isinstance(error, passes) or (isinstance(error, ConcurrentTransactions) and not knows.adds):
        return NotVerified(f"the transaction cannot be verified now: {error}")
    return error
