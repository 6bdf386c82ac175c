"""Markers: written to every partition of a transaction, until they are there; and only then is it complete."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from played import Forcing, PlayedPartition, turns

from kavka.coordinator.txn.codec import CODEC
from kavka.coordinator.txn.machine import TransactionCoordinator
from kavka.coordinator.txn.requests import Init, ProducerIdAndEpoch
from kavka.metadata.delta import apply
from kavka.metadata.image import EMPTY
from kavka.metadata.records.settings import FeatureLevelRecord
from kavka.metadata.records.topics import PartitionRecord, TopicRecord
from kavka.model.errors import (
    InvalidProducerEpoch,
    NetworkException,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from kavka.model.settings import broker_values
from kavka.model.types import TopicPartition, Uuid
from kavka.protocol.schemas.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from kavka.records.batch import records, scan
from kavka.records.control import parse_txn_marker
from kavka.runtime.markers import Markers, MarkerWriter, TxnMarkerEntry
from kavka.runtime.shard import ShardRuntime
from kavka.runtime.shards import Shards
from kavka.runtime.timers import Timers
from kavka.runtime.transactions import SpareIds, Transactions

HERE, THERE = 1, 2
A0, A1, A2, GONE = (TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("gone", 0))
STATE = "__transaction_state"
MARKER = TxnMarkerEntry(7, 1, True, 3, 2)


class Replicas:
    """The partitions of a node, and where the others are."""

    def __init__(self):
        self.node_id = HERE
        self.partitions = {A0: PlayedPartition(0), A1: PlayedPartition(1), TopicPartition(STATE, 0): PlayedPartition(0)}
        for tp, one in self.partitions.items():
            one.topic_partition, one.leader_epoch = tp, 5
        records_ = [FeatureLevelRecord(name="transaction.version", feature_level=2)]
        for number, (topic, leaders) in enumerate({"a": [HERE, HERE, THERE], STATE: [HERE]}.items()):
            id_ = Uuid(bytes(15) + bytes([number + 9]))
            records_.append(TopicRecord(name=topic, topic_id=id_))
            records_ += [
                PartitionRecord(
                    partition_id=index, topic_id=id_, replicas=[leader], isr=[leader], removing_replicas=[],
                    adding_replicas=[], leader=leader, leader_epoch=5, partition_epoch=0, directories=[Uuid.ZERO],
                )
                for index, leader in enumerate(leaders)
            ]  # fmt: skip
        self.image, _ = apply(EMPTY, records_, 1, 1)

    def held(self, topic, index, /):
        return self.partitions.get(TopicPartition(topic, index))


class Other:
    """Another node: it answers with what it is told to."""

    def __init__(self):
        self.codes = []
        self.asked = []

    async def __call__(self, node, request):
        self.asked.append((node, request))
        code = self.codes.pop(0) if self.codes else 0
        if isinstance(code, Exception):
            raise code
        (marker,) = request.markers
        topics = [
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ]
        return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=7, topics=topics)])


class World:
    """A transaction coordinator whose markers go to played partitions."""

    def __init__(self, clock):
        loop = asyncio.get_running_loop()
        self.replicas, self.other, self.ids = Replicas(), Other(), count(100)
        values = broker_values({})
        spare = SpareIds(self.new_id)
        self.writer = MarkerWriter(self.replicas, None, Forcing(), clock, 1_000)
        self.markers = Markers(self.replicas, self.writer, self.other)
        around = ShardRuntime(loop, clock, Timers(loop), Forcing(), 5_000, -1, publish=self.markers.publish)
        self.shards = Shards(
            STATE,
            1,
            self.replicas,
            lambda image: TransactionCoordinator(values, image, new_producer_id=spare.take),
            CODEC,
            around,
        )
        self.transactions = Transactions(self.shards, spare)

    async def new_id(self):
        return next(self.ids)

    async def __aenter__(self):
        self._tasks = [asyncio.create_task(self.shards.run()), asyncio.create_task(self.markers.run())]
        self.shards.start(self.replicas.image)
        assert await self.shards.serves("t", 1000)
        return self

    async def __aexit__(self, *_):
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def begun(self, *partitions):
        found = await self.transactions.init_producer_id(Init("t", 60_000))
        await self.transactions.add_partitions("t", found.producer, partitions, 2)
        return found.producer

    async def end(self, producer, commit=True):
        return await self.transactions.end("t", producer, commit=commit, client_version=2)

    async def status(self):
        return (await self.transactions.describe("t")).status.label

    def written(self, tp):
        found = []
        for batch in self.replicas.partitions[tp].batches:
            (info,) = scan(batch)
            (record,) = records(batch, info)
            found.append((info.producer_id, info.producer_epoch, *parse_txn_marker(record)))
        return found

    async def until(self, status):
        while await self.status() != status:
            await asyncio.sleep(0.01)


def test_every_partition_gets_its_marker_and_then_the_transaction_is_complete(play, clock):
    async def case():
        async with World(clock) as world:
            producer = await world.begun(A0, A1, A2)
            assert await world.end(producer) == (producer.producer_id, 1)
            await world.until("CompleteCommit")
            assert world.written(A0) == world.written(A1) == [(producer.producer_id, 1, True, 5)]
            ((node, request),) = world.other.asked
            (marker,) = request.markers
            assert (node, marker.producer_epoch, marker.transaction_result, marker.coordinator_epoch) == (
                THERE, 1, True, 5,
            )  # fmt: skip
            assert [(one.name, one.partition_indexes) for one in marker.topics] == [("a", [2])]

    play(case())


def test_nothing_is_complete_before_its_markers_are_replicated(play, clock):
    async def case():
        async with World(clock) as world:
            producer = await world.begun(A0)
            world.replicas.partitions[A0].replicated = False
            await world.end(producer, commit=False)
            await turns(20)
            assert await world.status() == "PrepareAbort"
            world.replicas.partitions[A0].commit()
            await world.until("CompleteAbort")

    play(case())


@pytest.mark.parametrize("failure", [NetworkException(), RequestTimedOut(), 6, 3, 19, 7, 56])
def test_a_leader_that_does_not_answer_or_has_no_time_is_asked_again(play, clock, failure):
    async def case():
        async with World(clock) as world:
            world.other.codes = [failure, failure, 0]
            await world.end(await world.begun(A2))
            await world.until("CompleteCommit")
            assert len(world.other.asked) == 3

    play(case())


def test_a_partition_that_refuses_for_a_while_gets_its_marker_in_the_end(play, clock):
    async def case():
        async with World(clock) as world:
            producer = await world.begun(A0, A1)
            world.replicas.partitions[A0].refuses = NotEnoughReplicas()
            await world.end(producer)
            await asyncio.sleep(5)
            assert await world.status() == "PrepareCommit"
            world.replicas.partitions[A0].refuses = None
            await world.until("CompleteCommit")
            assert len(world.written(A1)) == 1, "what is written is not written again"

    play(case())


def test_a_partition_that_was_deleted_needs_no_marker(play, clock):
    async def case():
        async with World(clock) as world:
            await world.end(await world.begun(A0, GONE))
            await world.until("CompleteCommit")

    play(case())


def test_a_partition_that_has_seen_a_later_epoch_needs_no_marker(play, clock):
    async def case():
        async with World(clock) as world:
            world.other.codes = [InvalidProducerEpoch.code]
            await world.end(await world.begun(A2))
            await world.until("CompleteCommit")

    play(case())


def test_whoever_is_fenced_by_a_later_coordinator_completes_nothing(play, clock):
    async def case():
        async with World(clock) as world:
            world.other.codes = [TransactionCoordinatorFenced.code]
            await world.end(await world.begun(A0, A2))
            await asyncio.sleep(60)
            assert await world.status() == "PrepareCommit"
            assert len(world.other.asked) == 1
            assert world.markers.pending == 0

    play(case())


def test_a_coordinator_that_is_loaded_anew_writes_what_is_left(play, clock):
    async def case():
        async with World(clock) as world:
            producer = await world.begun(A0)
            world.replicas.partitions[A0].refuses = NotEnoughReplicas()
            await world.end(producer)
            await turns(5)
            next(iter(world.shards)).start_over(NotLeaderOrFollower())
            world.replicas.partitions[A0].refuses = None
            await asyncio.sleep(1)
            await world.until("CompleteCommit")
            assert world.written(A0) == [(producer.producer_id, 1, True, 5)]

    play(case())


def test_an_end_without_partitions_is_complete_at_once(play, clock):
    async def case():
        async with World(clock) as world:
            found = await world.transactions.init_producer_id(Init("t", 60_000))
            await world.end(found.producer, commit=False)
            await world.until("CompleteAbort")

    play(case())


def test_writing_a_marker_says_what_is_wrong(play, clock):
    async def case():
        world = World(clock)
        with pytest.raises(UnknownTopicOrPartition):
            await world.writer.write(GONE, MARKER)
        partition = world.replicas.partitions[A0]
        partition.replicated = False
        with pytest.raises(RequestTimedOut):
            await world.writer.write(A0, MARKER)
        writing = asyncio.ensure_future(world.writer.write(A0, MARKER))
        await turns(3)
        partition.leads = False
        partition.commit()
        with pytest.raises(NotLeaderOrFollower):
            await writing
        assert not partition.watchers

    play(case())


def test_many_transactions_end_beside_each_other(play, clock):
    async def case():
        async with World(clock) as world:
            producers = {}
            for number in range(30):
                id_ = f"t{number}"
                found = await world.transactions.init_producer_id(Init(id_, 60_000))
                await world.transactions.add_partitions(id_, found.producer, [A0, A2], 2)
                producers[id_] = found.producer
            ends = [
                world.transactions.end(id_, ProducerIdAndEpoch(*one), commit=True, client_version=2)
                for id_, one in producers.items()
            ]
            await asyncio.gather(*ends)
            while world.markers.pending:
                await asyncio.sleep(0.01)
            found = await world.transactions.list(lambda *_: True)
            assert {one.status.label for _, one in found} == {"CompleteCommit"}
            assert len(world.written(A0)) == 30

    play(case())
