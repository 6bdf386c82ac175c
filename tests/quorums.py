"""Quorums of several nodes in one process, on loopback and real directories, for tests to play with."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace

from kavka.broker.context import CONTROLLER
from kavka.broker.dispatch import Dispatcher
from kavka.broker.gate import Gate
from kavka.broker.handlers import HANDLERS
from kavka.client.connector import Connector
from kavka.controller.machine import Controller
from kavka.metadata.live import LiveSettings
from kavka.metadata.records.settings import ConfigRecord
from kavka.model.clock import SystemClock
from kavka.model.errors import (
    NotController,
)
from kavka.model.settings import broker_values
from kavka.model.transition import Transition
from kavka.model.types import Endpoint
from kavka.net.limits import ConnectionLimits
from kavka.net.server import Server, SocketOptions, bind
from kavka.protocol.registry import API
from kavka.protocol.schema import declared
from kavka.protocol.schemas import add_raft_voter, remove_raft_voter
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.driver import RaftDriver
from kavka.quorum.format import format_dirs, random_id, read_bootstrap
from kavka.quorum.settings import MetadataReplica, QuorumSettings, SnapshotRules
from kavka.quorum.voters import ReplicaKey, Voter
from kavka.raft.core import Peer, RaftConfig
from kavka.raft.voters import VoterSet
from kavka.storage.disk import RealDisk
from kavka.testing.local import free_ports

CLUSTER = "XtzFyRoARCCFvqzNMVkX_Q"
TIMES = RaftConfig(election_timeout_ms=400, fetch_timeout_ms=1600, request_timeout_ms=800, fetch_max_wait_ms=200)
PATIENCE = 30.0
LIMITS = ConnectionLimits(total=100, per_host=100, per_host_overrides={}, max_frame_bytes=100 << 20, idle_ms=-1)


class Node:
    """One node's directory and port; each `start` is a new life of it."""

    def __init__(self, root, id_, *, controller=True, auto_join=False):
        self.id = id_
        self.controller = controller
        self.auto_join = auto_join
        self.static = ()
        self.root = str(root / f"node{id_}")
        self.disk = RealDisk()
        self.directory_id = random_id()
        (self.port,) = free_ports(1)
        self.loop = None
        self._life = None

    @property
    def endpoint(self):
        return Endpoint("CONTROLLER", "127.0.0.1", self.port, "")

    @property
    def voter(self):
        return Voter(ReplicaKey(self.id, self.directory_id), (self.endpoint,))

    @property
    def log_dir(self):
        return f"{self.root}/__cluster_metadata-0"

    def format(self, initial=(), **more):
        how = {"cluster_id": CLUSTER, "node_id": self.id, "now_ms": 0, "controller": None, **more}
        new_id = lambda: self.directory_id  # noqa: E731  (shorter)
        format_dirs(self.disk, [self.root], self.root, initial_controllers=initial, new_id=new_id, **how)

    async def start(self, peers, *, cluster_id=CLUSTER, rules=None, clean=False):
        clock = SystemClock()
        endpoints = (self.endpoint,) if self.controller else ()
        replica = MetadataReplica(self.id, self.directory_id, cluster_id, endpoints, self.controller)
        bootstrap = tuple(Peer(-2 - number, (peer.endpoint,)) for number, peer in enumerate(peers))
        static = VoterSet(Voter(ReplicaKey(node.id), (node.endpoint,)) for node in self.static)
        settings = QuorumSettings(voters=static, bootstrap=bootstrap, raft=TIMES._replace(auto_join=self.auto_join))
        quorum = RaftDriver(self.disk, self.root, replica, settings, clock, Connector())
        machine = None
        if self.controller:
            machine = Controller(self.id, cluster_id, broker_values({}), draw=random.randint, new_id=random_id)
        bootstrap_records = read_bootstrap(self.disk, self.root)
        rules = rules or SnapshotRules()
        self.loop = ControllerLoop(quorum, machine, clock, bootstrap=bootstrap_records, snapshots=rules)
        self.report = self.loop.start(clean=clean)
        self._life = asyncio.create_task(self._live(clock))

    async def _live(self, clock):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.loop.run())
            if self.controller:
                listener = bind("CONTROLLER", "127.0.0.1", self.port, SocketOptions(-1, -1, 50))
                services = [self.loop, LiveSettings(self.id, broker_values({})), Gate(None)]
                dispatcher = Dispatcher(HANDLERS, services, {}, tasks, clock, kind=CONTROLLER)
                tasks.create_task(Server([listener], dispatcher, LIMITS, SocketOptions(-1, -1, 50), clock).run())

    async def kill(self):
        """End at once, as if the process were killed."""
        if self._life is not None:
            self._life.cancel()
            with suppress(asyncio.CancelledError):
                await self._life
            self._life = None

    async def stop(self):
        """End in order."""
        await self.loop.leave()
        await self.kill()
        self.loop.close()

    async def ask(self, request, version=None):
        """What the node answers to a request of anybody."""
        connection = await Connector().connect("127.0.0.1", self.port)
        try:
            response = API[declared(type(request)).key].response()
            return await connection.request(request, response, version=version)
        finally:
            connection.close()

    def topics(self):
        return set(self.loop.image.topics.by_name)


@asynccontextmanager
async def quorum(root, count=3, *, initial=None, rules=None, **more):
    """Nodes of one cluster, all started; the first `initial` of them vote."""
    nodes = [Node(root, number, **more) for number in range(1, count + 1)]
    voters = nodes[: count if initial is None else initial]
    for node in nodes:
        node.format(tuple(voter.voter for voter in voters) if node in voters else ())
    async with AsyncExitStack() as ends:
        for node in nodes:
            ends.push_async_callback(node.kill)
            await node.start(nodes, rules=rules)
        yield nodes


async def until(condition, what="it"):
    """Wait for something that the nodes do by themselves."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not condition():
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"{what} did not happen")
        await asyncio.sleep(0.01)


async def leader_of(nodes):
    """The node that is active, once one is."""
    alive = [node for node in nodes if node._life is not None]
    await until(lambda: any(node.loop.is_active for node in alive), "an election")
    return max((node for node in alive if node.loop.is_active), key=lambda node: node.loop.leader_epoch)


async def write(nodes, name, value="v"):
    """Have the active controller commit a record, whoever that is."""
    record = ConfigRecord(resource_type=4, resource_name="1", name=name, value=value)
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        leader = await leader_of(nodes)
        try:
            async with asyncio.timeout(2):
                return await leader.loop.submit(lambda machine, now_ms: Transition(name, (record,)))
        except (NotController, TimeoutError):
            if asyncio.get_running_loop().time() > deadline:
                raise
            await asyncio.sleep(0.02)


def written(node):
    resources = node.loop.image.configs.resources
    return {key for one, values in resources.items() if one.name == "1" for key in values}


async def same_everywhere(nodes):
    """All nodes replay to the same image, that of the log's end, which an election moves."""
    ends = lambda: [(node.loop.leader_epoch, node.loop.quorum.log.end_offset) for node in nodes if node.loop.is_active]  # noqa: E731
    offset = lambda: max(ends(), default=(0, -1))[1] - 1  # noqa: E731
    await until(lambda: all(node.loop.image.offset == offset() for node in nodes), "catching up")
    images = [replace(node.loop.image, epoch=0) for node in nodes]
    assert all(image == images[0] for image in images)


def adding(node, **more):
    return add_raft_voter.AddRaftVoterRequest(
        **{
            "cluster_id": CLUSTER,
            "timeout_ms": 1000,
            "voter_id": node.id,
            "voter_directory_id": node.directory_id,
            "listeners": [add_raft_voter.Listener(name="CONTROLLER", host="127.0.0.1", port=node.port)],
            **more,
        }
    )


def removing(node, **more):
    return remove_raft_voter.RemoveRaftVoterRequest(
        **{"cluster_id": CLUSTER, "voter_id": node.id, "voter_directory_id": node.directory_id, **more}
    )
