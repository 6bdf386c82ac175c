"""Produce straight from the frame, on real logs: rows and codes, and what waits for the disk."""

from __future__ import annotations

import asyncio

import pytest

from kavka.broker.handlers.produce import Produce
from kavka.model.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    UnknownTopicOrPartition,
)
from kavka.net.connection import PENDING
from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.builder import BatchBuilder
from kavka.replica.refused import refused_row
from kavka.replica.syncing import Syncer
from kavka.replica.waiting import Waiting

VERSION = 12
HEADER_BYTES = 4 + 2 + 2 + 4 + 2 + len("test") + 1
STORAGE_ERROR = 56


class Client:
    """What Produce needs of a connection."""

    listener = "PLAINTEXT"

    def __init__(self):
        self.answered = asyncio.get_running_loop().create_future()

    def open_slot(self, *, exclusive):
        assert not exclusive
        return self

    def answer(self, pieces):
        self.answered.set_result(pieces)


def batch(value=b"v"):
    builder = BatchBuilder()
    builder.append(b"k", value, 1_700_000_000_000)
    return builder.build()


def request(*rows, acks=-1):
    data = [PartitionProduceData(index=index, records=records) for index, records in rows]
    return ProduceRequest(acks=acks, timeout_ms=1, topic_data=[TopicProduceData(name="orders", partition_data=data)])


@pytest.fixture
def produce(held):
    """Send requests one after the other; the last one's rows, or None without an answer."""

    async def go(requests):
        syncer = Syncer(asyncio.get_running_loop())
        try:
            serve = Produce(held.replicas, syncer, held.clock, Waiting(asyncio.get_running_loop()))
            for one in requests:
                frame = memoryview(encode_request(VERSION, 5, "test", one))
                client = Client()
                reply = serve(client, frame, HEADER_BYTES, len(frame), VERSION, 5, "test")
                if reply is PENDING:
                    reply = await asyncio.wait_for(client.answered, 10)
        finally:
            syncer.close()
            await asyncio.sleep(0)  # what the thread did last is taken note of
            await asyncio.sleep(0)
        if reply is None:
            return None
        _, response = parse_response(API[ApiKey.PRODUCE], VERSION, b"".join(reply)[4:])
        return [(row.index, row.error_code, row.base_offset) for row in response.responses[0].partition_responses]

    return lambda *requests: asyncio.run(go(requests))


def test_each_partition_has_its_own_row(held, produce):
    held.topic("orders", 2)
    assert produce(request((1, batch()), (7, batch()), (0, batch()), (0, batch()[:-1] + b"!"))) == [
        (1, 0, 0),
        (7, 3, -1),
        (0, 0, 0),
        (0, 2, -1),
    ]


def test_without_acks_nothing_is_answered_and_an_error_closes(held, produce):
    partition = held.topic("orders")
    assert produce(request((0, batch()), acks=0)) is None
    with pytest.raises(UnknownTopicOrPartition):  # which closes the connection
        produce(request((0, batch()), (7, batch()), acks=0))
    assert partition.log.log_end_offset == 2


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_flush_messages_forces_the_log_whatever_the_acks(held, produce, acks):
    partition = held.topic("orders", flush_messages=1)
    produce(request((0, batch()), acks=acks))
    assert partition.log.recovery_point == 1


def test_only_the_partition_that_the_disk_did_not_take_is_refused(held, produce):
    held.topic("orders", 2, flush_messages=1)
    held.disk.faults = {"sync": "orders-1/"}
    assert produce(request((0, batch()), (1, batch()))) == [(0, 0, 0), (1, STORAGE_ERROR, -1)]
    held.disk.faults = {}
    assert produce(request((0, batch()), (1, batch()))) == [(0, 0, 1), (1, STORAGE_ERROR, -1)]


def test_a_fault_of_ours_is_that_partitions_unknown_server_error(held, produce, caplog):
    held.topic("orders", 2)
    held.replicas.find("orders", 1).log.epochs = None
    assert produce(request((0, batch()), (1, batch()))) == [(0, 0, 0), (1, -1, -1)]
    assert "AttributeError" in caplog.text


@pytest.mark.parametrize("acks", [-2, 2, 99])
def test_unknown_acks_are_refused_for_every_partition(held, produce, acks):
    partition = held.topic("orders")
    assert produce(request((0, batch()), acks=acks)) == [(0, 21, -1)]
    assert partition.log.log_end_offset == 0


@pytest.mark.parametrize(
    ("error", "log_start"),
    [
        (OutOfOrderSequenceNumber, 0),
        (InvalidTimestamp, 0),
        (InvalidRecord, 0),
        (CorruptMessage, -1),
        (MessageTooLarge, -1),
    ],
)
def test_a_refusal_says_where_the_log_starts_when_kafkas_does(held, error, log_start):
    assert refused_row(0, error("no"), held.topic("orders"), None)[4] == log_start
