"""Log directories that fail, and replicas moved between them, under load: nothing acknowledged is lost or doubled."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from cluster.load import Load
from cluster.looking import admin, await_healthy, create, partitions_of
from cluster.node_on_disks import FLAG
from kavka.client import ConfigResource, KafkaError, TopicPartition, blocking
from kavka.testing import Cluster
from scale import FULL, rounds

SCRIPT = str(Path(__file__).with_name("node_on_disks.py"))
PARTITIONS = 9
FAULTS = rounds(30, 2)
MOVES = rounds(100, 4)
KILLS = rounds(20, 2)
LONG_S = 60.0


def until(reached: Callable[[], bool], what: str) -> None:
    """Wait for a state."""
    deadline = time.monotonic() + LONG_S
    while not reached():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


class Replicas:
    """Where the replicas of a topic lie, asked of the nodes themselves."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic

    def _described(self, node: int) -> dict[Path, dict[int, bool] | None]:
        with blocking.Client(self._cluster.bootstrap) as client:
            (dirs,) = client.admin.describe_log_dirs(nodes=[node]).values()
        return {
            Path(log_dir.path): None
            if log_dir.error is not None
            else {tp.partition: info.is_future for tp, info in log_dir.replicas.items() if tp.topic == self._topic}
            for log_dir in dirs
        }

    def offline(self, node: int, path: Path) -> bool:
        """Whether a node says that one of its directories is."""
        with contextlib.suppress(KafkaError):
            return self._described(node)[path] is None
        return False

    def there(self, node: int, path: Path) -> list[int]:
        """The partitions in a directory."""
        return [index for index, future in (self._described(node)[path] or {}).items() if not future]

    def move(self, node: int, index: int, path: Path) -> None:
        """Begin to move a replica."""
        with blocking.Client(self._cluster.bootstrap) as client:
            client.admin.move_replicas(node, {TopicPartition(self._topic, index): str(path)})

    def settled(self, node: int) -> bool:
        """Whether none is on its way."""
        with contextlib.suppress(KafkaError):
            rows = self._described(node).values()
            return not any(future for row in rows for future in (row or {}).values())
        return False


# -- directories that fail --------------------------------------------------------------------------


@pytest.fixture
def small_disks(tmp_path: Path) -> Iterator[Path]:
    """Where a cluster is laid out whose second and third directories are file systems of their own."""
    root, mounted = tmp_path / "cluster", []
    for node in (1, 2, 3):
        for name in ("data-2", "data-3"):
            path = root / f"node-{node}" / name
            path.mkdir(parents=True)
            command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(path)]
            if subprocess.run(command, capture_output=True, check=False).returncode != 0:
                pytest.skip("mounting a file system is not permitted here")
            mounted.append(path)
    try:
        yield root
    finally:
        for path in mounted:
            subprocess.run(["umount", "-l", str(path)], check=True)


def fill(path: Path) -> None:
    """Leave no room on a file system."""
    filler = os.open(path / "filler", os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while True:
            os.write(filler, bytes(1 << 16))
    with contextlib.suppress(OSError):
        while True:
            os.write(filler, bytes(512))
    os.close(filler)


def breaking(path: Path, kind: str) -> None:
    """Have a directory fail in one of several ways."""
    if kind == "full":
        fill(path)
    else:
        Path(f"{path}{FLAG}").write_text(str(getattr(errno, kind)), encoding="utf-8")


def mend(path: Path) -> None:
    """Take away what made it fail."""
    Path(f"{path}{FLAG}").unlink(missing_ok=True)
    (path / "filler").unlink(missing_ok=True)


@pytest.mark.apart
@pytest.mark.timeout(3600 if FULL else 300)
def test_a_directory_that_fails_takes_nothing_else_with_it(small_disks: Path, rng: random.Random) -> None:
    config = {"min.insync.replicas": "2", "log.segment.bytes": "1048576"}
    program = [sys.executable, SCRIPT]
    with Cluster(nodes=3, disks=3, data_dir=small_disks, config=config, program=program, timeout=60) as cluster:
        client = admin(cluster.bootstrap)
        create(client, "orders", PARTITIONS)
        await_healthy(client, "orders", 3)
        replicas = Replicas(cluster, "orders")
        with Load(cluster.bootstrap, "orders", PARTITIONS) as load:
            load.await_acks(20)
            for number in range(FAULTS):
                node = rng.choice(cluster.nodes)
                path = rng.choice(cluster.log_dirs(node)[1:])
                lost = replicas.there(node, path)
                leaders = {index: row.leader for index, row in partitions_of(client, "orders").items()}
                kind = ("full", "EIO", "EROFS")[number % 3]
                breaking(path, kind)
                until(partial(replicas.offline, node, path), f"{path} ({kind}) is not offline")
                load.await_acks(20)
                now = {index: row.leader for index, row in partitions_of(client, "orders").items()}
                kept = set(range(PARTITIONS)) - set(lost)
                assert {index: now[index] for index in kept} == {index: leaders[index] for index in kept}
                assert all(now[index] not in (-1, node) for index in lost)
                mend(path)
                cluster.restart(node)
                await_healthy(client, "orders", 3)
                assert sorted(replicas.there(node, path)) == sorted(lost)
            load.finish()
            sys.stdout.write(f"{FAULTS} directories failed, {load.check()} records\n")


# -- moves --------------------------------------------------------------------------------------------


@pytest.mark.apart
@pytest.mark.timeout(3600 if FULL else 300)
@pytest.mark.parametrize("nodes", [1, 3])
def test_replicas_move_between_directories_while_they_are_written_to(nodes: int, rng: random.Random) -> None:
    partitions = 3
    with Cluster(nodes=nodes, disks=3, timeout=60) as cluster:
        client = admin(cluster.bootstrap)
        create(client, "orders", partitions, replicas=nodes)
        await_healthy(client, "orders", nodes)
        replicas = Replicas(cluster, "orders")
        with blocking.Client(cluster.bootstrap) as settings:
            rate = {"replica.alter.log.dirs.io.max.bytes.per.second": "200000"}
            settings.admin.alter_configs(ConfigResource.broker(), set=rate)
        killed = set(rng.sample(range(MOVES), KILLS))
        with Load(cluster.bootstrap, "orders", partitions, rate=1000.0) as load:
            load.await_acks(200)
            for number in range(MOVES):
                node, index = rng.choice(cluster.nodes), rng.randrange(partitions)
                paths = cluster.log_dirs(node)
                target = rng.choice([path for path in paths if index not in replicas.there(node, path)])
                replicas.move(node, index, target)
                if number in killed:
                    load.await_acks(rng.randrange(60))
                    cluster.kill(node)
                    cluster.start(node)
                until(partial(replicas.settled, node), f"orders-{index} is not moved to {target}")
                assert index in replicas.there(node, target)
                load.await_acks(5)
            load.finish()
            sys.stdout.write(f"{MOVES} moves, {KILLS} kills, {load.check()} records\n")
        await_healthy(client, "orders", nodes)
