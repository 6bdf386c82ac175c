"""A commit that the network delivers late (KAFKA-17754): it ends the wrong transaction, but not since KIP-890.

A producer asks for a commit, hears nothing and asks again; the second request is answered, and the producer begins its
next transaction. Then the first request arrives. At transaction version 1 nothing tells it from a commit of the next
transaction, half of which becomes visible. At version 2 its epoch is that of the last transaction.
"""

from __future__ import annotations

import asyncio

import pytest

from kavka.client import Admin, Consumer, NewTopic, TopicPartition
from kavka.client.pool import Pool
from kavka.protocol.schemas.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kavka.protocol.schemas.end_txn import EndTxnRequest, EndTxnResponse
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kavka.records.builder import BatchBuilder
from kavka.testing import Cluster

CONCURRENT, FENCED = 51, 90


@pytest.fixture(scope="module")
def node():
    with Cluster(config={"transaction.state.log.num.partitions": "1"}) as cluster:
        yield cluster.bootstrap


class RawProducer:
    """A producer that decides on every request itself, so that some can come late."""

    def __init__(self, pool, topic, *, version):
        self.pool, self.topic, self.version = pool, topic, version
        self.id = f"{topic}-id"
        self.sequence = 0

    async def ask(self, request, response, version):
        connection = await self.pool.any()
        return await connection.request(request, response, version=version)

    async def until_free(self, request, response, version, code):
        while True:
            answer = await self.ask(request, response, version)
            if code(answer) not in (CONCURRENT, 14, 15, 16):
                return answer
            await asyncio.sleep(0.01)

    async def init(self):
        found = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.id])
        await self.until_free(found, FindCoordinatorResponse, 4, lambda one: one.coordinators[0].error_code)
        request = InitProducerIdRequest(transactional_id=self.id, transaction_timeout_ms=60_000)
        answer = await self.until_free(request, InitProducerIdResponse, 5, lambda one: one.error_code)
        assert answer.error_code == 0
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    async def write(self, partition, value):
        if self.version == 1:
            topics = [AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])]
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.id, v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch, v3_and_below_topics=topics,
            )  # fmt: skip
            answer = await self.until_free(request, AddPartitionsToTxnResponse, 3, code_of_adding)
            assert code_of_adding(answer) == 0
        sequence = await self.next_sequence(partition)
        builder = BatchBuilder(
            producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=sequence, transactional=True
        )
        builder.append(None, value, 1)
        data = PartitionProduceData(index=partition, records=builder.build())
        request = ProduceRequest(
            transactional_id=self.id, acks=-1, timeout_ms=5000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
        )  # fmt: skip
        version = 11 if self.version == 1 else 12
        answer = await self.until_free(request, ProduceResponse, version, code_of_produce)
        return code_of_produce(answer)

    async def next_sequence(self, partition):
        """Go on with the sequence of the epoch, as the partition knows it."""
        async with Admin(self.pool) as admin:
            known = await admin.describe_producers(TopicPartition(self.topic, partition))
        for one in known[TopicPartition(self.topic, partition)]:
            if (one.producer_id, one.producer_epoch) == (self.producer_id, self.epoch):
                return one.last_sequence + 1
        return 0

    def ending(self, commit):
        """The request as it would be sent now."""
        return EndTxnRequest(
            transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
        )

    async def end(self, request):
        version = 4 if self.version == 1 else 5
        return await self.until_free(request, EndTxnResponse, version, lambda one: one.error_code)

    async def commit(self):
        answer = await self.end(self.ending(True))
        assert answer.error_code == 0
        if self.version == 2:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch


def code_of_adding(answer):
    return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code


def code_of_produce(answer):
    return answer.responses[0].partition_responses[0].error_code


async def ended(bootstrap):
    """Wait until the markers of all decided transactions are written: a commit is answered before they are."""
    async with Admin(bootstrap) as admin:
        while await admin.list_transactions(states=["PrepareCommit", "PrepareAbort"]):
            await asyncio.sleep(0.01)


async def read(bootstrap, topic):
    await ended(bootstrap)
    async with Consumer(bootstrap, isolation="read_committed") as consumer:
        await consumer.assign(topic)
        return sorted([record.value async for record in consumer.until_end()])


async def play(bootstrap, version):
    """Two transactions, the second of which is aborted; the commit of the first comes once more amid it."""
    topic = f"late-{version}"
    async with Admin(bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, partitions=2)])
    pool = Pool(bootstrap)
    producer = RawProducer(pool, topic, version=version)
    await producer.init()
    assert await producer.write(0, b"first") == 0
    late = producer.ending(True)
    await producer.commit()
    assert await producer.write(0, b"second") == 0
    delayed = (await producer.end(late)).error_code
    wrote = await producer.write(1, b"second")
    aborted = (await producer.end(producer.ending(False))).error_code
    found = await read(bootstrap, topic)
    await pool.close()
    return delayed, wrote, aborted, found


def test_at_version_1_half_of_an_aborted_transaction_is_seen(node):
    delayed, wrote, aborted, found = asyncio.run(play(node, 1))
    assert (delayed, wrote, aborted) == (0, 0, 0)
    assert found == [b"first", b"second"], "the anomaly: a transaction that was aborted, torn"


def test_at_version_2_a_late_commit_is_fenced_and_nothing_is_torn(node):
    delayed, wrote, aborted, found = asyncio.run(play(node, 2))
    assert delayed == FENCED
    assert (wrote, aborted) == (0, 0)
    assert found == [b"first"]
