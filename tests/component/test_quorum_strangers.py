"""Quorums among strangers and mistakes: other clusters, second nodes of an id, damaged snapshots, nonsense."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from kavka.model.errors import (
    InconsistentClusterId,
    NotLeaderOrFollower,
    PositionOutOfRange,
    SnapshotNotFound,
)
from kavka.protocol.schemas import describe_quorum as described
from kavka.quorum.format import random_id
from kavka.quorum.sending import QuorumRequests
from kavka.quorum.settings import SnapshotRules
from kavka.quorum.snapshots import SnapshotId
from kavka.quorum.voters import ReplicaKey
from kavka.raft.messages import BeginEpoch, EndEpoch, Fetch, Vote
from quorums import CLUSTER, Node, adding, leader_of, quorum, removing, same_everywhere, until, write, written

# -- strangers and mistakes -------------------------------------------------------------------------------------------


def test_a_node_of_another_cluster_is_refused_everywhere(tmp_path, caplog):
    async def scenario():
        async with quorum(tmp_path, 1) as nodes:
            node = nodes[0]
            await node.loop.ready()
            sender = QuorumRequests("AAAAAAAAAAAAAAAAAAAAAQ", "CONTROLLER", 1 << 20, 1000)
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
            said = [line.levelname for line in caplog.records if "INCONSISTENT_CLUSTER_ID" in line.getMessage()]
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
            sender = QuorumRequests(CLUSTER, "CONTROLLER", 1 << 20, 1000)
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
            sender = QuorumRequests(CLUSTER, "CONTROLLER", 1 << 20, 1000)
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
                await until(lambda: "checkpoint failed: " in caplog.text, "refusing")
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
            sender = QuorumRequests(CLUSTER, "CONTROLLER", 1 << 20, 1000)
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
