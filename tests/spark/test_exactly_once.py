"""The topic sink with delivery exactly-once: every row is there once, whatever is killed and whenever."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.scale import FULL, rounds
from tests.spark.conftest import fill

from kavka.client import LATEST, KafkaError, Pool, Producer, TopicPartition
from kavka.client.blocking import Client
from kavka.spark import exactly_once
from kavka.spark.decisions import BatchDecision, Decider
from kavka.spark.exactly_once import BatchLostError, PreparedTask, Task
from kavka.spark.options import SinkOptions, sink_options
from kavka.testing import Cluster

pytestmark = pytest.mark.timeout(1800)
DRIVER = Path(__file__).parent / "drivers" / "topic_sink.py"
KILLS = rounds(10, 1)
RECORDS = 1_000
PARTITIONS = 2
KILLED_TASK = """
import asyncio, os, sys
from kavka.client import Producer

async def write(bootstrap, id_, topic, *values):
    async with Producer(bootstrap, transactional_id=id_, two_phase_commit=True) as producer:
        producer.begin()
        for value in values:
            await producer.send(topic, value.encode())
        await producer.flush()
        os._exit(9)

asyncio.run(write(*sys.argv[1:]))
"""


# -- the protocol, without Spark ---------------------------------------------------------------------------


class Sink:
    """What Spark does with the sink: tasks that write, and a driver that commits; both can stop anywhere."""

    def __init__(self, node: Cluster, topic: str, query: str) -> None:
        self.topic = topic
        self.query = query
        self.options: SinkOptions = sink_options(
            {
                "kafka.bootstrap.servers": node.bootstrap,
                "topic": topic,
                "delivery": "exactly-once",
                "timeoutMs": "10000",
            }
        )

    def task(self, batch: int, number: int, *values: int) -> PreparedTask:
        """Write these values and prepare."""

        async def send(producer: Producer, rows: pa.RecordBatch) -> None:
            for value in rows.column("value").to_pylist():
                await producer.send(self.topic, str(value).encode())

        rows = pa.record_batch({"value": list(values)})
        task = Task(self.query, batch, number)
        return asyncio.run(task.write(self.options, iter([rows]), make_producer, send))

    def killed_task(self, number: int, *values: int) -> None:
        """A task that is killed when it has written these values and before it prepares."""
        id_ = Task(self.query, 0, number).transactional_id
        command = [sys.executable, "-c", KILLED_TASK, self.options.bootstrap, id_, self.topic, *map(str, values)]
        assert subprocess.run(command, timeout=60, check=False).returncode == 9

    def commit(self, batch: int, *messages: PreparedTask) -> None:
        exactly_once.commit(self.options, messages, batch)

    def decide(self, batch: int, *messages: PreparedTask) -> None:
        """What a driver does that is killed right after its decision."""

        async def decide() -> None:
            pool = Pool(self.options.bootstrap)
            try:
                async with Decider(pool, self.query) as decider:
                    mine = {
                        task.transactional_id: task.transaction for task in messages if task.transaction is not None
                    }
                    await decider.decide(BatchDecision(batch, mine))
            finally:
                await pool.close()

        asyncio.run(decide())


def make_producer(pool: Pool, transactional_id: str) -> Producer:
    return Producer(pool, transactional_id=transactional_id, two_phase_commit=True)


@pytest.fixture
def sink(node: Cluster, topic: Callable[..., str]) -> Sink:
    name = topic(partitions=PARTITIONS)
    return Sink(node, name, f"query-of-{name}")


def visible(client: Client, topic: str) -> list[int]:
    """What a reader of committed records sees, all the way to the end: nothing is left open."""
    deadline = time.monotonic() + 30
    while client.admin.list_transactions(states=["PrepareCommit", "PrepareAbort"]):
        assert time.monotonic() < deadline, "decided transactions are not ended"
        time.sleep(0.01)  # an end is answered before its markers are written
    with client.consumer(topic, isolation="read_committed") as consumer:
        found = sorted(int(record.value or b"") for record in consumer.until_end())
    places = dict.fromkeys((TopicPartition(topic, number) for number in range(PARTITIONS)), LATEST)
    stable = client.admin.list_offsets(places, read_committed=True)
    ends = client.admin.list_offsets(places)
    assert {tp: end.offset for tp, end in stable.items()} == {tp: end.offset for tp, end in ends.items()}
    return found


def test_batches_are_committed_one_after_the_other(sink: Sink, client: Client) -> None:
    for batch in range(3):
        sink.commit(batch, sink.task(batch, 0, 2 * batch), sink.task(batch, 1, 2 * batch + 1))
    assert visible(client, sink.topic) == [0, 1, 2, 3, 4, 5]


def test_nothing_is_seen_before_the_commit(sink: Sink, client: Client) -> None:
    prepared = sink.task(0, 0, 1, 2, 3)
    with client.consumer(sink.topic, isolation="read_committed") as consumer:
        assert list(consumer.until_end()) == []
    sink.commit(0, prepared)
    assert visible(client, sink.topic) == [1, 2, 3]


def test_a_committed_batch_that_is_replayed_is_not_written_again(sink: Sink, client: Client) -> None:
    sink.commit(0, sink.task(0, 0, 1), sink.task(0, 1, 2))
    sink.commit(0, sink.task(0, 0, 1), sink.task(0, 1, 2))
    assert visible(client, sink.topic) == [1, 2]


def test_a_batch_that_was_decided_is_completed_with_what_was_prepared(sink: Sink, client: Client) -> None:
    sink.decide(0, sink.task(0, 0, 1), sink.task(0, 1, 2), sink.task(0, 2, 3))
    again = sink.task(0, 0, 1)
    assert again.transaction is None
    sink.commit(0, again)  # this time with fewer tasks: the others' transactions are committed all the same
    assert visible(client, sink.topic) == [1, 2, 3]
    sink.commit(1, sink.task(1, 0, 4))
    assert visible(client, sink.topic) == [1, 2, 3, 4]


def test_a_batch_that_was_not_decided_is_written_anew(sink: Sink, client: Client) -> None:
    for number in range(3):
        sink.task(0, number, 100 + number)
    sink.killed_task(3, 200, 201)
    sink.commit(0, sink.task(0, 0, 1), sink.task(0, 1, 2))
    assert visible(client, sink.topic) == [1, 2]


def test_a_task_that_was_killed_is_tried_again(sink: Sink, client: Client) -> None:
    other = sink.task(0, 0, 1)
    sink.killed_task(1, 2, 3)
    sink.commit(0, other, sink.task(0, 1, 2, 3, 4))
    assert visible(client, sink.topic) == [1, 2, 3, 4]


def test_a_batch_that_failed_leaves_nothing_open(sink: Sink, client: Client) -> None:
    exactly_once.abort(sink.options, [sink.task(0, 0, 1), None, sink.task(0, 2, 2)])
    assert visible(client, sink.topic) == []


def test_a_batch_whose_task_was_overtaken_is_not_decided(sink: Sink, client: Client) -> None:
    overtaken = sink.task(0, 0, 1)
    other = sink.task(0, 1, 2)
    winner = sink.task(0, 0, 1)
    with pytest.raises(BatchLostError, match="another writer"):
        sink.commit(0, overtaken, other)
    sink.commit(0, winner, other)
    assert visible(client, sink.topic) == [1, 2]


def test_a_driver_that_was_overtaken_cannot_decide(sink: Sink, client: Client) -> None:
    async def overtaken() -> None:
        pool = Pool(sink.options.bootstrap)
        try:
            async with Decider(pool, sink.query) as late:
                async with Decider(pool, sink.query):
                    pass
                with pytest.raises(KafkaError):
                    await late.decide(BatchDecision(0, {}))
        finally:
            await pool.close()

    asyncio.run(overtaken())
    sink.commit(0, sink.task(0, 0, 7))
    assert visible(client, sink.topic) == [7]


def test_the_last_decision_is_found_behind_many_of_other_queries(
    node: Cluster, topic: Callable[..., str], client: Client
) -> None:
    name = topic(partitions=PARTITIONS)
    rare, busy = Sink(node, name, f"rare-{name}"), Sink(node, name, f"busy-{name}")
    rare.commit(0, rare.task(0, 0, 1))

    async def many() -> None:
        pool = Pool(node.bootstrap)
        try:
            async with Decider(pool, busy.query) as decider:
                for batch in range(300):
                    await decider.decide(BatchDecision(batch, {}))
        finally:
            await pool.close()

    asyncio.run(many())
    rare.commit(0, rare.task(0, 0, 1))
    assert visible(client, name) == [1]


def test_a_cluster_without_two_phase_commit_is_named_as_the_reason(tmp_path: Path) -> None:
    with Cluster() as plain:
        with Client(plain.bootstrap) as client:
            client.admin.create_topic("target", partitions=1)
        with pytest.raises(ValueError, match=r"transaction\.two\.phase\.commit\.enable"):
            Sink(plain, "target", "q").task(0, 0, 1)


# -- with Spark -----------------------------------------------------------------------------------------------


def test_a_batch_write_says_that_it_is_for_streams(spark: Any, node: Cluster) -> None:
    frame = spark.range(1).selectExpr("cast(id as string) as value")
    writer = frame.write.format("kavka").option("kafka.bootstrap.servers", node.bootstrap).mode("append")
    with pytest.raises(Exception, match="use writeStream"):
        writer.options(topic="any", delivery="exactly-once").save()


def start_driver(node: Cluster, source: str, target: str, folder: Path, master: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(DRIVER), node.bootstrap, source, target, str(folder), master]
    log = (folder / "driver.log").open("ab")
    # A process group of its own, so that its JVM and Python workers die with it.
    return subprocess.Popen(command, start_new_session=True, stderr=log)


@contextlib.contextmanager
def driving(node: Cluster, source: str, target: str, folder: Path, master: str) -> Iterator[subprocess.Popen[bytes]]:
    driver = start_driver(node, source, target, folder, master)
    try:
        yield driver
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def batches_done(folder: Path) -> int:
    return sum(1 for _ in (folder / "checkpoint" / "commits").glob("[0-9]*"))


def wait_for_batches(folder: Path, count: int, driver: subprocess.Popen[bytes]) -> bool:
    """Wait until so many batches are done; False if the driver ended before."""
    deadline = time.monotonic() + 180
    while batches_done(folder) < count:
        if driver.poll() is not None:
            return False
        assert time.monotonic() < deadline, (folder / "driver.log").read_text()[-3000:]
        time.sleep(0.02)
    return True


def assert_each_once(client: Client, target: str, total: int, folder: Path) -> None:
    found = visible(client, target)
    assert found == list(range(total)), f"{len(found)} of {total}: {(folder / 'driver.log').read_text()[-2000:]}"


def test_killed_drivers(node: Cluster, client: Client, topic: Callable[..., str], tmp_path: Path) -> None:
    source, target = topic(), topic(partitions=PARTITIONS)
    draw = random.Random(11)
    total = 0
    for _ in range(KILLS):
        fill(client, source, RECORDS, start=total)
        total += RECORDS
        with driving(node, source, target, tmp_path, "local[2]") as driver:
            wait_for_batches(tmp_path, batches_done(tmp_path) + 2, driver)
            time.sleep(draw.uniform(0, 0.7))  # somewhere in a batch
    with driving(node, source, target, tmp_path, "local[2]") as driver:
        assert driver.wait(timeout=600) == 0, (tmp_path / "driver.log").read_text()[-3000:]
    assert_each_once(client, target, total, tmp_path)


def executors(driver: subprocess.Popen[bytes]) -> list[int]:
    """The process ids of a driver's executors."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"CoarseGrainedExecutorBackend" in path.read_bytes() and os.getpgid(int(path.parent.name)) == driver.pid:
                found.append(int(path.parent.name))
    return found


@pytest.mark.skipif(not FULL, reason="starts two dozen JVMs: KAVKA_SCALE=full runs it")
def test_killed_executors(node: Cluster, client: Client, topic: Callable[..., str], tmp_path: Path) -> None:
    source, target = topic(), topic(partitions=PARTITIONS)
    draw = random.Random(12)
    total = kills = 0
    while kills < KILLS:
        fill(client, source, 8 * RECORDS, start=total)
        total += 8 * RECORDS
        with driving(node, source, target, tmp_path, "local-cluster[2,1,1024]") as driver:
            while wait_for_batches(tmp_path, batches_done(tmp_path) + 2, driver) and kills < KILLS:
                time.sleep(draw.uniform(0, 0.7))
                if alive := executors(driver):
                    os.kill(draw.choice(alive), signal.SIGKILL)
                    kills += 1
            assert driver.wait(timeout=600) == 0, (tmp_path / "driver.log").read_text()[-3000:]
    assert_each_once(client, target, total, tmp_path)
