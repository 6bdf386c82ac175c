"""Batches with random headers over random records, every codec, to Apache Kafka and to Kavka: the same judgement.

Each is accepted by both, with the same largest timestamp in the log, or refused by both, with the same code. What is
left out, because Kavka refuses on purpose what no consumer could read: records in a compressed batch whose sizes are
not those of their fields, and numbers that are written with more bits than they have. Where the bytes of the records
are damaged, both refuse, but Kafka's code is that of whichever of its classes stumbled: there INVALID_RECORD and
UNKNOWN_SERVER_ERROR, neither of which a producer tries again, count as one.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from jvm.differential.areas.produce import produce
from jvm.differential.batches import Batch, headers_of, record
from jvm.differential.talk import Talker

from kavka.protocol.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from kavka.wire.compression import compress
from scale import rounds

if TYPE_CHECKING:
    from jvm.java_tools import Java

SEED = int(os.environ.get("KAVKA_SEED", 4301))
BATCHES = rounds(8_000, 150)  # for each topic
HOUR = 3_600_000
DAY = 24 * HOUR
NOW = int(time.time() * 1000)
TOPICS = {
    "random": {},
    "random-compacted": {"cleanup.policy": "compact"},
    "random-stamped": {"message.timestamp.type": "LogAppendTime"},
    "random-bounded": {"message.timestamp.before.max.ms": str(DAY), "message.timestamp.after.max.ms": str(DAY)},
    "random-zstd": {"compression.type": "zstd"},
    "random-plain": {"compression.type": "uncompressed"},
}
TIMES = (-1, -1, 0, 1, NOW, NOW, NOW - 5, NOW - 2 * DAY, NOW + 2 * DAY, NOW - 20 * DAY, -2, -(1 << 63), (1 << 63) - 1)
MAX = 0x7FFFFFFF
LOG_APPEND_TIME = 0x08


def mostly(rng: random.Random, usual: Any, *others: Any, one_in: int = 6) -> Any:
    """The usual value, or now and then another."""
    return rng.choice(others) if rng.randrange(one_in) == 0 else usual


REFUSED = {-1, 87}
"""UNKNOWN_SERVER_ERROR and INVALID_RECORD."""


def a_batch(rng: random.Random) -> tuple[bytes, bool]:
    """A batch of a few records that are sound, under a header that need not be; and whether its body was damaged."""
    count = rng.choice((1, 1, 2, 3, 20))
    times = [rng.choice(TIMES) if rng.randrange(3) == 0 else NOW for _ in range(count)]
    base = mostly(rng, times[0], *TIMES)
    rows = []
    for index, at in enumerate(times):
        delta = (at - base + (1 << 63)) % (1 << 64) - (1 << 63)
        offset = mostly(rng, index, 0, index + 1, -1, 7, one_in=40)
        headers = [(b"h", rng.choice((None, b"1")))] if rng.randrange(4) == 0 else []
        rows.append(record(offset, rng.choice((None, b"value")), mostly(rng, b"key", None), headers, delta))
    codec = rng.randrange(5)
    body = compress(codec, b"".join(rows))
    damaged = rng.randrange(15) == 0
    if damaged:
        body = rng.choice((body[:-1], body + b"tail", rng.randbytes(len(body)), b""))
    claimed = mostly(rng, count, count + 1, count - 1, 0, -1, MAX, one_in=10)
    flags = mostly(rng, 0, LOG_APPEND_TIME, 0x20, 0x40, 0x80, one_in=8)
    idempotent = rng.randrange(4) == 0
    batch = Batch(
        [],
        body=body,
        count=claimed,
        last_offset_delta=mostly(rng, claimed - 1, -1, claimed, MAX, one_in=20),
        attributes=mostly(rng, codec, 5, 7, (codec + 1) % 5, one_in=25) | flags,
        base_timestamp=base,
        max_timestamp=mostly(rng, max(times), *TIMES, one_in=2),
        producer_id=rng.randrange(1, 1 << 40) if idempotent else mostly(rng, -1, -2),
        producer_epoch=0 if idempotent else -1,
        base_sequence=mostly(rng, 0, -1, 5, MAX) if idempotent else mostly(rng, -1, -7, 3),
        base_offset=mostly(rng, 0, 3, one_in=40),
    )
    return batch.encode(), damaged


@dataclass
class Judge:
    """One node, and the topics of these cases on it."""

    talker: Talker
    ends: dict[str, int] = field(default_factory=dict)

    def create(self) -> None:
        """Make the topics."""
        made = [
            CreatableTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                assignments=[],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            for name, configs in TOPICS.items()
        ]
        answer = self.talker.ask(CreateTopicsRequest(topics=made, timeout_ms=30_000), 7)
        assert {topic.error_code for topic in answer.topics} == {0}
        self.talker.settle()

    def judge(self, topic: str, batch: bytes) -> tuple[int, dict[str, object] | None]:
        """The error code, and what is in the log if there is none."""
        answer = self.talker.ask(produce(batch, topic), 9)
        (row,) = answer.responses[0].partition_responses
        if row.error_code:
            return row.error_code, None
        asked = FetchPartition(partition=0, fetch_offset=row.base_offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=topic, partitions=[asked])]
        fetched = self.talker.ask(FetchRequest(max_wait_ms=100, min_bytes=0, max_bytes=1 << 20, topics=topics), 12)
        (kept, *_) = headers_of(bytes(fetched.responses[0].partitions[0].records))
        return 0, {
            name: kept[name] for name in ("max_timestamp", "attributes", "last_offset_delta", "count", "base_offset")
        }


@pytest.fixture(scope="module")
def judges(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Judge, Judge]]:
    """Apache Kafka and the node under test."""
    from jvm.nodes import APACHE, running, target

    with (
        running(APACHE, java, tmp_path_factory.mktemp("kafkas-judge")) as theirs,
        running(target(), java, tmp_path_factory.mktemp("our-judge")) as ours,
        Talker(theirs.address) as one,
        Talker(ours.address) as other,
    ):
        pair = Judge(one), Judge(other)
        for judge in pair:
            judge.create()
        yield pair


@pytest.mark.parametrize("topic", TOPICS)
def test_random_batches_are_judged_alike(judges: tuple[Judge, Judge], topic: str) -> None:
    kafka, kavka = judges
    rng = random.Random(f"{SEED} {topic}")
    codes = set()
    for number in range(BATCHES):
        batch, damaged = a_batch(rng)
        theirs, ours = kafka.judge(topic, batch), kavka.judge(topic, batch)
        codes.add(theirs[0])
        if topic == "random-stamped" and theirs[1] and ours[1]:  # the times are those of the appends
            assert theirs[1].pop("max_timestamp") > 0
            assert ours[1].pop("max_timestamp") > 0
        if damaged and {theirs[0], ours[0]} == REFUSED:
            continue
        assert ours == theirs, f"batch {number} of {topic} (seed {SEED}): {batch.hex()}"
    assert {0, 87} <= codes, "there were sound and unsound ones"


@pytest.mark.parametrize("codec", range(5))
def test_records_without_a_time_have_none_in_the_log(judges: tuple[Judge, Judge], codec: int) -> None:
    body = compress(codec, b"".join(record(i, b"v", b"k", (), -1) for i in range(3)))
    batch = Batch([], body=body, count=3, attributes=codec, base_timestamp=0, max_timestamp=0).encode()
    theirs, ours = (judge.judge("random", batch) for judge in judges)
    assert ours == theirs
    assert ours[1] is not None
    assert ours[1]["max_timestamp"] == -1
