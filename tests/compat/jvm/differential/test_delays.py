"""The same requests at the same times to Apache Kafka and to Kavka, both with quotas: the same times to wait."""

from __future__ import annotations

import time

import pytest
from jvm.differential.areas.quotas import alter
from jvm.java_tools import Java
from jvm.nodes import APACHE, KAVKA, running

from crash.raw import Raw
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.builder import BatchBuilder

RATE = 100_000.0
QUOTAS = [("producer_byte_rate", RATE), ("consumer_byte_rate", RATE), ("controller_mutation_rate", 2.0)]
SIZES = (900_000, 900_000, 900_000, 900_000)
PATIENCE_S = 60.0


def topic(name: str, partitions: int = 1) -> CreateTopicsRequest:
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)


def produce(topic: str, size: int) -> ProduceRequest:
    builder = BatchBuilder()
    builder.append(None, b"v" * size, 1)
    data = PartitionProduceData(index=0, records=builder.build())
    return ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def delays(bootstrap: str) -> list[tuple[str, int, int]]:
    """What is asked for, and the error code and the time to wait that are the answer; each on a new connection."""
    admin = Raw(bootstrap)
    for name in ("delayed", "probed"):
        assert admin.call(topic(name), 7).topics[0].error_code == 0
    admin.call(alter(((("client-id", "slow"),), list(QUOTAS))), 1)
    # Changes are applied in order, and are shown before they have effect: the later one's effect is waited for.
    admin.call(alter(((("client-id", "probe"),), [("producer_byte_rate", 1.0)])), 1)
    admin.close()
    deadline = time.monotonic() + PATIENCE_S
    while asked(bootstrap, produce("probed", 100), 9, "probe")[1] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    told = [("produce", *asked(bootstrap, produce("delayed", size), 9)) for size in SIZES]
    for offset in (0, 1, 2):
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=900_100)
        topics = [FetchTopic(topic="delayed", partitions=[wanted])]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, topics=topics)
        told.append(("fetch", *asked(bootstrap, request, 12)))
    for number, (partitions, version) in enumerate(((20, 7), (12, 7), (1, 7), (4, 5), (1, 7))):
        told.append(("create", *asked(bootstrap, topic(f"made-{number}", partitions), version)))
    return told


def asked(bootstrap: str, request: object, version: int, client_id: str = "slow") -> tuple[int, int]:
    raw = Raw(bootstrap, client_id)
    try:
        answer = raw.call(request, version)
    finally:
        raw.close()
    if isinstance(request, CreateTopicsRequest):
        return answer.topics[0].error_code, answer.throttle_time_ms
    if isinstance(request, FetchRequest):
        return len(answer.responses), answer.throttle_time_ms
    return answer.responses[0].partition_responses[0].error_code, answer.throttle_time_ms


@pytest.mark.apart
def test_the_times_to_wait_are_kafkas(java: Java, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = {}
    for which in (APACHE, KAVKA):
        with running(which, java, tmp_path_factory.mktemp(which)) as node:
            found[which] = delays(f"{node.address[0]}:{node.address[1]}")
    for (what, code, theirs), (_, our_code, mine) in zip(found[APACHE], found[KAVKA], strict=True):
        # how long the requests took moves each time by a part of a window, which is a second
        assert (our_code, abs(mine - theirs) <= 0.1 * theirs + 100 or max(mine, theirs) < 1000) == (code, True), (
            f"{what}: Kafka {code}, {theirs} ms; ours {our_code}, {mine} ms; all: {found}"
        )
    assert sum(theirs > 0 for _, _, theirs in found[APACHE]) >= 6
