"""Quorums of several nodes in one process, on loopback and real directories."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace

import pytest

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
    DuplicateVoter,
    InconsistentClusterId,
    InvalidVoterKey,
    NotController,
    NotLeaderOrFollower,
    PositionOutOfRange,
    SnapshotNotFound,
    VoterNotFound,
)
from kavka.model.settings import broker_values
from kavka.model.transition import Transition
from kavka.model.types import Endpoint
from kavka.net.limits import ConnectionLimits
from kavka.net.server import Server, SocketOptions, bind
from kavka.protocol.registry import API
from kavka.protocol.schema import declared
from kavka.protocol.schemas import add_raft_voter, remove_raft_voter
from kavka.protocol.schemas import describe_quorum as described
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.driver import RaftDriver
from kavka.quorum.format import format_dirs, random_id, read_bootstrap
from kavka.quorum.sending import Sender
from kavka.quorum.settings import Member, QuorumSettings, SnapshotRules
from kavka.quorum.snapshots import SnapshotId
from kavka.quorum.voters import ReplicaKey, Voter
from kavka.raft.core import Peer, RaftConfig
from kavka.raft.messages import BeginEpoch, EndEpoch, Fetch, Vote
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
        self.controller, self.auto_join = controller, auto_join
        self.static = ()
        self.root = str(root / f"node{id_}")
        self.disk = RealDisk()
        self.directory_id = random_id()
        (self.port,) = free_ports(1)
        self.loop = self._life = None

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
        member = Member(self.id, self.directory_id, cluster_id, endpoints, self.controller)
        bootstrap = tuple(Peer(-2 - number, (peer.endpoint,)) for number, peer in enumerate(peers))
        static = VoterSet(Voter(ReplicaKey(node.id), (node.endpoint,)) for node in self.static)
        settings = QuorumSettings(voters=static, bootstrap=bootstrap, raft=TIMES._replace(auto_join=self.auto_join))
        quorum = RaftDriver(self.disk, self.root, member, settings, clock, Connector())
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


def test_three_nodes_elect_one_and_all_replay_the_same(tmp_path):
    async def scenario():
        async with quorum(tmp_path) as nodes:
            assert await write(nodes, "a") == "a"
            await same_everywhere(nodes)
            leader = await leader_of(nodes)
            assert {node.loop.leader for node in nodes} == {leader.id}
            others = {node.loop.leader_endpoint for node in nodes if node is not leader}
            assert others == {("127.0.0.1", leader.port)}
            assert leader.loop.leader_endpoint is None  # it asks itself
            assert [node.loop.is_active for node in nodes].count(True) == 1
            assert nodes[0].loop.image.features.metadata_version == 30
            follower = next(node for node in nodes if node is not leader)
            with pytest.raises(NotController):
                await follower.loop.submit(lambda machine, now_ms: Transition(None))

    asyncio.run(scenario())


def test_killing_the_leader_loses_nothing_that_was_acknowledged(tmp_path):
    async def scenario():
        async with quorum(tmp_path) as nodes:
            acknowledged = set()
            for life in range(3):
                leader = await leader_of(nodes)
                for number in range(10):
                    acknowledged.add(await write(nodes, f"k{life}.{number}"))
                epoch = leader.loop.leader_epoch
                await leader.kill()
                acknowledged.add(await write(nodes, f"after{life}"))
                assert (await leader_of(nodes)).loop.leader_epoch > epoch
                await leader.start(nodes)
                await same_everywhere(nodes)
                assert written(leader) >= acknowledged

    asyncio.run(scenario())


def test_without_a_majority_nothing_is_committed_and_who_waits_is_told(tmp_path):
    async def scenario():
        # what is not committed is no reason for a snapshot, however much it is
        async with quorum(tmp_path, rules=SnapshotRules(small_bytes=1, max_bytes=500)) as nodes:
            leader = await leader_of(nodes)
            await write(nodes, "before")
            for node in nodes:
                if node is not leader:
                    await node.kill()
            record = ConfigRecord(resource_type=4, resource_name="1", name="lost", value="v" * 5_000)
            with pytest.raises(NotController):
                await leader.loop.submit(lambda machine, now_ms: Transition(None, (record,)))
            assert "lost" not in written(leader)
            assert "lost" not in str(leader.loop._machine.image.configs)
            for node in nodes:
                if node is not leader:
                    await node.start(nodes)
            await write(nodes, "after")
            await same_everywhere(nodes)
            assert written(nodes[0]) >= {"before", "after"}

    asyncio.run(scenario())


def test_what_only_the_old_leader_wrote_is_cut_off_when_it_returns(tmp_path):
    async def scenario():
        async with quorum(tmp_path) as nodes:
            old = await leader_of(nodes)
            await write(nodes, "before")
            others = [node for node in nodes if node is not old]
            for node in others:
                await node.kill()
            record = ConfigRecord(resource_type=4, resource_name="1", name="alone", value="v")
            with suppress(NotController, TimeoutError):
                async with asyncio.timeout(0.2):
                    await old.loop.submit(lambda machine, now_ms: Transition(None, (record,)))
            await old.kill()
            for node in others:
                await node.start(nodes)
            await write(others, "after")
            await old.start(nodes)
            await same_everywhere(nodes)
            assert written(old) >= {"before", "after"}
            assert "alone" not in written(old)

    asyncio.run(scenario())


@pytest.mark.apart
def test_a_leader_that_stops_in_order_is_replaced_at_once(tmp_path):
    async def scenario():
        async with quorum(tmp_path) as nodes:
            leader = await leader_of(nodes)
            await write(nodes, "a")
            began = asyncio.get_running_loop().time()
            await leader.stop()
            leader._life = None
            await write([node for node in nodes if node is not leader], "b")
            assert asyncio.get_running_loop().time() - began < 2.5 * TIMES.fetch_timeout_ms / 1000

    asyncio.run(scenario())


def test_the_whole_quorum_starts_again_where_it_stopped(tmp_path):
    async def scenario():
        async with quorum(tmp_path) as nodes:
            for number in range(20):
                await write(nodes, f"k{number}")
            for node in nodes:
                await node.kill()
            for node in nodes:
                await node.start(nodes)
            await write(nodes, "again")
            await same_everywhere(nodes)
            assert len(written(nodes[0])) == 21

    asyncio.run(scenario())


def test_an_observer_replays_what_is_committed(tmp_path):
    async def scenario():
        async with quorum(tmp_path, 1) as nodes:
            broker = Node(tmp_path, 9, controller=False)
            broker.format()
            await broker.start(nodes)
            try:
                seen = []
                broker.loop.subscribe(lambda image, delta: seen.append(image.offset))
                await broker.loop.ready()
                await write(nodes, "a")
                await until(lambda: "a" in written(broker), "replaying")
                assert seen == sorted(seen)
                assert not broker.loop.is_active
                assert broker.loop.leader == 1
                await until(lambda: nodes[0].loop.status().observers, "being observed")
                status = nodes[0].loop.status()
                assert [one.id for one in status.observers] == [9]
                assert [one.id for one in status.voters] == [1]
                with pytest.raises(NotController):
                    await broker.loop.submit(lambda machine, now_ms: Transition(None))
            finally:
                await broker.kill()

    asyncio.run(scenario())


def test_a_follower_that_fell_behind_begins_anew_with_a_snapshot(tmp_path):
    async def scenario():
        async with quorum(tmp_path, rules=SnapshotRules(small_bytes=1, max_bytes=2_000)) as nodes:
            leader = await leader_of(nodes)
            late = next(node for node in nodes if node is not leader)
            await late.kill()
            for number in range(300):
                await write(nodes, f"k{number}", "x" * 50)
            await until(lambda: leader.loop.quorum.log.start_offset > 100, "cleaning up")
            await late.start(nodes)
            await same_everywhere(nodes)
            assert late.loop.quorum.log.start_offset > 100
            assert len(written(late)) == 300
            names = os.listdir(late.log_dir)
            assert not [name for name in names if ".part" in name]
            await late.kill()
            await late.start(nodes)
            await write(nodes, "more")
            await same_everywhere(nodes)

    asyncio.run(scenario())


def test_a_new_observer_catches_up_by_a_snapshot(tmp_path):
    async def scenario():
        async with quorum(tmp_path, 1, rules=SnapshotRules(small_bytes=1, max_bytes=5_000)) as nodes:
            for number in range(300):
                await write(nodes, f"k{number}")
            await until(lambda: nodes[0].loop.quorum.log.start_offset > 0, "cleaning up")
            broker = Node(tmp_path, 9, controller=False)
            broker.format()
            await broker.start(nodes)
            try:
                await same_everywhere([*nodes, broker])
                assert broker.loop.quorum.log.start_offset > 0
            finally:
                await broker.kill()

    asyncio.run(scenario())


# -- changing the voters ----------------------------------------------------------------------------------------------


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


def voters_of(node):
    return {voter.key for voter in node.loop.quorum.raft.voters}


async def accepted(nodes, request):
    """Ask the leader, again while it is busy or the node has not caught up."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        answer = await (await leader_of(nodes)).ask(request)
        if answer.error_code == 0:
            return
        if answer.error_code not in (6, 7) or asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"{answer}")
        await asyncio.sleep(0.05)


def test_voters_are_added_and_removed_one_by_one(tmp_path):
    async def scenario():
        async with quorum(tmp_path, 3, initial=1) as nodes:
            first, second, third = nodes
            await first.loop.ready()
            await accepted(nodes, adding(second))
            await accepted(nodes, adding(third))
            assert voters_of(first) == {node.voter.key for node in nodes}
            await write(nodes, "a")
            await same_everywhere(nodes)
            assert (await first.ask(adding(second))).error_code == DuplicateVoter.code
            await accepted(nodes, removing(first))
            await until(lambda: not first.loop.is_active, "resigning")
            await write([second, third], "b")
            await first.kill()
            await write([second, third], "c")
            assert voters_of(second) == {second.voter.key, third.voter.key}
            missing = await (await leader_of([second, third])).ask(removing(first))
            assert missing.error_code == VoterNotFound.code
            await first.start(nodes)  # a removed voter that returns only observes
            await same_everywhere(nodes)
            assert not first.loop.is_active
            for node in (second, third):
                await node.kill()
            await asyncio.sleep(4 * TIMES.election_timeout_ms / 1000)
            assert first.loop.leader_epoch == second.loop.leader_epoch

    asyncio.run(scenario())


def test_controllers_join_by_themselves(tmp_path):
    async def scenario():
        async with quorum(tmp_path, 3, initial=1, auto_join=True) as nodes:
            await until(lambda: all(len(voters_of(node)) == 3 for node in nodes), "joining")
            await write(nodes, "a")
            await nodes[0].kill()
            await write(nodes[1:], "b")
            await same_everywhere(nodes[1:])

    asyncio.run(scenario())


def test_a_wiped_voter_does_not_vote_until_it_has_joined_anew(tmp_path):
    async def scenario():
        async with quorum(tmp_path) as nodes:
            leader = await leader_of(nodes)
            await write(nodes, "a")
            wiped = next(node for node in nodes if node is not leader)
            old = wiped.voter
            await wiped.kill()
            shutil.rmtree(wiped.root)
            wiped.directory_id = random_id()
            wiped.format()
            await wiped.start(nodes)
            await same_everywhere(nodes)
            assert old.key in voters_of(leader)
            assert wiped.voter.key not in voters_of(leader)
            sender = Sender(CLUSTER, "CONTROLLER", 1 << 20, 1000)
            epoch = leader.loop.leader_epoch
            request, _ = sender.write(wiped.id, Vote(epoch, leader.voter.key, epoch - 1, 10_000, False, old.key))
            answer = await wiped.ask(request)
            assert answer.topics[0].partitions[0].error_code == InvalidVoterKey.code
            assert answer.topics[0].partitions[0].vote_granted is False
            leader = await leader_of(nodes)
            await accepted(nodes, removing(wiped, voter_directory_id=old.key.directory_id))
            await accepted(nodes, adding(wiped))
            await write(nodes, "b")
            await same_everywhere(nodes)

    asyncio.run(scenario())


def test_a_voter_that_moved_tells_the_leader_where(tmp_path):
    async def scenario():
        async with quorum(tmp_path) as nodes:
            leader = await leader_of(nodes)
            moved = next(node for node in nodes if node is not leader)
            await moved.kill()
            other = Node(tmp_path, 99)
            moved.port = other.port
            await moved.start(nodes)
            known = leader.loop.quorum.raft
            await until(lambda: known.voters.endpoints(moved.id) == (moved.endpoint,), "telling the leader")

    asyncio.run(scenario())


def test_static_voters_make_a_quorum_without_dynamic_changes(tmp_path):
    async def scenario():
        nodes = [Node(tmp_path, number) for number in (1, 2, 3)]
        async with AsyncExitStack() as ends:
            for node in nodes:
                node.format(levels={"metadata.version": 30})
                node.static = nodes
                ends.push_async_callback(node.kill)
            for node in nodes:
                await node.start(nodes)
            await write(nodes, "a")
            await same_everywhere(nodes)
            leader = await leader_of(nodes)
            assert leader.loop.kraft_version == 0
            assert (await leader.ask(adding(Node(tmp_path, 4)))).error_code == 35
            await leader.kill()
            await write([node for node in nodes if node is not leader], "b")

    asyncio.run(scenario())


# -- strangers and mistakes -------------------------------------------------------------------------------------------


def test_a_node_of_another_cluster_is_refused_everywhere(tmp_path, caplog):
    async def scenario():
        async with quorum(tmp_path, 1) as nodes:
            node = nodes[0]
            await node.loop.ready()
            sender = Sender("AAAAAAAAAAAAAAAAAAAAAQ", "CONTROLLER", 1 << 20, 1000)
            me = ReplicaKey(7, random_id())
            messages = [Vote(5, me, 1, 3), Fetch(1, me, 0, 0)]
            requests = [sender.write(1, message)[0] for message in messages]
            requests.append(sender.fetch_snapshot(me, 1, SnapshotId(5, 1), 0, 100))
            requests.append(adding(node, cluster_id="AAAAAAAAAAAAAAAAAAAAAQ"))
            requests.append(removing(node, cluster_id="AAAAAAAAAAAAAAAAAAAAAQ"))
            for request in requests:
                assert (await node.ask(request)).error_code == InconsistentClusterId.code
            assert node.loop.leader_epoch == 1
            stranger = Node(tmp_path, 8, controller=False)
            stranger.format(cluster_id="AAAAAAAAAAAAAAAAAAAAAQ")
            await stranger.start(nodes, cluster_id="AAAAAAAAAAAAAAAAAAAAAQ")
            await asyncio.sleep(0.3)
            await stranger.kill()
            assert stranger.loop.image.offset == -1
            assert node.loop.status().observers == ()
            said = [one.levelname for one in caplog.records if "INCONSISTENT_CLUSTER_ID" in one.getMessage()]
            assert sorted(said) == ["ERROR", "WARNING"]  # who is refused, and who refuses

    asyncio.run(scenario())


def test_a_second_node_with_the_leaders_id_gets_nothing(tmp_path):
    async def scenario():
        async with quorum(tmp_path, 1) as nodes:
            await nodes[0].loop.ready()
            end = nodes[0].loop.quorum.log.end_offset
            twin = Node(tmp_path / "twin", 1, controller=False)
            twin.format()
            await twin.start(nodes)
            await asyncio.sleep(0.3)
            await twin.kill()
            assert twin.loop.image.offset == -1
            assert nodes[0].loop.is_active
            assert nodes[0].loop.quorum.log.end_offset == end

    asyncio.run(scenario())


def test_only_the_leader_describes_the_quorum_and_gives_snapshots(tmp_path):
    async def scenario():
        async with quorum(tmp_path) as nodes:
            leader = await leader_of(nodes)
            await write(nodes, "a")
            follower = next(node for node in nodes if node is not leader)
            await until(lambda: all(one.last_caught_up_ms > 0 for one in leader.loop.status().voters), "following")
            about = [
                described.RequestTopicData(
                    topic_name="__cluster_metadata", partitions=[described.RequestPartitionData(partition_index=0)]
                )
            ]
            request = described.DescribeQuorumRequest(topics=about)
            told = (await leader.ask(request)).topics[0].partitions[0]
            assert (told.error_code, told.leader_id) == (0, leader.id)
            assert {one.replica_id for one in told.current_voters} == {1, 2, 3}
            assert all(one.last_caught_up_timestamp > 0 for one in told.current_voters)
            refused = (await follower.ask(request)).topics[0].partitions[0]
            assert refused.error_code == NotLeaderOrFollower.code
            sender = Sender(CLUSTER, "CONTROLLER", 1 << 20, 1000)
            epoch = leader.loop.leader_epoch
            for node, code in ((leader, SnapshotNotFound.code), (follower, NotLeaderOrFollower.code)):
                request = sender.fetch_snapshot(follower.voter.key, epoch, SnapshotId(0, 0), 0, 100)
                assert (await node.ask(request)).topics[0].partitions[0].error_code == code

    asyncio.run(scenario())


def test_a_snapshot_is_given_in_windows(tmp_path):
    async def scenario():
        async with quorum(tmp_path, 1, rules=SnapshotRules(small_bytes=1, max_bytes=2_000)) as nodes:
            (node,) = nodes
            for number in range(50):
                await write(nodes, f"k{number}")
            await until(lambda: node.loop.quorum.log.latest_snapshot is not None, "a snapshot")
            id_ = node.loop.quorum.log.snapshots[0]
            sender = Sender(CLUSTER, "CONTROLLER", 1 << 20, 1000)
            me = ReplicaKey(5, random_id())
            parts, position = [], 0
            while True:
                answer = await node.ask(sender.fetch_snapshot(me, 1, id_, position, 300))
                _, window = sender.read_snapshot(answer)
                assert (window.error_code, window.position) == (0, position)
                parts.append(bytes(window.unaligned_records))
                position += len(parts[-1])
                if position == window.size:
                    break
            assert len(parts) > 3
            assert b"".join(parts) == node.disk.read_file(f"{node.log_dir}/{id_.file_name}")
            beyond = await node.ask(sender.fetch_snapshot(me, 1, id_, position, 300))
            assert beyond.topics[0].partitions[0].error_code == PositionOutOfRange.code

    asyncio.run(scenario())


@pytest.mark.parametrize("damage", ["changed", "cut short"])
def test_a_damaged_snapshot_is_not_installed(tmp_path, caplog, damage):
    async def scenario():
        async with quorum(tmp_path, 1) as nodes:
            (node,) = nodes
            for number in range(100):
                await write(nodes, f"k{number}")
            with ThreadPoolExecutor(1) as threads:
                id_ = await node.loop.snapshot(threads)
            path = node.loop.quorum.log.path_of(id_)
            data = bytearray(node.disk.read_file(path))
            if damage == "changed":
                data[len(data) // 2] ^= 0xFF
            else:
                del data[-100:]
            node.disk.write_file(path, bytes(data))
            broker = Node(tmp_path, 9, controller=False)
            broker.format()
            await broker.start(nodes)
            try:
                await until(lambda: "could not be fetched" in caplog.text, "refusing")
                assert broker.loop.image.offset == -1
                assert not [name for name in os.listdir(broker.log_dir) if name.endswith(".checkpoint")]
                for number in range(100):
                    await write(nodes, f"more{number}")
                with ThreadPoolExecutor(1) as threads:
                    assert await node.loop.snapshot(threads) != id_
                await until(lambda: len(written(broker)) == 200, "catching up with a sound one")
            finally:
                await broker.kill()

    asyncio.run(scenario())


def test_a_stranger_who_talks_nonsense_changes_nothing(tmp_path):
    async def scenario():
        async with quorum(tmp_path) as nodes:
            leader = await leader_of(nodes)
            await write(nodes, "a")
            epoch = leader.loop.leader_epoch
            sender = Sender(CLUSTER, "CONTROLLER", 1 << 20, 1000)
            stranger = ReplicaKey(77, random_id())
            for message in (
                Vote(epoch, stranger, epoch - 1, 1 << 40, False, leader.voter.key),
                Vote(epoch, stranger, epoch, 1 << 40, True, leader.voter.key),
                Vote(epoch - 1, stranger, 0, 1 << 40, False, leader.voter.key),
                Vote(epoch + 1, ReplicaKey(-1), 0, -5, False, leader.voter.key),
                BeginEpoch(epoch, 77, (), leader.voter.key),
                EndEpoch(epoch, 77),
                Fetch(epoch, stranger, 1 << 40, epoch),
                Fetch(epoch, stranger, -1, epoch),
                Fetch(epoch + 5, stranger, 0, 0),
            ):
                request, _ = sender.write(leader.id, message)
                response = await leader.ask(request)
                reply = sender.read(response, 18)
                assert not getattr(reply, "granted", False)
            assert leader.loop.is_active
            assert leader.loop.leader_epoch == epoch
            await write(nodes, "b")
            await same_everywhere(nodes)

    asyncio.run(scenario())
