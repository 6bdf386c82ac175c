"""Kafka Streams 4.3 on Kavka, with both of its protocols and exactly once: results are exact whatever is killed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from jvm.streams_app import App, StreamsJava, missing_streams, until

from kavka.client import Admin
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from scale import rounds

PROTOCOLS = ("streams", "classic")
LINES = rounds(full=30_000, ci=900)
WORDS = [f"w{number}" for number in range(50)]
# Sessions as short as a test can wait for; the settings of streams groups are the broker's.
QUICK = {
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
    "group.streams.num.standby.replicas": "1",
    "group.initial.rebalance.delay.ms": "500",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
SAFE = {
    **QUICK,
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "transaction.state.log.min.isr": "2",
}
CLIENT = {"session_timeout_ms": "6000", "heartbeat_interval_ms": "500", "num_standby_replicas": "1"}


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamsJava]:
    reason = missing_streams()
    if reason:
        pytest.skip(reason)
    java = StreamsJava(tmp_path_factory.mktemp("streams"))
    java.compile()
    yield java
    java.close()


def settings_of(protocol: str) -> dict[str, str]:
    """Sessions of the streams protocol are the broker's business."""
    return CLIENT if protocol == "classic" else {}


def create(bootstrap: str, **topics: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions) for name, partitions in topics.items()]).values():
        future.result(60)


class Writer:
    """Writes lines, and knows how often each word was in them."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._draw = random.Random(20)
        self.expected: Counter[str] = Counter()

    def write(self, lines: int) -> None:
        for _ in range(lines):
            words = self._draw.choices(WORDS, k=10)
            self.expected.update(words)
            self._producer.produce("lines", " ".join(words).encode())
            self._producer.poll(0)
        assert self._producer.flush(120) == 0


def totals(bootstrap: str) -> Counter[str]:
    """The last count of each word, as far as it is committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-totals",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition("totals", 0, 0)])
    found: Counter[str] = Counter()
    while (message := consumer.poll(60)) is not None and not message.error():
        found[(message.key() or b"").decode()] = int(message.value() or 0)
    consumer.close()
    return found


def is_exact(bootstrap: str, expected: Counter[str]) -> bool:
    found = totals(bootstrap)
    assert all(found[word] <= count for word, count in expected.items()), "something was counted twice"
    return found == expected


def check_queries(instances: dict[str, App], expected: Counter[str]) -> None:
    """Whoever is asked for a word knows who has its count, and that one has it."""
    asked = next(iter(instances.values()))
    for word in WORDS[:10]:
        answers: list[str] = []

        def is_answered(word: str = word, answers: list[str] = answers) -> bool:
            _, *found = asked.ask(f"get {word}").split()
            if len(found) < 2 or found[1] not in instances:
                return False
            answers[:] = instances[found[1]].ask(f"get {word}").split()
            return answers[0] == "GET" and answers[-1] == str(expected[word])

        until(is_answered, f"the count of {word}: {answers}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_words_are_counted_exactly_while_instances_and_nodes_are_killed(streams: StreamsJava, protocol: str) -> None:
    ports = free_ports(3)
    with Cluster(nodes=3, config=SAFE, timeout=90) as cluster:
        create(cluster.bootstrap, lines=4, totals=1)
        writer = Writer(cluster.bootstrap)

        def start(number: int) -> App:
            return streams.words(cluster.bootstrap, protocol, "words", ports[number], **settings_of(protocol))

        first, second = start(0), start(1)
        for instance in (first, second):
            until(lambda instance=instance: instance.says("STATE RUNNING"), "it runs")  # type: ignore[misc]
        writer.write(LINES // 3)
        first.kill()
        writer.write(LINES // 3)
        third = start(2)
        cluster.kill(1)
        writer.write(LINES - 2 * (LINES // 3))
        until(lambda: third.says("STATE RUNNING"), "the third instance runs")
        cluster.start(1)
        until(lambda: is_exact(cluster.bootstrap, writer.expected), "all words are counted")
        instances = {f"127.0.0.1:{ports[1]}": second, f"127.0.0.1:{ports[2]}": third}
        check_queries(instances, writer.expected)
        for instance in (second, third):
            assert instance.stop() == 0
            assert "FAILED" not in instance.said, instance.said
        assert is_exact(cluster.bootstrap, writer.expected)


def test_an_application_changes_its_protocol_and_goes_on_where_it_was(streams: StreamsJava) -> None:
    with Cluster(config=QUICK) as cluster:
        create(cluster.bootstrap, lines=4, totals=1)
        writer = Writer(cluster.bootstrap)
        for protocol in ("classic", "streams", "classic"):
            (port,) = free_ports(1)
            instance = streams.words(cluster.bootstrap, protocol, "moving", port, **settings_of(protocol))
            until(lambda instance=instance: instance.says("STATE RUNNING"), "it runs")  # type: ignore[misc]
            writer.write(LINES // 3)
            until(lambda: is_exact(cluster.bootstrap, writer.expected), f"all is counted with {protocol}")
            assert instance.stop() == 0
            assert "FAILED" not in instance.said, instance.said
            # A thread that stops in order stays a member of a classic group until its session ends.
            until(lambda: state_of(cluster.bootstrap, "moving") == "Empty", "the group is empty")


def state_of(bootstrap: str, group: str) -> str:
    async def ask() -> str:
        async with Admin(bootstrap) as admin:
            return (await admin.describe_group(group)).state

    return asyncio.run(ask())


SMOKE_TOPICS = {
    "data": 5, "echo": 1, "max": 1, "min": 1, "min-suppressed": 1, "min-raw": 1, "dif": 1, "sum": 1, "sws-raw": 1,
    "sws-suppressed": 1, "cnt": 1, "avg": 1, "tagg": 1, "fk": 1,
}  # fmt: skip


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kafkas_own_smoke_test_passes(
    streams: StreamsJava, protocol: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keys, records, seconds = rounds(full=20, ci=5), rounds(full=1000, ci=100), rounds(full=90, ci=10)
    with Cluster(config=QUICK) as cluster:
        create(cluster.bootstrap, **SMOKE_TOPICS)
        properties = tmp_path_factory.mktemp("smoke") / "streams.properties"
        pairs = {
            "bootstrap.servers": cluster.bootstrap,
            "group.protocol": protocol,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": "200",
            **({"session.timeout.ms": "6000"} if protocol == "classic" else {}),
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))

        def process() -> App:
            return streams.start("org.apache.kafka.streams.tests.StreamsSmokeTest", [str(properties), "process"])

        first, second = process(), process()
        driver = streams.start("kavka.streams.Smoke", [cluster.bootstrap, str(keys), str(records), str(seconds)])
        until(lambda: "processed" in first.said and "processed" in second.said, "both have work")
        first.kill()
        third = process()
        until(lambda: driver.says("PASSED") or driver.says("NOT PASSED"), "Kafka has looked at the results", 400)
        assert driver.says("PASSED"), driver.said[-5000:]
        for one in (second, third):
            assert "SMOKE-TEST-CLIENT-EXCEPTION" not in one.said, one.said[-5000:]
