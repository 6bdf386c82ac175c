"""Produce straight from the frame, on real logs: rows and codes, and what waits for the disk."""

from __future__ import annotations

import asyncio

import pytest

from kavka.broker.handlers.produce import ProduceHandler
from kavka.model.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTxnState,
    KafkaError,
    MessageTooLarge,
    NotEnoughReplicas,
    OutOfOrderSequenceNumber,
    UnknownTopicOrPartition,
)
from kavka.net.responses import PENDING
from kavka.net.session import Session
from kavka.pacing.lane import Lane
from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.builder import BatchBuilder
from kavka.records.rejections import RecordsRejected, TimestampsRejected
from kavka.replica.refused import NotAdded, NotVerified, refused_row
from kavka.replica.syncing import Syncer
from kavka.replica.waiting import Purgatory

VERSION = 12
HEADER_BYTES = 4 + 2 + 2 + 4 + 2 + len("test") + 1
STORAGE_ERROR = 56


class Client:
    """What Produce needs of a connection."""

    session = Session(1, "PLAINTEXT", "127.0.0.1", 50_000)

    def __init__(self):
        self.answered = asyncio.get_running_loop().create_future()

    def serve_large(self, size):
        """Nobody counts."""

    def open_slot(self, *, exclusive):
        assert not exclusive
        return self

    def answer(self, pieces):
        self.answered.set_result(pieces)


def batch(value=b"v", *, key=b"k", timestamp=1_700_000_000_000, **header):
    builder = BatchBuilder(**header)
    builder.append(key, value, timestamp)
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
            serve = ProduceHandler(held.replicas, syncer, held.clock, Purgatory(asyncio.get_running_loop()), Lane())
            for request in requests:
                frame = memoryview(bytearray(encode_request(VERSION, 5, "test", request)))
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
        answer = reply if isinstance(reply, bytes) else b"".join(reply)
        _, response = parse_response(API[ApiKey.PRODUCE], VERSION, answer[4:])
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


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InvalidRecord("no"), None),
        (InvalidTimestamp("no"), None),
        (MessageTooLarge("no"), None),
        (NotEnoughReplicas("no"), None),
        (InvalidTxnState("no"), None),
        (RecordsRejected("no key", ((0, "no key"),)), "no key"),
        (TimestampsRejected("too old", ((0, "too old"),)), "too old"),
        (NotVerified("not now"), "not now"),
        (NotAdded(), NotAdded.__doc__),
    ],
)
def test_a_refusal_has_words_where_kafkas_has_some(held, error, words):
    row = refused_row(0, error, held.topic("orders"), None)
    assert (row[1], row[6]) == (error.code, words)


# -- one batch for one partition: the short way must end where the long one ends -----------------------------


def sequenced(number, value=b"v"):
    return batch(value, producer_id=4, producer_epoch=0, base_sequence=number)


SENT = {
    "a batch": [batch()],
    "two batches, one after the other": [batch(b"1"), batch(b"2")],
    "a producer's batches in order": [sequenced(0), sequenced(1), sequenced(2)],
    "a batch that is repeated": [sequenced(0), sequenced(1), sequenced(0)],
    "a gap in the sequence": [sequenced(0), sequenced(7)],
    "a producer's older epoch": [
        batch(producer_id=4, producer_epoch=3, base_sequence=0),
        batch(producer_id=4, producer_epoch=2, base_sequence=0),
    ],
    "a sequence without a producer's batch before": [sequenced(5)],
    "no records": [None],
    "no bytes": [b""],
    "half a batch": [batch()[:40]],
    "two batches in one": [batch() + batch()],
    "a batch and a half": [batch() + batch()[:30]],
    "a wrong CRC": [batch()[:-1] + b"!"],
    "a batch that is too large": [batch(b"x" * 2_000)],
    "a time that has not come": [batch(timestamp=1_800_000_000_000)],
    "no key": [batch(key=None)],
    "a codec": [batch(codec=1)],
    "zstd": [batch(codec=4)],
    "a base offset": [batch(base_offset=3)],
    "a control batch": [batch(control=True)],
    "part of a transaction": [batch(transactional=True, producer_id=4, producer_epoch=0, base_sequence=0)],
}
TOPICS = {
    "as usual": {},
    "limited in size": {"max_message_bytes": 1_000},
    "limited in time": {"message_timestamp_after_max_ms": 1_000},
    "compacted": {"cleanup_policy": "compact"},
    "stamped by the broker": {"message_timestamp_type": "LogAppendTime"},
    "compressed by the broker": {"compression_type": "gzip"},
    "forced to disk": {"flush_messages": 1},
    "in small segments": {"segment_bytes": 1_048_576, "segment_ms": 1},
}


@pytest.mark.parametrize("acks", [-1, 1])
@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("sent", SENT)
def test_the_short_way_of_one_batch_ends_where_the_long_one_ends(helds, sent, topic, acks):
    async def served(held, serve):
        """What each request is answered, and what the log holds after it."""
        seen = []
        for records in SENT[sent]:
            frame = memoryview(bytearray(encode_request(VERSION, 5, "test", request((0, records), acks=acks))))
            client = Client()
            try:
                reply = serve(client, frame, HEADER_BYTES, len(frame), VERSION, 5, "test")
            except KafkaError as error:
                reply = repr(error)
            if reply is PENDING:
                reply = await asyncio.wait_for(client.answered, 10)
            partition = held.replicas.find("orders", 0)
            entries = sorted(entry.fields() for entry in partition.log.producers.entries.values())
            written = partition.read_own(0, 1 << 20)
            answer = b"".join(reply) if isinstance(reply, list) else reply
            seen.append((answer, written, partition.high_watermark, partition.log.log_end_offset, entries))
        return seen

    async def go():
        loop = asyncio.get_running_loop()
        syncer = Syncer(loop)
        short, long = helds
        try:
            for held in helds:
                held.topic("orders", **TOPICS[topic])
            whole = ProduceHandler(long.replicas, syncer, long.clock, Purgatory(loop), Lane())
            whole._held = lambda *_: None
            found = await served(short, ProduceHandler(short.replicas, syncer, short.clock, Purgatory(loop), Lane()))
            assert found == await served(long, whole)
            assert len(found) == len(SENT[sent])
        finally:
            syncer.close()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    asyncio.run(go())


def test_a_disk_that_takes_nothing_is_a_storage_error_and_nothing_is_left(held, produce, caplog):
    partition = held.topic("orders")
    held.disk.faults = {"write": "orders-0/"}
    assert produce(request((0, batch()))) == [(0, STORAGE_ERROR, -1)]
    assert "append failed" in caplog.text
    held.disk.faults = {}
    assert partition.high_watermark == partition.log.log_end_offset == 0
    assert produce(request((0, batch()))) == [(0, 0, 0)]


def test_a_consumer_that_waits_hears_of_a_single_batch(held, produce):
    partition = held.topic("orders")
    heard = []

    class Watcher:
        def news(self):
            heard.append(partition.high_watermark)

    partition.watchers[Watcher()] = None
    assert produce(request((0, batch()))) == [(0, 0, 0)]
    assert heard == [1]


def test_clients_do_not_write_to_internal_topics(held, produce):
    partition = held.topic("__consumer_offsets")
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1,
        topic_data=[
            TopicProduceData(name="__consumer_offsets", partition_data=[PartitionProduceData(index=0, records=batch())])
        ],
    )
    assert produce(request) == [(0, 17, -1)]
    assert partition.log.log_end_offset == 0


class Patient:
    """A connection on which a request may hold back those behind it."""

    session = Session(1, "PLAINTEXT", "127.0.0.1", 50_000)
    closed = False

    def __init__(self):
        self.answered = asyncio.get_running_loop().create_future()
        self.exclusive = []

    @property
    def slot(self):
        return self

    def serve_large(self, size):
        """Nobody counts."""

    def open_slot(self, *, exclusive):
        self.exclusive.append(exclusive)
        return self

    def answer(self, pieces):
        self.answered.set_result(pieces)

    def abort(self):
        self.answered.set_result("aborted")


async def turns_until(future):
    turns = 0
    while not future.done():
        turns += 1
        await asyncio.sleep(0)
    return turns


def served(held, request, *, close=False):
    """What becomes of a request that has much to decompress: the answer, and the turns others had meanwhile."""

    async def go():
        syncer = Syncer(asyncio.get_running_loop())
        serve = ProduceHandler(held.replicas, syncer, held.clock, Purgatory(asyncio.get_running_loop()), Lane())
        frame = memoryview(bytearray(encode_request(VERSION, 5, "test", request)))
        client = Patient()
        reply = serve(client, frame, HEADER_BYTES, len(frame), VERSION, 5, "test")
        try:
            if reply is not PENDING:
                return reply, 0
            assert client.exclusive == [True]
            frame[:] = bytes(len(frame))  # the connection goes on to use its buffer
            if close:
                client.closed = True
                for _ in range(50):
                    await asyncio.sleep(0)
                return None, 50
            turns = await turns_until(client.answered)
            return client.answered.result(), turns
        finally:
            syncer.close()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    return asyncio.run(go())


def rows_of(pieces):
    _, response = parse_response(API[ApiKey.PRODUCE], VERSION, b"".join(pieces)[4:])
    return [(row.index, row.error_code, row.base_offset) for row in response.responses[0].partition_responses]


MUCH = batch(bytes(6 << 20), codec=1)
BOMB = batch(bytes(24 << 20), codec=1)


def test_what_decompresses_to_much_is_judged_while_others_have_their_turns(held):
    partition = held.topic("orders", 2)
    pieces, turns = served(held, request((0, batch(codec=3)), (1, MUCH)))
    assert rows_of(pieces) == [(0, 0, 0), (1, 0, 0)]
    assert turns >= 5
    assert partition.log.log_end_offset == 1


def test_what_decompresses_to_little_is_judged_at_once(held):
    held.topic("orders")
    for codec in range(1, 5):
        reply, turns = served(held, request((0, batch(bytes(100_000), codec=codec))))
        assert turns == 0
        assert reply is not PENDING


def test_a_bomb_is_refused_and_its_neighbour_is_kept(held):
    held.topic("orders", 2)
    pieces, turns = served(held, request((0, BOMB), (1, batch())))
    assert rows_of(pieces) == [(0, MessageTooLarge.code, -1), (1, 0, 0)]
    assert turns > 5


def test_a_bomb_without_acks_closes_the_connection(held):
    partition = held.topic("orders")
    assert served(held, request((0, BOMB), acks=0))[0] == "aborted"
    assert partition.log.log_end_offset == 0


def test_for_a_connection_that_is_gone_nothing_is_judged_to_its_end(held):
    partition = held.topic("orders")
    served(held, request((0, MUCH)), close=True)
    assert partition.log.log_end_offset == 0


def test_a_large_request_of_tiny_records_is_judged_in_parts_as_well(held):
    held.topic("orders", 8)
    builder = BatchBuilder()
    for _ in range(100_000):
        builder.append(None, None, 1_700_000_000_000)
    many = builder.build()
    rows = [(index, many) for index in range(8)]
    assert 8 * len(many) > 4 << 20
    pieces, turns = served(held, request(*rows))
    assert rows_of(pieces) == [(index, 0, 0) for index in range(8)]
    assert turns >= 5
