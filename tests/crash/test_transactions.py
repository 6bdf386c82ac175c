"""kill -9 of producers, of the node, and of both: a transaction is there as a whole or not at all."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from crash.transacting import GROUP, SINK, SOURCE, TOPICS
from kavka.client import Admin, Consumer, NewTopic, Producer
from kavka.testing import Cluster
from kavka.testing.checker import History, check, load
from scale import rounds

ROUNDS = rounds(full=50, ci=4)
INPUT = rounds(full=20_000, ci=1_500)
FAULT_SECONDS = rounds(full=600, ci=0)
"""How long a cluster is disturbed at least while transactions are written."""
QUICK = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}
PROGRAM = str(Path(__file__).with_name("transacting.py"))


class Workers:
    """Processes that transact; each that is killed is started again under its name."""

    def __init__(self, mode: str, names: list[str], bootstrap: str, directory: Path, rng: random.Random) -> None:
        self._mode = mode
        self._bootstrap = bootstrap
        self._directory = directory
        self._rng = rng
        self.histories: list[str] = []
        self._running = {name: self._start(name) for name in names}

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        path = str(self._directory / f"{name}-{len(self.histories)}.history")
        self.histories.append(path)
        Path(path).touch()
        seed = str(self._rng.getrandbits(32))
        return subprocess.Popen([sys.executable, PROGRAM, self._mode, self._bootstrap, name, path, seed])

    def kill_one(self) -> None:
        """Kill a process at once, and start its successor, which takes its transactional id over."""
        name = self._rng.choice(list(self._running))
        self._running[name].kill()
        self._running[name].wait()
        self._running[name] = self._start(name)

    def stop(self) -> None:
        """End all of them, however that leaves their transactions."""
        for process in self._running.values():
            process.kill()
            process.wait()

    def check_alive(self) -> None:
        assert all(process.poll() is None for process in self._running.values())


@pytest.fixture(params=[1, 3], ids=["node", "cluster"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    config = QUICK if request.param == 1 else {**QUICK, **REPLICATED}
    with Cluster(nodes=request.param, config=config, data_dir=tmp_path / "data") as cluster:
        yield cluster


def create_topics(bootstrap: str, topics: dict[str, int]) -> None:
    async def create() -> None:
        async with Admin(bootstrap) as admin:
            await admin.create_topics([NewTopic(name, partitions) for name, partitions in topics.items()])

    asyncio.run(create())


async def finish(bootstrap: str, names: list[str]) -> None:
    """Take all transactional ids over, so that nothing is left open."""
    for name in names:
        async with Producer(bootstrap, transactional_id=name):
            pass
    async with Admin(bootstrap) as admin:
        while await admin.list_transactions(states=["PrepareCommit", "PrepareAbort"]):
            await asyncio.sleep(0.01)


async def read_all(bootstrap: str, topics: list[str], history: History) -> None:
    """Read everything that is committed."""
    async with Admin(bootstrap) as admin:
        described = await admin.describe_topics(topics)
    async with Consumer(bootstrap, isolation="read_committed") as consumer:
        await consumer.assign(*topics)
        async for record in consumer.until_end():
            partition = f"{record.topic}-{record.partition}"
            history.read("last", partition, record.offset, (record.value or b"").decode())
    for topic in described.values():
        for described_partition in topic.partitions:
            history.reached("last", f"{topic.name}-{described_partition.index}", 1 << 62)


def disturb(node: Cluster, workers: Workers, rng: random.Random, number: int) -> None:
    """Kill a producer, a node with all its roles, or both, at some moment."""
    time.sleep(rng.random() * 1.5)  # the moment of the crash is what is tried
    if number % 2 == 0:
        victim = rng.choice(node.nodes)
        node.kill(victim)
        time.sleep(rng.random() * 0.3)
        node.start(victim)
    if number % 3 != 0:
        workers.kill_one()
    workers.check_alive()


def settled(bootstrap: str, workers: Workers, names: list[str], topics: list[str], directory: Path) -> History:
    """The whole history, with what is there in the end."""
    workers.stop()
    asyncio.run(finish(bootstrap, names))
    path = str(directory / "last.history")
    asyncio.run(read_all(bootstrap, topics, History(path)))
    return load([*workers.histories, path])


def count_of(history: History, name: str) -> int:
    return sum(event.name == name for event in history.events)


@pytest.mark.timeout(120 + 20 * ROUNDS + FAULT_SECONDS)
def test_a_reader_of_committed_records_sees_each_transaction_whole_or_not_at_all(
    node: Cluster, rng: random.Random, tmp_path: Path
) -> None:
    create_topics(node.bootstrap, TOPICS)
    names = ["w0", "w1", "w2"]
    workers = Workers("write", names, node.bootstrap, tmp_path, rng)
    until = time.monotonic() + (FAULT_SECONDS if len(node.nodes) > 1 else 0)
    try:
        for number in count():
            disturb(node, workers, rng, number)
            if number >= ROUNDS and time.monotonic() >= until:
                break
        time.sleep(1)
        history = settled(node.bootstrap, workers, names, list(TOPICS), tmp_path)
    finally:
        workers.stop()
    sys.stdout.write(f"{number} rounds: ")
    sys.stdout.write(f"{count_of(history, 'committed')} committed, {count_of(history, 'aborted')} aborted\n")
    assert check(history) == []
    assert count_of(history, "committed") > ROUNDS
    assert count_of(history, "read") > ROUNDS


async def fill(bootstrap: str) -> None:
    async with Producer(bootstrap) as producer:
        for number in range(INPUT):
            await producer.send(SOURCE, f"in-{number}".encode(), partition=number % 3)


def wait_for(what: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.2)


async def carried(bootstrap: str) -> int:
    """How far the chain has committed its reading."""
    async with Admin(bootstrap) as admin:
        return sum(committed.offset for committed in (await admin.group_offsets(GROUP)).values())


@pytest.mark.timeout(180 + 20 * ROUNDS)
def test_a_chain_of_transactions_carries_each_record_exactly_once(
    node: Cluster, rng: random.Random, tmp_path: Path
) -> None:
    create_topics(node.bootstrap, {SOURCE: 3, SINK: 3})
    asyncio.run(fill(node.bootstrap))
    names = ["c0", "c1"]
    workers = Workers("chain", names, node.bootstrap, tmp_path, rng)
    try:
        for number in range(ROUNDS):
            disturb(node, workers, rng, number)
        wait_for(lambda: asyncio.run(carried(node.bootstrap)) == INPUT, 120)
        history = settled(node.bootstrap, workers, names, [SINK], tmp_path)
    finally:
        workers.stop()
    assert check(history) == []
    read = [event.values[3] for event in history.events if event.name == "read"]
    assert sorted(value.split("/", 1)[1] for value in read) == sorted(f"in-{number}" for number in range(INPUT))
