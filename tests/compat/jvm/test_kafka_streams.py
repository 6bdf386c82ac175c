"""Kafka Streams 4.3 on Kavka, with both of its protocols and exactly once: results are exact whatever is killed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from jvm.streams_app import App, StreamsJava, missing_streams, until

from kavka.client import Admin
from kavka.client.admin_groups import GroupDescription
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from scale import FULL, rounds

PROTOCOLS = ("streams", "classic")
LINES = rounds(full=30_000, ci=900)
KILLS = rounds(full=6, ci=1)
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
        self.lines = 0
        self.expected: Counter[str] = Counter()

    @contextmanager
    def steadily(self) -> Iterator[None]:
        """Write all the while."""
        enough = Event()

        def work() -> None:
            while not enough.wait(0.1):
                self.write(20)

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(work)
            try:
                yield
            finally:
                enough.set()
            writing.result()

    def wait_for(self, lines: int) -> None:
        """Wait until so many more lines are written by somebody else."""
        goal = self.lines + lines
        until(lambda: self.lines >= goal, f"{goal} lines are written")

    def write(self, lines: int) -> None:
        for _ in range(lines):
            words = self._draw.choices(WORDS, k=10)
            self.expected.update(words)
            self._producer.produce("lines", " ".join(words).encode())
            self._producer.poll(0)
        assert self._producer.flush(120) == 0
        self.lines += lines


def totals(bootstrap: str) -> Counter[str]:
    """The last count of each word, as far as it is committed; each is more than the one before."""
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
        word, count = (message.key() or b"").decode(), int(message.value() or 0)
        assert count > found[word], f"{word} was counted to {found[word]}, and then to {count}"
        found[word] = count
    consumer.close()
    return found


def is_exact(bootstrap: str, expected: Counter[str]) -> bool:
    found = totals(bootstrap)
    assert all(found[word] <= count for word, count in expected.items()), "something was counted twice"
    return found == expected


def check_queries(instances: dict[str, App], expected: Counter[str]) -> None:
    """Whoever is asked for a word knows who has its count and who stands by, and both have it."""
    asked = next(iter(instances.values()))
    for word in WORDS[:10]:
        answers: list[str] = []

        def is_answered(word: str = word, answers: list[str] = answers) -> bool:
            answers[:] = [asked.ask(f"get {word}")]
            match answers[0].split():
                case ["GET", _, owner, "standby", standby, *_] if {owner, standby} == instances.keys():
                    answers += [instances[owner].ask(f"get {word}"), instances[standby].ask(f"copy {word}")]
            count = str(expected[word])
            return [answer.split()[-2:] for answer in answers[1:]] == [["count", count], [word, count]]

        until(is_answered, f"the count of {word}, {expected[word]}, and a copy: {answers}")


def check_standbys(bootstrap: str, group: str) -> None:
    """Each task of the part that counts has another process that stands by for it; the other part has no state."""

    def processes() -> list[list[list[str]]]:
        topology = described(bootstrap, group).topology
        assert topology is not None
        return [
            [
                [owner.process_id for owner in (task.active, *task.standby) if owner is not None]
                for task in subtopology.tasks
            ]
            for subtopology in topology.subtopologies
        ]

    def is_shared() -> bool:
        reads, counts = processes()
        return [len(set(each)) for each in (*reads, *counts)] == [1] * 4 + [2] * 4

    until(is_shared, f"standbys: {processes()}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_words_are_counted_exactly_while_instances_and_nodes_are_killed(streams: StreamsJava, protocol: str) -> None:
    ports = free_ports(2 + KILLS)
    with Cluster(nodes=3, config=SAFE, timeout=90) as cluster:
        create(cluster.bootstrap, lines=4, totals=1)
        writer = Writer(cluster.bootstrap)

        def start(number: int) -> App:
            return streams.words(cluster.bootstrap, protocol, "words", ports[number], **settings_of(protocol))

        def runs(number: int) -> None:
            until(lambda: instances[number].says("STATE RUNNING"), "it runs")

        instances = {number: start(number) for number in range(2)}
        for number in instances:
            runs(number)
        part = LINES // (3 * KILLS)
        with writer.steadily():
            for kill in range(KILLS):
                writer.wait_for(part)
                instances.pop(kill).kill()
                writer.wait_for(part)
                instances[kill + 2] = start(kill + 2)
                node = cluster.nodes[kill % 3]
                cluster.kill(node)
                writer.wait_for(part)
                runs(kill + 2)
                cluster.start(node)
        until(lambda: is_exact(cluster.bootstrap, writer.expected), "all words are counted")
        if protocol == "streams":
            check_standbys(cluster.bootstrap, "words")
        check_queries(
            {f"127.0.0.1:{ports[number]}": instance for number, instance in instances.items()}, writer.expected
        )
        for instance in instances.values():
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
            until(lambda: described(cluster.bootstrap, "moving").state == "Empty", "the group is empty")


def described(bootstrap: str, group: str) -> GroupDescription:
    async def ask() -> GroupDescription:
        async with Admin(bootstrap) as admin:
            return await admin.describe_group(group)

    return asyncio.run(ask())


SMOKE = "org.apache.kafka.streams.tests.StreamsSmokeTest"
SMOKE_TOPICS = {
    "data": 5, "echo": 1, "max": 1, "min": 1, "min-suppressed": 1, "min-raw": 1, "dif": 1, "sum": 1, "sws-raw": 1,
    "sws-suppressed": 1, "cnt": 1, "avg": 1, "tagg": 1, "fk": 1,
}  # fmt: skip


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kafkas_own_smoke_test_passes(
    streams: StreamsJava, protocol: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keys, records, seconds = rounds(full=20, ci=5), rounds(full=1000, ci=100), rounds(full=90, ci=10)
    nodes, node_kills = rounds(full=3, ci=1), rounds(full=3, ci=0)
    with Cluster(nodes=nodes, config=SAFE if nodes == 3 else QUICK, timeout=90) as cluster:
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
            return streams.start(SMOKE, [str(properties), "process"])

        apps = [process(), process()]
        if FULL:  # the driver's own main, which has these numbers of keys, records and seconds
            driver = streams.start(SMOKE, [str(properties), "run"])
        else:
            driver = streams.start("kavka.streams.Smoke", [cluster.bootstrap, str(keys), str(records), str(seconds)])
        passed, failed = ("SUCCESS", "FAILURE") if FULL else ("PASSED", "NOT PASSED")
        for app in apps:
            until(lambda app=app: "processed" in app.said, "all have work")  # type: ignore[misc]
        apps.pop(0).kill()
        apps.append(process())
        for node in cluster.nodes[:node_kills]:
            cluster.kill(node)
            until(lambda: "processed" in apps[-1].said, "the newest has work")
            apps.pop(0).kill()
            apps.append(process())
            cluster.start(node)
        until(lambda: driver.says(passed) or driver.says(failed), "Kafka has looked at the results", 400)
        assert driver.says(passed), driver.said[-5000:]
        for app in apps:
            assert "SMOKE-TEST-CLIENT-EXCEPTION" not in app.said, app.said[-5000:]


def test_the_console_shows_a_streams_group_with_its_member(streams: StreamsJava) -> None:
    with Cluster(config={**QUICK, "kavka.console.listener": "127.0.0.1:0"}) as cluster:
        create(cluster.bootstrap, lines=4, totals=1)
        (port,) = free_ports(1)
        instance = streams.words(cluster.bootstrap, "streams", "watched", port)
        until(lambda: instance.says("STATE RUNNING"), "it runs")
        writer = Writer(cluster.bootstrap)
        writer.write(90)
        until(lambda: is_exact(cluster.bootstrap, writer.expected), "all words are counted")

        def page() -> str:
            return httpx.get(f"{cluster.console}/group", params={"id": "watched"}, timeout=30).text

        until(lambda: ">Stable<" in page(), "the console sees a stable group")
        shown = page()
        assert '<span class="tag">streams</span>' in shown
        assert "Nobody reads as this group now" not in shown
        assert ">lines-0<" in shown, "the partitions that its tasks read are the member's"
        assert "watched-" in shown.partition("<h2>Topology</h2>")[2], "its topology has a changelog"

        def listed() -> bool:  # at the console's next look at the groups
            found = httpx.get(f"{cluster.console}/groups", params={"kind": "streams"}, timeout=30).text
            return "/group?id=watched" in found

        until(listed, "the console lists the group")
        assert instance.stop() == 0
