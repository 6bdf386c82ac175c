"""Fetch sessions (KIP-227) over plain sockets: what is told, what is left out, and that nobody waits in vain."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from crash.raw import Raw
from kavka.model.types import Uuid
from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.protocol.schemas.delete_topics import DeleteTopicsRequest
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from kavka.testing import Cluster

VERSION = 17
SESSION_ID_NOT_FOUND, INVALID_EPOCH, TOPIC_ID_ERROR, UNKNOWN_TOPIC_ID = 70, 71, 106, 100


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config={"max.incremental.fetch.session.cache.slots": "3"}) as cluster:
        yield cluster


class Topic:
    """A topic of its own for each test."""

    count = 0

    def __init__(self, cluster: Cluster, partitions: int) -> None:
        Topic.count += 1
        self.name = f"topic-{Topic.count}"
        self._raw = Raw(cluster.bootstrap)
        self.id = self.create(partitions)

    def create(self, partitions: int) -> Uuid:
        topic = CreatableTopic(
            name=self.name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        (row,) = self._raw.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics
        assert row.error_code == 0
        wanted = MetadataRequestTopic(name=self.name)
        (found,) = self._raw.call(MetadataRequest(topics=[wanted], allow_auto_topic_creation=False), 12).topics
        id_: Uuid = found.topic_id
        return id_

    def write(self, partition: int = 0, size: int = 20) -> None:
        assert self._raw.produce(self.name, b"v" * size, partition)[0] == 0

    def delete(self) -> None:
        (row,) = self._raw.call(DeleteTopicsRequest(topic_names=[self.name], timeout_ms=10_000), 5).responses
        assert row.error_code == 0

    def close(self) -> None:
        self._raw.close()


@pytest.fixture
def topic(cluster: Cluster) -> Iterator[Topic]:
    topic = Topic(cluster, 3)
    yield topic
    topic.close()


class Consumer:
    """A client of one session."""

    def __init__(self, cluster: Cluster, topic: Topic) -> None:
        self._raw = Raw(cluster.bootstrap)
        self._topic = topic
        self.session_id = 0
        self.epoch = 0

    def send(
        self,
        *offsets: tuple[int, int],
        forget: tuple[int, ...] = (),
        wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        version: int = VERSION,
    ) -> None:
        """Ask for partitions from offsets on."""
        rows = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in offsets
        ]
        key: dict[str, Any] = {"topic_id": self._topic.id} if version >= 13 else {"topic": self._topic.name}
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(**key, partitions=rows)] if rows else [],
            forgotten_topics_data=[ForgottenTopic(**key, partitions=list(forget))] if forget else [],
        )
        self._raw._socket.sendall(encode_request(version, 1, "test", request))

    def receive(self, version: int = VERSION) -> dict[int, tuple[int, bool]]:
        """Error code, and whether there were records, by partition; the session goes on."""
        (size,) = struct.unpack(">i", self._raw._receive(4))
        answer = parse_response(API[ApiKey.FETCH], version, self._raw._receive(size))[1]
        if answer.error_code:
            raise SessionError(answer.error_code)
        self.session_id = answer.session_id
        self.epoch = self.epoch + 1 if self.session_id else 0
        return {
            row.partition_index: (row.error_code, bool(row.records))
            for one in answer.responses
            for row in one.partitions
        }

    def fetch(self, *offsets: tuple[int, int], **how: Any) -> dict[int, tuple[int, bool]]:
        self.send(*offsets, **how)
        return self.receive(how.get("version", VERSION))

    def close(self) -> None:
        self._raw.close()


class SessionError(Exception):
    """The code of a whole response."""


@pytest.fixture
def consumer(cluster: Cluster, topic: Topic) -> Iterator[Consumer]:
    consumer = Consumer(cluster, topic)
    yield consumer
    consumer.epoch = -1  # close the session: others need the slot
    consumer.fetch()
    consumer.close()


def test_a_session_is_told_of_everything_once_and_then_of_news_only(consumer: Consumer, topic: Topic) -> None:
    assert consumer.fetch((0, 0), (1, 0), (2, 0)) == {0: (0, False), 1: (0, False), 2: (0, False)}
    assert consumer.session_id > 0
    assert consumer.fetch() == {}
    topic.write(1)
    assert consumer.fetch() == {1: (0, True)}
    assert consumer.fetch() == {1: (0, True)}  # the client has not moved on
    assert consumer.fetch((1, 1)) == {}


def test_forgotten_partitions_are_told_of_no_more(consumer: Consumer, topic: Topic) -> None:
    consumer.fetch((0, 0), (1, 0))
    assert consumer.fetch(forget=(1,)) == {}
    topic.write(1)
    topic.write(0)
    assert consumer.fetch() == {0: (0, True)}
    consumer.fetch((0, 1), forget=(0,))
    assert consumer.session_id == 0  # nothing is left of it


def test_a_long_poll_of_a_session_ends_with_the_first_news_of_any_partition(consumer: Consumer, topic: Topic) -> None:
    consumer.fetch((0, 0), (1, 0), (2, 0))
    for offset in range(20):
        consumer.send((2, offset), wait_ms=30_000)
        began = time.monotonic()
        topic.write(2)
        assert consumer.receive() == {2: (0, True)}
        assert time.monotonic() - began < 5


def test_news_that_come_between_two_polls_are_not_lost(consumer: Consumer, topic: Topic) -> None:
    consumer.fetch((0, 0), (1, 0), (2, 0))
    written = [0, 0, 0]
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for index in range(3):
                topic.write(index)
                written[index] += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        offsets = {0: 0, 1: 0, 2: 0}
        for _ in range(50):
            found = consumer.fetch(*offsets.items(), wait_ms=10_000)
            assert found
            for index in found:
                offsets[index] += 1
    finally:
        stop.set()
        writer.join()


def test_a_poll_that_wants_more_waits_for_it(consumer: Consumer, topic: Topic) -> None:
    consumer.fetch((0, 0), (1, 0))
    consumer.send(wait_ms=30_000, min_bytes=200)
    for index in (0, 1, 0):
        topic.write(index)
    assert consumer.receive() == {0: (0, True), 1: (0, True)}
    consumer.send((0, 2), (1, 1), wait_ms=300, min_bytes=200)
    topic.write(0)
    began = time.monotonic()
    assert consumer.receive() == {0: (0, True)}  # when the time is up, what there is
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("again", [False, True])
def test_a_topic_that_goes_ends_the_wait_with_its_error(consumer: Consumer, topic: Topic, again: bool) -> None:
    consumer.fetch((0, 0))
    consumer.send(wait_ms=30_000)
    topic.delete()
    if again:
        topic.create(3)
    assert consumer.receive() == {0: (UNKNOWN_TOPIC_ID, False)}
    assert consumer.fetch() == {0: (UNKNOWN_TOPIC_ID, False)}  # errors are told each time


def test_what_does_not_fit_the_session_is_refused_as_a_whole(consumer: Consumer) -> None:
    consumer.fetch((0, 0))
    session_id, epoch = consumer.session_id, consumer.epoch
    consumer.epoch = epoch + 5
    with pytest.raises(SessionError, match=str(INVALID_EPOCH)):
        consumer.fetch()
    consumer.epoch = epoch
    with pytest.raises(SessionError, match=str(TOPIC_ID_ERROR)):
        consumer.fetch((1, 0), version=12)
    consumer.session_id = session_id ^ 1
    with pytest.raises(SessionError, match=str(SESSION_ID_NOT_FOUND)):
        consumer.fetch()
    consumer.session_id = session_id
    assert consumer.fetch() == {}


def test_without_a_free_slot_there_is_no_session_but_every_answer_is_whole(
    cluster: Cluster, consumer: Consumer, topic: Topic
) -> None:
    others = [Consumer(cluster, topic) for _ in range(3)]
    for other in others:
        other.fetch((0, 0), (1, 0))
        assert other.session_id
    for _ in range(2):
        assert consumer.fetch((0, 0), (1, 0)) == {0: (0, False), 1: (0, False)}
        assert consumer.session_id == 0
    others[0].epoch = -1
    others[0].fetch()
    consumer.fetch((0, 0))
    assert consumer.session_id
    for other in others[1:]:
        other.epoch = -1
        other.fetch()
    for other in others:
        other.close()


def test_one_partition_with_much_does_not_keep_the_others_from_being_read(consumer: Consumer, topic: Topic) -> None:
    for index in (0, 0, 0, 1, 2):
        topic.write(index)
    consumer.fetch((0, 0), (1, 0), (2, 0), max_bytes=1)
    seen = set()
    for _ in range(3):
        seen |= {index for index, (_, records) in consumer.fetch(max_bytes=1).items() if records}
    assert seen == {0, 1, 2}


def test_a_fetch_of_less_than_two_batches_gives_one_whole_batch_and_no_piece_of_another(cluster: Cluster) -> None:
    wide = Topic(cluster, 10)
    for index in range(10):
        wide.write(index, 400)
    raw, left = Raw(cluster.bootstrap), set(range(10))
    while left:
        rows = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in sorted(left)]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=500,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic_id=wide.id, partitions=rows)],
            forgotten_topics_data=[],
        )
        (topic,) = raw.call(request, VERSION).responses
        ((index, data),) = [(row.partition_index, bytes(row.records)) for row in topic.partitions if row.records]
        assert struct.unpack_from(">i", data, 8)[0] + 12 == len(data)
        left.remove(index)
    raw.close()
    wide.close()
