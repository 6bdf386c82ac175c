"""Describe producers: what a replica remembers of those who write."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.describe_producers import describe_producers
from kavka.protocol.schemas.describe_producers import DescribeProducersRequest, TopicRequest
from kavka.records.builder import BatchBuilder


@pytest.fixture
def tell(ask, held):
    def call(topic="orders", index=0):
        request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[index])])
        return ask(describe_producers, request, 0, held.replicas).topics[0].partitions[0]

    return call


def test_each_producer_with_its_sequence_and_its_transaction(tell, held):
    partition = held.topic("orders")
    held.produce(partition)
    for producer, transactional in ((5, False), (6, True)):
        builder = BatchBuilder(producer_id=producer, producer_epoch=2, base_sequence=0, transactional=transactional)
        builder.append(b"k", b"v", 1_000)
        builder.append(b"k", b"v", 2_000)
        partition.append(memoryview(builder.build()), -1, held.clock.now_ms(), 13)
    found = {
        producer.producer_id: (
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.current_txn_start_offset,
        )
        for producer in tell().active_producers
    }
    assert found == {5: (2, 1, 2_000, -1), 6: (2, 1, 2_000, 3)}


@pytest.mark.parametrize(
    ("topic", "index", "code", "has_words"),
    [("nope", 0, 3, True), ("orders", 7, 3, False), ("bad name", 0, 17, True), ("", 0, 17, True)],
)
def test_what_is_not_there_has_its_code_and_words_where_kafka_has_some(tell, held, topic, index, code, has_words):
    held.topic("orders")
    row = tell(topic, index)
    assert (row.error_code, row.active_producers) == (code, [])
    assert bool(row.error_message) == has_words


def test_a_follower_tells_as_well(tell, held):
    partition = held.topic("orders")
    builder = BatchBuilder(producer_id=5, producer_epoch=2, base_sequence=0)
    builder.append(b"k", b"v", 1_000)
    partition.append(memoryview(builder.build()), -1, held.clock.now_ms(), 13)
    partition.leader = 9
    assert [producer.producer_id for producer in tell().active_producers] == [5]
