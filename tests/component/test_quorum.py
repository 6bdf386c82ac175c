"""Quorums of several nodes: who leads, what is committed, who votes."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import AsyncExitStack, suppress

import pytest

from kavka.metadata.records.settings import ConfigRecord
from kavka.model.errors import (
    DuplicateVoter,
    InvalidVoterKey,
    NotController,
    VoterNotFound,
)
from kavka.model.transition import Transition
from kavka.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kavka.quorum.format import random_id
from kavka.quorum.sending import QuorumRequests
from kavka.quorum.settings import SnapshotRules
from kavka.raft.messages import Vote
from quorums import (
    CLUSTER,
    PATIENCE,
    TIMES,
    Node,
    adding,
    leader_of,
    quorum,
    removing,
    same_everywhere,
    until,
    write,
    written,
)


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
            sender = QuorumRequests(CLUSTER, "CONTROLLER", 1 << 20, 1000)
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


def configured_voters(root, ends):
    """Three voters that are named in the configuration, formatted, and ended when all else is."""
    nodes = [Node(root, number) for number in (1, 2, 3)]
    for node in nodes:
        node.format(levels={"metadata.version": 30})
        node.static = nodes
        ends.push_async_callback(node.kill)
    return nodes


def test_static_voters_make_a_quorum_without_dynamic_changes(tmp_path):
    async def scenario():
        async with AsyncExitStack() as ends:
            nodes = configured_voters(tmp_path, ends)
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


def upgrading(level, **more):
    update = FeatureUpdateKey(feature="kraft.version", max_version_level=level, upgrade_type=1)
    return UpdateFeaturesRequest(feature_updates=[update], **more)


def test_static_voters_become_dynamic_and_then_change(tmp_path):
    async def scenario():
        async with AsyncExitStack() as ends:
            nodes = configured_voters(tmp_path, ends)
            for node in nodes[:2]:
                await node.start(nodes)
            leader = await leader_of(nodes[:2])
            # nobody knows yet what the third voter supports, and which directory it votes from
            assert (await leader.ask(upgrading(1))).error_code == 95
            assert leader.loop.kraft_version == 0
            await nodes[2].start(nodes)
            await write(nodes, "a")
            await until_upgradable(leader)
            assert leader.loop.kraft_version == 0  # it was only asked whether it could be
            assert (await leader.ask(upgrading(2))).error_code == 95
            assert (await leader.ask(upgrading(1))).error_code == 0
            assert leader.loop.kraft_version == 1
            assert (await leader.ask(upgrading(1))).error_code == 0  # again: nothing to do
            await until(lambda: all(node.loop.kraft_version == 1 for node in nodes), "the others to know")
            assert (await leader.ask(removing(nodes[0] if leader is not nodes[0] else nodes[1]))).error_code == 0
            await write(nodes, "b")
            await same_everywhere(nodes)

    async def until_upgradable(leader):
        while (await leader.ask(upgrading(1, validate_only=True))).error_code:
            await asyncio.sleep(0.01)

    asyncio.run(scenario())
