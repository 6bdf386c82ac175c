"""A node's metadata after a crash that loses everything which was not forced to the disk."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import suppress

import pytest

from kavka.client.connector import Connector
from kavka.controller.machine import Controller
from kavka.controller.topics import NewTopic
from kavka.model.clock import SystemClock
from kavka.model.errors import KafkaError
from kavka.model.settings import broker_values
from kavka.model.types import Endpoint
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.driver import RaftDriver
from kavka.quorum.format import CONTROLLER_ENDPOINT, open_standalone_dirs, random_id, read_bootstrap
from kavka.quorum.registration import Registration, register_node
from kavka.quorum.settings import MetadataReplica, QuorumSettings, SnapshotRules
from kavka.storage.disk import RealDisk, RealFile


class Witness(RealFile):
    """A file that remembers how much of it was forced."""

    def sync(self):
        super().sync()
        self._disk.forced[self.path] = self.size()


class WitnessDisk(RealDisk):
    """A disk that can lose what was never forced to it."""

    def __init__(self):
        super().__init__()
        self.forced = {}

    def file(self, path):
        return Witness(self, path)

    def create(self, path):
        super().create(path).close()
        self.forced.pop(path, None)
        return self.file(path)

    def replace_file(self, path, data):
        super().replace_file(path, data)
        self.forced[path] = len(data)

    def lose_unforced(self, root):
        for folder, _, names in os.walk(root):
            for name in names:
                path = f"{folder}/{name}"
                os.truncate(path, min(self.forced.get(path, 0), os.path.getsize(path)))


class Life:
    """One run of a node's metadata, from start to crash."""

    def __init__(self, disk, root, seed):
        self.disk, self.root, self.random = disk, root, random.Random(seed)
        self.acknowledged = {}

    async def run(self, number):
        clock = SystemClock()
        dirs = open_standalone_dirs(self.disk, [self.root], self.root, node_id=1, now_ms=clock.now_ms())
        values = broker_values({})
        machine = Controller(1, dirs.cluster_id, values, draw=self.random.randint, new_id=random_id)
        replica = MetadataReplica(1, dirs.metadata_directory_id, dirs.cluster_id, (CONTROLLER_ENDPOINT,))
        quorum = RaftDriver(self.disk, self.root, replica, QuorumSettings(), clock, Connector())
        bootstrap = read_bootstrap(self.disk, self.root)
        rules = SnapshotRules(max_bytes=3000)
        loop = ControllerLoop(quorum, machine, clock, bootstrap=bootstrap, snapshots=rules)
        loop.start()
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(loop.run())
            self.check(await loop.ready())
            where = (Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
            await register_node(loop, Registration(random_id(), where, where, (dirs.metadata_directory_id,)))
            workers = [tasks.create_task(self.work(loop, f"life{number}-{one}")) for one in range(4)]
            await asyncio.sleep(self.random.uniform(0.005, 0.1))
            for task in (run, *workers):
                task.cancel()

    async def work(self, loop, name):
        with suppress(KafkaError):
            for number in range(1000):
                topic = NewTopic(f"{name}.{number}", partitions=self.random.randint(1, 4))
                outcomes = await loop.submit(lambda machine, _, topic=topic: machine.create_topics([topic]))
                self.acknowledged[topic.name] = outcomes[topic.name]

    def check(self, image):
        """Every acknowledged topic is there as it was acknowledged, and every other one is whole."""
        topics = image.topics.by_name
        for name, created in self.acknowledged.items():
            assert topics[name].id == created.id
            assert len(topics[name].partitions) == created.partitions
        for topic in topics.values():
            assert sorted(topic.partitions) == list(range(len(topic.partitions)))
            assert topic.partitions


@pytest.mark.parametrize("seed", range(3))
def test_nothing_acknowledged_is_lost(tmp_path, seed):
    disk, root = WitnessDisk(), str(tmp_path / "data")
    life = Life(disk, root, seed)
    for number in range(8):
        asyncio.run(life.run(number))
        disk.lose_unforced(root)
    assert len(life.acknowledged) > 20
