"""Quotas on a running node: who uses more than it may waits as long as Kafka's sums say, and nobody loses anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

import pytest

from crash.raw import HangupError, Raw
from kavka.client import DEFAULT, QuotaEntity
from kavka.client.blocking import Client
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.schemas.metadata import MetadataRequest
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.builder import BatchBuilder
from kavka.testing import Cluster
from scale import FULL, rounds

WINDOWS = 11 if FULL else 3
BESIDE_PER_SECOND = 50
ALLOWED_AT_ONCE_S = WINDOWS - 1
"""What so many seconds allow may be used at once before a client has to wait."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config={"quota.window.num": str(WINDOWS)}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(cluster.bootstrap) as client:
        yield client


def limit(client: Client, entity: QuotaEntity, **quotas: float | None) -> None:
    client.admin.alter_quotas(entity, quotas)


def batch(size: int) -> bytes:
    builder = BatchBuilder()
    builder.append(None, b"v" * size, 1)
    return builder.build()


def produce(topic: str, records: bytes, partition: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def test_a_producer_gets_its_whole_answer_and_the_time_that_it_has_to_wait(client: Client, cluster: Cluster) -> None:
    client.admin.create_topic("produced")
    limit(client, QuotaEntity(client_id="loader"), producer_byte_rate=10_000.0)
    raw = Raw(cluster.bootstrap, "loader")
    answer = raw.call(produce("produced", batch(9_000 * ALLOWED_AT_ONCE_S)), 9)
    assert (answer.throttle_time_ms, answer.responses[0].partition_responses[0].base_offset) == (0, 0)
    answer = raw.call(produce("produced", batch(10_000 * (ALLOWED_AT_ONCE_S + 5))), 9)
    assert answer.responses[0].partition_responses[0].base_offset == 1
    # five seconds more than may be used at once; what was used before may count, and part of a window has gone by
    assert 3_900 <= answer.throttle_time_ms <= 900 * ALLOWED_AT_ONCE_S + 5_100
    raw.close()
    unlimited = Raw(cluster.bootstrap, "somebody else")
    assert unlimited.call(produce("produced", batch(500_000)), 9).throttle_time_ms == 0
    unlimited.close()


def test_a_consumer_is_held_back_and_gets_everything_in_the_end(client: Client, cluster: Cluster) -> None:
    client.admin.create_topic("consumed", partitions=3)
    writer = Raw(cluster.bootstrap)
    for partition in (0, 1, 2):
        for _ in range(4):
            assert writer.call(produce("consumed", batch(10_000), partition), 9).throttle_time_ms == 0
    writer.close()
    limit(client, QuotaEntity(client_id="reader"), consumer_byte_rate=40_000.0)
    raw = Raw(cluster.bootstrap, "reader")
    offsets, waited, got, session, epoch = {0: 0, 1: 0, 2: 0}, 0, 0, 0, 0
    changed = dict(offsets)
    for _ in range(1000):  # the node may hear of the quota a little after it was set, and reading takes no time then
        if min(offsets.values()) >= 4:
            if waited:
                break
            offsets = {0: 0, 1: 0, 2: 0}
            changed = dict(offsets)
        rows = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=20_000)
            for index, offset in changed.items()
        ]
        topics = [FetchTopic(topic="consumed", partitions=rows)] if rows else []
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_id=session, session_epoch=epoch, topics=topics
        )
        answer = raw.call(request, 12)
        assert answer.error_code == 0
        known = bool(session)
        session, epoch = answer.session_id, epoch + 1 if answer.session_id else 0
        changed = dict(offsets) if not session else {}
        if answer.throttle_time_ms:
            assert not answer.responses
            assert known == bool(session)  # a client is not told of a session with an answer that has nothing
            waited += answer.throttle_time_ms
            continue
        for row in (row for one in answer.responses for row in one.partitions):
            assert row.error_code == 0
            size = len(row.records or b"")
            got += size
            offsets[row.partition_index] += size // 10_000
            changed[row.partition_index] = offsets[row.partition_index]
    raw.close()
    assert got >= 120_000
    assert waited > 0


def test_who_makes_partitions_faster_than_allowed_is_refused(client: Client, cluster: Cluster) -> None:
    limit(client, QuotaEntity(user="ANONYMOUS", client_id="maker"), controller_mutation_rate=1.0)
    raw = Raw(cluster.bootstrap, "maker")

    def create(name: str, partitions: int, version: int) -> tuple[int, int]:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        answer = raw.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), version)
        return answer.topics[0].error_code, answer.throttle_time_ms

    assert create("made", 12, 7) == (0, 0)
    code, throttle_ms = create("refused", 1, 7)
    assert code == 89
    assert 0 < throttle_ms <= 1000
    raw.close()
    limit(client, QuotaEntity(user="ANONYMOUS", client_id="maker"), controller_mutation_rate=None)
    assert "refused" not in {topic.name for topic in client.admin.list_topics()}


def test_an_address_that_connects_too_often_is_turned_away(client: Client, cluster: Cluster) -> None:
    whom = QuotaEntity(ip=DEFAULT)
    client.admin.describe_cluster()  # has its connections
    limit(client, whom, connection_creation_rate=2.0)
    answered = turned_away = 0
    for _ in range(2 * WINDOWS + 2):
        raw = Raw(cluster.bootstrap)
        try:
            raw.call(MetadataRequest(topics=[], allow_auto_topic_creation=False), 12)
            answered += 1
        except HangupError:
            turned_away += 1
        raw.close()
    limit(client, whom, connection_creation_rate=None)
    assert answered >= ALLOWED_AT_ONCE_S
    assert turned_away > 0


@pytest.mark.apart
@pytest.mark.parametrize("rate", [1 << 20, 5 << 20, 20 << 20] if FULL else [1 << 20])
def test_producers_and_consumers_settle_at_their_quota(client: Client, cluster: Cluster, rate: int) -> None:
    topic, name = f"settling-{rate}", f"settler-{rate}"
    client.admin.create_topic(topic, configs={"retention.bytes": str(64 << 20), "segment.bytes": str(32 << 20)})
    limit(client, QuotaEntity(client_id=name), producer_byte_rate=float(rate), consumer_byte_rate=float(rate))
    records = batch(min(rate // 20, 900_000))
    raw, seconds = Raw(cluster.bootstrap, name), rounds(20, 8)
    request = produce(topic, records)
    client.admin.create_topic(f"beside-{rate}")

    def produced() -> int:
        assert raw.call(request, 9).responses[0].partition_responses[0].error_code == 0
        return len(records)

    with Beside(cluster.bootstrap, f"beside-{rate}") as beside:
        settled = pace(produced, rate, seconds)
    assert abs(settled / rate - 1) < 0.05
    beside.lost_nothing()
    offset = raw.call(request, 9).responses[0].partition_responses[0].base_offset

    def consumed() -> int:
        rows = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=len(records))]
        topics = [FetchTopic(topic=topic, partitions=rows)]
        answer = raw.call(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 30, topics=topics), 12)
        return sum(len(row.records or b"") for one in answer.responses for row in one.partitions)

    with Beside(cluster.bootstrap, f"beside-{rate}") as beside:
        settled = pace(consumed, rate, seconds)
    assert abs(settled / rate - 1) < 0.05
    beside.lost_nothing()
    raw.close()


class Beside:
    """A client without quotas that writes and reads a little all the time, while others have to wait."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._raw = Raw(bootstrap, "beside")
        self._topic = topic
        self._request = produce(topic, batch(1000))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._due = self._done = 0
        self._wrong: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._raw.close()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            while not self._stop.wait(0.002):
                self._due = int((time.monotonic() - began) * BESIDE_PER_SECOND)
                if self._done < self._due:
                    self._write_and_read()
                    self._done += 1
        except Exception as error:
            self._wrong.append(f"after {self._done}: {error!r}")

    def _write_and_read(self) -> None:
        written = self._raw.call(self._request, 9)
        row = written.responses[0].partition_responses[0]
        wanted = FetchPartition(partition=0, fetch_offset=row.base_offset, partition_max_bytes=10_000)
        topics = [FetchTopic(topic=self._topic, partitions=[wanted])]
        got = self._raw.call(FetchRequest(max_wait_ms=1000, min_bytes=1, max_bytes=1 << 20, topics=topics), 12)
        (read,) = got.responses[0].partitions
        told = row.error_code, read.error_code, written.throttle_time_ms, got.throttle_time_ms
        if told != (0, 0, 0, 0) or not read.records:
            self._wrong.append(f"{row.base_offset}: {told}, {len(read.records or b'')} bytes")

    def lost_nothing(self) -> None:
        """It never had to wait, got all it wrote, and kept to its pace."""
        assert not self._wrong, self._wrong[:5]
        assert self._done >= 0.95 * self._due > 0, f"{self._done} of {self._due}"


def pace(use: Callable[[], int], rate: int, seconds: int) -> float:
    """Bytes a second of a client that has kept to its quota by itself for as long as counts, and then does not."""
    used, began = 0, time.monotonic()
    while (elapsed := time.monotonic() - began) < WINDOWS + 1:
        if used < rate * elapsed:
            used += use()
        else:
            time.sleep(0.005)
    used, began = 0, time.monotonic()
    while (elapsed := time.monotonic() - began) < seconds:
        used += use()
    return used / elapsed
