"""Verification: what begins in a partition waits for its coordinator, whose answer is put in the producer's words."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kavka.model.errors import (
    BrokerNotAvailable,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    RequestTimedOut,
    TransactionAbortable,
    UnknownServerError,
)
from kavka.model.settings import broker_values
from kavka.model.types import TopicPartition
from kavka.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kavka.records.builder import BatchBuilder
from kavka.runtime.verification import Verification
from kavka.runtime.versions import knows_offsets, knows_produce
from kavka.storage.producer_state import ProducerStates

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
OFFSETS = TopicPartition("__consumer_offsets", 0)
PRODUCER = (7, 1)
HERE, THERE = 1, 2


def batch(producer_id=7, epoch=1, sequence=0, transactional=True):
    builder = BatchBuilder(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )
    builder.append(None, b"x", 0)
    return memoryview(builder.build())


class Replicas:
    node_id = HERE

    def __init__(self, **settings):
        self.values = broker_values({key.replace("_", "."): str(value) for key, value in settings.items()})
        self.partitions = {
            tp: SimpleNamespace(topic_partition=tp, leads=True, producers=ProducerStates(tp))
            for tp in (A0, A1, OFFSETS)
        }

    def held(self, topic, index):
        return self.partitions.get(TopicPartition(topic, index))


class Coordinator:
    """The transactions of this node, or where they are."""

    def __init__(self):
        self.node = HERE
        self.answers = []
        self.asked = []

    def coordinator_of(self, transactional_id):
        return self.node

    def _next(self, what, partitions):
        self.asked.append((what, list(partitions)))
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def add_partitions(self, transactional_id, producer, partitions, version):
        self._next("add", partitions)

    async def verify_partitions(self, transactional_id, producer, partitions):
        return self._next("verify", partitions) or dict.fromkeys(partitions, 0)


class World:
    def __init__(self, clock, **settings):
        self.replicas = Replicas(**settings)
        self.coordinator = Coordinator()
        self.there = []
        self.requests = []
        self.verification = Verification(self.replicas, self.coordinator, self.ask, clock)

    async def ask(self, node, request):
        self.requests.append((node, request))
        answer = self.there.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def judge(self, *batches, version=12, **more):
        topics = [("a", list(batches))]
        knows = knows_produce(version)
        begun = self.verification.begin(topics, knows)
        return None if begun is None else await self.verification.judge("t", begun, knows)

    def partition(self, tp=A0):
        return self.replicas.partitions[tp]


@pytest.fixture
def world(clock):
    return World(clock)


def test_a_batch_outside_transactions_asks_nobody(play, world):
    async def case():
        assert await world.judge((0, batch(transactional=False))) is None
        assert await world.judge((0, None), (0, memoryview(b"short")), (9, batch())) is None
        assert world.coordinator.asked == []

    play(case())


@pytest.mark.parametrize(("version", "what"), [(10, "verify"), (11, "verify"), (12, "add"), (13, "add")])
def test_the_first_batch_of_a_transaction_is_verified_and_since_version_12_added(play, world, version, what):
    async def case():
        verdict = await world.judge((0, batch()), (1, batch()), version=version)
        assert world.coordinator.asked == [(what, [A0, A1])]
        verdict.require(world.partition())
        verdict.require(world.partition(A1))

    play(case())


def test_without_verification_older_clients_are_trusted_and_newer_ones_still_added(play, clock):
    async def case():
        world = World(clock, transaction_partition_verification_enable="false")
        assert await world.judge((0, batch()), version=11) is None
        assert await world.judge((0, batch()), version=12) is not None

    play(case())


def test_what_another_node_leads_is_not_added(play, world):
    async def case():
        world.partition().leads = False
        assert await world.judge((0, batch())) is None
        world.partition(OFFSETS).leads = False
        with pytest.raises(NotCoordinator):
            await world.verification.offsets("t", PRODUCER, *OFFSETS, 5)

    play(case())


def test_two_producers_in_one_request_are_refused(play, world):
    async def case():
        with pytest.raises(InvalidProducerIdMapping):
            await world.judge((0, batch()), (1, batch(producer_id=8)))

    play(case())


@pytest.mark.parametrize(
    ("answer", "version", "expected"),
    [
        (ProducerFenced(), 12, InvalidProducerEpoch),
        (InvalidProducerIdMapping(), 12, InvalidProducerIdMapping),
        ({A0: TransactionAbortable.code}, 11, TransactionAbortable),
        ({A0: TransactionAbortable.code}, 10, InvalidTxnState),
        (NotCoordinator(), 12, NotEnoughReplicas),
        (CoordinatorLoadInProgress(), 11, NotEnoughReplicas),
        (CoordinatorNotAvailable(), 12, NotEnoughReplicas),
        (ConcurrentTransactions(), 11, NotEnoughReplicas),
    ],
)
def test_a_refusal_is_in_words_that_the_producer_knows(play, world, answer, version, expected):
    async def case():
        world.coordinator.answers = [answer]
        verdict = await world.judge((0, batch()), version=version)
        with pytest.raises(expected):
            verdict.require(world.partition())

    play(case())


def test_an_end_that_is_under_way_is_waited_for_a_while(play, world):
    async def case():
        world.coordinator.answers = [ConcurrentTransactions(), ConcurrentTransactions()]
        (await world.judge((0, batch()))).require(world.partition())
        assert len(world.coordinator.asked) == 3
        world.coordinator.answers = [ConcurrentTransactions()] * 100
        with pytest.raises(ConcurrentTransactions):
            (await world.judge((1, batch()))).require(world.partition(A1))

    play(case())


def test_nobody_coordinates(play, world):
    async def case():
        world.coordinator.node = -1
        with pytest.raises(NotEnoughReplicas):
            (await world.judge((0, batch()))).require(world.partition())

    play(case())


def response(code, error_code=0):
    row = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=code)
    topic = AddPartitionsToTxnTopicResult(name="a", results_by_partition=[row])
    result = AddPartitionsToTxnResult(transactional_id="t", topic_results=[topic])
    return AddPartitionsToTxnResponse(error_code=error_code, results_by_transaction=[result])


@pytest.mark.parametrize(("version", "verify_only"), [(11, True), (12, False)])
def test_a_coordinator_elsewhere_is_asked_there(play, world, version, verify_only):
    async def case():
        world.coordinator.node = THERE
        world.there = [response(0)]
        (await world.judge((0, batch()), version=version)).require(world.partition())
        ((node, request),) = world.requests
        (asked,) = request.transactions
        assert (node, asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.verify_only) == (
            THERE, "t", 7, 1, verify_only,
        )  # fmt: skip

    play(case())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (response(ProducerFenced.code), InvalidProducerEpoch),
        (response(0, error_code=NotCoordinator.code), NotEnoughReplicas),
        (NetworkException(), NotEnoughReplicas),
        (RequestTimedOut(), NotEnoughReplicas),
        (BrokerNotAvailable(), NotEnoughReplicas),
    ],
)
def test_what_goes_wrong_elsewhere_is_said_as_here(play, world, answer, expected):
    async def case():
        world.coordinator.node = THERE
        world.there = [answer]
        with pytest.raises(expected):
            (await world.judge((0, batch()))).require(world.partition())

    play(case())


def test_a_verdict_that_comes_after_a_marker_lets_nothing_in(play, world):
    async def case():
        verdict = await world.judge((0, batch()), version=11)
        world.partition().producers.verifications.clear()  # as a marker does
        with pytest.raises(InvalidTxnState):
            verdict.require(world.partition())

    play(case())


def test_asking_goes_on_beside_other_work(play, world):
    async def case():
        running = asyncio.create_task(world.verification.run())
        verdicts: list[Any] = []
        knows = knows_produce(12)
        begun = world.verification.begin([("a", [(0, batch())])], knows)
        world.verification.ask("t", begun, knows, verdicts.append)
        while not verdicts:
            await asyncio.sleep(0)
        verdicts[0].require(world.partition())
        running.cancel()
        await asyncio.wait([running])

    play(case())


def test_a_fault_is_told_to_the_producer_and_the_others_are_asked_for_all_the_same(play, world):
    async def case():
        running = asyncio.create_task(world.verification.run())
        verdicts: list[Any] = []
        knows = knows_produce(12)
        world.coordinator.answers = [ZeroDivisionError()]
        for index, tp in enumerate((A0, A1)):
            begun = world.verification.begin([("a", [(index, batch())])], knows)
            world.verification.ask("t", begun, knows, verdicts.append)
            while len(verdicts) <= index:
                await asyncio.sleep(0)
            if index == 0:
                with pytest.raises(UnknownServerError):
                    verdicts[0].require(world.partition(tp))
        verdicts[1].require(world.partition(A1))
        running.cancel()
        await asyncio.wait([running])

    play(case())


# -- TxnOffsetCommit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "what"), [(3, "verify"), (4, "verify"), (5, "add")])
def test_offsets_are_verified_and_since_version_5_added(play, world, version, what):
    async def case():
        check = await world.verification.offsets("t", PRODUCER, *OFFSETS, version)
        check()
        assert world.coordinator.asked == [(what, [OFFSETS])]

    play(case())


@pytest.mark.parametrize(
    ("answer", "version", "expected"),
    [
        (ProducerFenced(), 5, InvalidProducerEpoch),
        ({OFFSETS: TransactionAbortable.code}, 4, TransactionAbortable),
        ({OFFSETS: TransactionAbortable.code}, 3, InvalidTxnState),
        (NotCoordinator(), 5, NotCoordinator),
    ],
)
def test_offsets_that_may_not_be_committed_are_refused(play, world, answer, version, expected):
    async def case():
        world.coordinator.answers = [answer]
        with pytest.raises(expected):
            await world.verification.offsets("t", PRODUCER, *OFFSETS, version)

    play(case())


def test_offsets_wait_for_a_coordinator_that_is_fenced(play, world):
    async def case():
        world.coordinator.node = THERE
        world.there = [BrokerNotAvailable()]
        with pytest.raises(CoordinatorNotAvailable):
            await world.verification.offsets("t", PRODUCER, *OFFSETS, 5)

    play(case())


def test_offsets_of_a_partition_that_is_not_here_are_somebody_elses(play, world):
    async def case():
        with pytest.raises(NotCoordinator):
            await world.verification.offsets("t", PRODUCER, "__consumer_offsets", 9, 5)

    play(case())


def test_offsets_without_verification_are_taken(play, clock):
    async def case():
        world = World(clock, transaction_partition_verification_enable="false")
        (await world.verification.offsets("t", PRODUCER, *OFFSETS, 4))()
        assert world.coordinator.asked == []

    play(case())


def test_versions_know_what_kafkas_know():
    assert [knows_produce(version).adds for version in (11, 12)] == [False, True]
    assert [knows_produce(version).abortable for version in (10, 11)] == [False, True]
    assert [knows_offsets(version).adds for version in (4, 5)] == [False, True]
    assert [knows_offsets(version).abortable for version in (3, 4)] == [False, True]
