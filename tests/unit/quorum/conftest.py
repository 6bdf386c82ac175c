"""A metadata log in a temporary directory, and the controller over it."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import asynccontextmanager

import pytest

from kavka.client.connector import Connector
from kavka.controller.machine import Controller
from kavka.controller.topics import NewTopic
from kavka.model.clock import ManualClock
from kavka.model.settings import broker_values
from kavka.model.types import Endpoint, Uuid
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.driver import RaftDriver
from kavka.quorum.format import CONTROLLER_ENDPOINT, format_dirs, read_bootstrap
from kavka.quorum.registration import Registration, register_node
from kavka.quorum.settings import MetadataReplica, QuorumSettings, SnapshotRules
from kavka.storage.disk import RealDisk

CLUSTER = "XtzFyRoARCCFvqzNMVkX_Q"


class Node:
    """A standalone node's metadata, formatted; each start is a new life of it."""

    def __init__(self, root, disk=None):
        self.root = str(root / "data")
        self.disk = disk or RealDisk()
        self.clock = ManualClock()
        numbers = itertools.count(1)
        self.new_id = lambda: Uuid((1 << 100 | next(numbers)).to_bytes(16, "big"))
        self.dirs = format_dirs(
            self.disk,
            [self.root],
            self.root,
            cluster_id=CLUSTER,
            node_id=1,
            now_ms=self.clock.now_ms(),
            new_id=self.new_id,
        )

    @property
    def log_dir(self):
        return f"{self.root}/__cluster_metadata-0"

    def quorum(self, endpoints=(CONTROLLER_ENDPOINT,)):
        replica = MetadataReplica(1, self.dirs.metadata_directory_id, CLUSTER, endpoints)
        return RaftDriver(self.disk, self.root, replica, QuorumSettings(), self.clock, Connector())

    def loop(self, quorum=None, **rules):
        machine = Controller(1, CLUSTER, broker_values({}), draw=random.Random(7).randint, new_id=self.new_id)
        bootstrap = read_bootstrap(self.disk, self.root)
        snapshots = SnapshotRules(**rules)
        return ControllerLoop(quorum or self.quorum(), machine, self.clock, bootstrap=bootstrap, snapshots=snapshots)

    @asynccontextmanager
    async def running(self, *, clean=False, close=True, register=False, quorum=None, **rules):
        """A started controller that commits; without `close` it ends as if killed."""
        loop = self.loop(quorum, **rules)
        self.report = loop.start(clean=clean)
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(loop.run())
            await loop.ready()
            if register:
                await self.register(loop)
            try:
                yield loop
            finally:
                run.cancel()
        if close:
            loop.close()

    async def register(self, loop, **more):
        endpoints = (Endpoint("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
        controllers = (Endpoint("CONTROLLER", "localhost", 9093, "PLAINTEXT"),)
        directories = (self.dirs.metadata_directory_id,)
        return await register_node(loop, Registration(self.new_id(), endpoints, controllers, directories, **more))


async def create(loop, *names, **values):
    return await loop.submit(lambda machine, _: machine.create_topics([NewTopic(name, **values) for name in names]))


@pytest.fixture(scope="session")
def nodes():
    """The class, for tests that need several."""
    return Node


@pytest.fixture
def node(tmp_path):
    """A freshly formatted standalone node."""
    return Node(tmp_path)


@pytest.fixture(scope="session")
def creating():
    """Create topics through a loop."""
    return create
