"""Nodes that copy from each other: what is acknowledged is everywhere, and followers never differ from their leader."""

from __future__ import annotations

import asyncio
import random

import pytest

from kavka.controller.reassignment import Reassign
from kavka.metadata.image.configs import ResourceType
from kavka.model.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownLeaderEpoch,
)
from kavka.protocol.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kavka.replica.tier import StateBefore
from kavka.storage import files
from kavka.storage.checkpoint import read_offsets
from replicated import CLOCK, eventually, play

QUICK = {"replica_lag_time_max_ms": 600, "replica_fetch_wait_max_ms": 100}


async def fetch(cluster, node, offset=0, *, replica=(-1, -1), epoch=-1, rack="", wait_ms=0):
    """One partition's row of a fetch."""
    topic = cluster.machine.image.topics.by_name["orders"]
    row = FetchPartition(partition=0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=replica[0], replica_epoch=replica[1]),
        max_wait_ms=wait_ms,
        min_bytes=1,
        topics=[FetchTopic(topic_id=topic.id, partitions=[row])],
        rack_id=rack,
    )
    answer = await (await cluster.line(node)).request(request, FetchResponse, version=17)
    return answer.responses[0].partitions[0]


async def delete_before(cluster, offset, timeout_ms=10_000):
    """Error code and low watermark of a deletion."""
    rows = [DeleteRecordsPartition(partition_index=0, offset=offset)]
    topics = [DeleteRecordsTopic(name="orders", partitions=rows)]
    request = DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)
    answer = await (await cluster.line(cluster.leader())).request(request, DeleteRecordsResponse)
    row = answer.topics[0].partitions[0]
    return row.error_code, row.low_watermark


def same(cluster):
    """Whether all live replicas have the same records."""
    found = [node.values_of() for node in cluster.live.values()]
    return all(one == found[0] for one in found)


def test_what_all_in_sync_replicas_have_is_acknowledged(tmp_path):
    async def scenario(cluster):
        cluster.topic(min_insync_replicas=2)
        for number in range(20):
            assert await cluster.produce(b"%d" % number) == (0, number)
        expected = [b"%d" % number for number in range(20)]
        assert all(node.values_of() == expected for node in cluster.nodes.values())
        assert cluster.leader().partition().high_watermark == 20
        await eventually(lambda: all(node.partition().high_watermark == 20 for node in cluster.nodes.values()))

    play(tmp_path, scenario)


def test_requests_on_one_connection_are_acknowledged_in_their_order_whatever_they_wait_for(tmp_path):
    async def scenario(cluster):
        cluster.topic()
        sent = [cluster.produce(b"%d" % number, acks=random.choice((-1, 1))) for number in range(100)]
        assert await asyncio.gather(*sent) == [(0, number) for number in range(100)]
        await eventually(lambda: same(cluster))

    play(tmp_path, scenario)


def test_without_enough_in_sync_replicas_nothing_is_taken(tmp_path):
    async def scenario(cluster):
        cluster.topic(min_insync_replicas=2)
        assert await cluster.produce(b"a") == (0, 0)
        for number in (2, 3):
            await cluster.nodes[number].stop()
            cluster.fence(cluster.nodes[number])
        assert cluster.image().isr == (1,)
        assert (await cluster.produce(b"b"))[0] == NotEnoughReplicas.code
        assert await cluster.produce(b"c", acks=1) == (0, 1)
        assert cluster.leader().partition().high_watermark == 1  # held while too few are in sync (KIP-966)
        await cluster.nodes[2].start()
        await eventually(lambda: cluster.image().isr == (1, 2))
        assert await cluster.produce(b"d") == (0, 2)
        assert cluster.nodes[2].values_of() == [b"a", b"c", b"d"]

    play(tmp_path, scenario)


def test_a_follower_that_stands_still_is_dropped_and_comes_back(tmp_path):
    async def scenario(cluster):
        cluster.topic()
        assert await cluster.produce(b"a") == (0, 0)
        await cluster.nodes[3].stop()
        assert (await cluster.produce(b"b", timeout_ms=50))[0] == RequestTimedOut.code
        await eventually(lambda: cluster.image().isr == (1, 2))
        assert await cluster.produce(b"c") == (0, 2)
        await cluster.nodes[3].start()
        await eventually(lambda: set(cluster.image().isr) == {1, 2, 3})
        assert cluster.nodes[3].values_of() == [b"a", b"b", b"c"]

    play(tmp_path, scenario, **QUICK)


def test_a_controller_that_cannot_be_reached_is_asked_until_it_answers(tmp_path):
    async def scenario(cluster):
        cluster.topic()
        leader = cluster.leader()
        leader.controller_hears = False
        await cluster.nodes[3].stop()
        waits = asyncio.ensure_future(cluster.produce(b"a"))
        await eventually(lambda: leader.isr.failures >= 2)
        assert not waits.done()
        leader.controller_hears = True
        assert await waits == (0, 0)
        assert cluster.image().isr == (1, 2)

    play(tmp_path, scenario, **QUICK)


def test_a_new_leader_has_everything_and_the_old_one_cuts_what_nobody_else_has(tmp_path):
    async def scenario(cluster):
        cluster.topic(min_insync_replicas=2)
        assert await cluster.produce(b"a") == (0, 0)
        old = cluster.nodes[1]
        for follower in (2, 3):
            cluster.nodes[follower].fetchers.close()
        assert await cluster.produce(b"lost", acks=1) == (0, 1)
        await old.stop()
        cluster.fence(old)
        assert cluster.image().leader == 2
        await cluster.nodes[3].stop()
        await cluster.nodes[3].start()
        await eventually(lambda: set(cluster.image().isr) == {2, 3})
        assert await cluster.produce(b"b") == (0, 1)
        await old.start()
        await eventually(lambda: set(cluster.image().isr) == {1, 2, 3})
        assert await cluster.produce(b"c") == (0, 2)
        assert [node.values_of() for node in cluster.nodes.values()] == [[b"a", b"b", b"c"]] * 3

    play(tmp_path, scenario)


def test_a_waiting_producer_is_told_when_its_leader_is_one_no_more(tmp_path):
    async def scenario(cluster):
        cluster.topic()
        for follower in (2, 3):
            cluster.nodes[follower].fetchers.close()
        old = cluster.leader()
        waits = asyncio.ensure_future(cluster.produce(b"a"))
        await eventually(lambda: old.partition().log_end_offset == 1)
        cluster.change(leader=2)
        assert (await waits)[0] == NotLeaderOrFollower.code
        assert (await cluster.produce(b"b", to=old))[0] == NotLeaderOrFollower.code

    play(tmp_path, scenario)


def test_a_follower_behind_the_start_of_its_leaders_log_starts_over(tmp_path):
    async def scenario(cluster):
        cluster.topic(segment_bytes=1 << 20)
        assert await cluster.produce(b"a") == (0, 0)
        await cluster.nodes[3].stop()
        cluster.fence(cluster.nodes[3])
        for number in range(5):
            assert (await cluster.produce(b"%d" % number))[0] == 0
        assert await delete_before(cluster, 4) == (0, 4)
        await cluster.nodes[3].start()
        await eventually(lambda: 3 in cluster.image().isr)
        assert cluster.nodes[3].partition().log_start_offset == 4
        assert cluster.nodes[3].values_of() == [b"3", b"4"]
        assert cluster.nodes[3].partition().high_watermark == 6

    play(tmp_path, scenario, **QUICK)


def test_records_are_deleted_when_every_live_replica_has_deleted_them(tmp_path):
    async def scenario(cluster):
        cluster.topic()
        for number in range(5):
            await cluster.produce(b"%d" % number)
        assert await delete_before(cluster, 3) == (0, 3)
        assert {node.partition().log_start_offset for node in cluster.nodes.values()} == {3}
        cluster.nodes[3].fetchers.close()
        assert await delete_before(cluster, 4, timeout_ms=300) == (RequestTimedOut.code, -1)
        assert cluster.leader().partition().low_watermark == 3

    play(tmp_path, scenario, **QUICK)


def test_a_partition_moves_to_another_node_and_is_deleted_where_it_was(tmp_path):
    async def scenario(cluster):
        cluster.topic(replicas=(1, 2))
        for number in range(10):
            await cluster.produce(b"%d" % number)
        assert cluster.write(cluster.machine.alter_reassignments([Reassign("orders", 0, (1, 3))])) == [None]
        await eventually(lambda: cluster.image().replicas == (1, 3) and cluster.image().isr == (1, 3))
        assert cluster.nodes[3].values_of() == [b"%d" % number for number in range(10)]
        assert cluster.nodes[2].replicas.held("orders", 0) is None
        assert len(cluster.nodes[2].replicas.removals.deleted) == 1
        assert await cluster.produce(b"on") == (0, 10)
        assert cluster.nodes[2].fetchers.partitions == 0

    play(tmp_path, scenario)


def test_a_topic_that_is_deleted_is_copied_no_more(tmp_path):
    async def scenario(cluster):
        cluster.topic()
        await cluster.produce(b"a")
        cluster.write(cluster.machine.delete_topics([cluster.machine.image.topics.by_name["orders"].id]))
        assert [node.fetchers.partitions for node in cluster.nodes.values()] == [0, 0, 0]
        assert [len(node.fetchers) for node in cluster.nodes.values()] == [0, 0, 0]

    play(tmp_path, scenario)


def test_what_was_committed_is_known_after_a_restart_before_the_leader_says_so(tmp_path):
    async def scenario(cluster):
        cluster.topic()
        for number in range(3):
            await cluster.produce(b"%d" % number)
        node = cluster.nodes[2]
        await eventually(lambda: node.partition().high_watermark == 3)
        await node.stop(clean=True)
        cluster.fence(node)
        await cluster.nodes[1].stop()
        await node.start()
        assert node.partition().high_watermark == 3

    play(tmp_path, scenario)


def test_only_a_replica_of_the_partition_in_its_present_life_may_fetch_as_one(tmp_path):
    async def scenario(cluster):
        cluster.topic(replicas=(1, 2))
        await cluster.produce(b"a")
        leader, epoch = cluster.leader(), cluster.nodes[2].epoch
        assert (await fetch(cluster, leader, replica=(3, -1), epoch=0)).error_code == UnknownLeaderEpoch.code
        assert (await fetch(cluster, leader, replica=(3, -1))).error_code == NotLeaderOrFollower.code
        assert (await fetch(cluster, leader, replica=(2, epoch - 1))).error_code == NotLeaderOrFollower.code
        assert (await fetch(cluster, leader, replica=(2, epoch), epoch=7)).error_code == UnknownLeaderEpoch.code
        assert (await fetch(cluster, cluster.nodes[2], replica=(3, -1))).error_code == NotLeaderOrFollower.code
        cluster.change(leader=1)
        assert (await fetch(cluster, leader, replica=(2, epoch), epoch=0)).error_code == FencedLeaderEpoch.code
        cluster.topic("alone", replicas=(1,))

    play(tmp_path, scenario)


def test_consumers_read_what_is_committed_from_leaders_and_followers(tmp_path):
    async def scenario(cluster):
        cluster.topic()
        await cluster.produce(b"a")
        follower = cluster.nodes[2]
        await eventually(lambda: follower.partition().high_watermark == 1)
        row = await fetch(cluster, follower)
        assert (row.error_code, row.high_watermark, len(row.records) > 0) == (0, 1, True)
        for node in (2, 3):
            cluster.nodes[node].fetchers.close()
        await cluster.produce(b"b", acks=1)
        assert not (await fetch(cluster, cluster.leader(), 1)).records
        assert not (await fetch(cluster, follower, 1, wait_ms=50)).records

    play(tmp_path, scenario)


def test_a_consumer_is_sent_to_a_replica_in_its_rack(tmp_path):
    async def scenario(cluster):
        cluster.topic()
        await cluster.produce(b"a")
        leader = cluster.leader()
        assert (await fetch(cluster, leader, rack="east")).preferred_read_replica == 2
        assert (await fetch(cluster, leader, rack="west")).preferred_read_replica == -1
        assert (await fetch(cluster, leader, rack="mars")).preferred_read_replica == -1
        assert (await fetch(cluster, leader)).preferred_read_replica == -1

    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    play(tmp_path, scenario, racks=("west", "east", "south"), replica_selector_class=selector)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_is_not_in_sync_is_slowed_down(tmp_path, side):
    async def scenario(cluster):
        cluster.topic(**{f"{side}_replication_throttled_replicas": "*"})
        await cluster.nodes[3].stop()
        cluster.fence(cluster.nodes[3])
        for _ in range(4):
            await cluster.produce(random.randbytes(300_000))
        cluster.configure(ResourceType.BROKER, "", **{f"{side}_replication_throttled_rate": 300_000})
        began = CLOCK.monotonic_ms()
        await cluster.nodes[3].start()
        await eventually(lambda: 3 in cluster.image().isr)
        assert CLOCK.monotonic_ms() - began > 1_000
        assert same(cluster)

    play(tmp_path, scenario, replica_fetch_max_bytes=300_000, replica_fetch_response_max_bytes=300_000, **QUICK)


def test_followers_force_to_disk_what_they_confirm_where_flush_messages_asks_for_it(tmp_path):
    async def scenario(cluster):
        cluster.topic(flush_messages=1)
        assert await cluster.produce(b"a") == (0, 0)
        assert await cluster.produce(b"b") == (0, 1)
        assert all(node.partition().log.recovery_point == 2 for node in cluster.nodes.values())

    play(tmp_path, scenario)


def test_leaders_that_come_and_go_lose_nothing_that_was_acknowledged(tmp_path):
    async def scenario(cluster):
        cluster.topic(min_insync_replicas=2)
        acked: list[bytes] = []
        number = 0
        for round_ in range(6):
            for _ in range(10):
                number += 1
                value = b"%d" % number
                code, _ = await cluster.produce(value, timeout_ms=2_000)
                if code == 0:
                    acked.append(value)
            gone = cluster.nodes[round_ % 3 + 1]
            await gone.stop()
            cluster.fence(gone)
            number += 1
            value = b"%d" % number
            if (await cluster.produce(value))[0] == 0:
                acked.append(value)
            await gone.start()
            await eventually(lambda: set(cluster.image().isr) == {1, 2, 3})
        await eventually(lambda: same(cluster))
        assert len(acked) >= 60
        found = cluster.leader().values_of()
        assert [value for value in found if value in set(acked)] == acked

    play(tmp_path, scenario, **QUICK)


def test_a_new_partition_does_not_wait_for_a_poll_that_has_nothing_to_answer(tmp_path):
    async def scenario(cluster):
        cluster.topic()
        await cluster.produce(b"a")
        for name in ("second", "third"):
            cluster.topic(name)
            began = CLOCK.monotonic_ms()
            assert await cluster.produce(b"b", topic=name) == (0, 0)
            assert CLOCK.monotonic_ms() - began < 5_000

    play(tmp_path, scenario, replica_fetch_wait_max_ms=20_000)


def test_damaged_records_are_not_copied(tmp_path, caplog):
    async def scenario(cluster):
        cluster.topic()
        await cluster.produce(b"a")
        await cluster.nodes[3].stop()
        cluster.fence(cluster.nodes[3])
        await cluster.produce(b"b" * 100)
        path = cluster.leader().root / "orders-0" / f"{0:020}.log"
        sound = path.read_bytes()
        path.write_bytes(sound[:-1] + b"!")
        await cluster.nodes[3].start()
        await eventually(lambda: "sent corrupt records" in caplog.text)
        assert cluster.nodes[3].values_of() == [b"a"]
        path.write_bytes(sound)
        await eventually(lambda: 3 in cluster.image().isr)
        assert cluster.nodes[3].values_of() == [b"a", b"b" * 100]

    play(tmp_path, scenario)


def test_a_leader_that_was_elected_without_being_in_sync_takes_its_followers_along(tmp_path):
    async def scenario(cluster):
        cluster.topic(replicas=(1, 2))
        await cluster.produce(b"a")
        cluster.nodes[2].fetchers.close()
        for number in range(5):
            await cluster.produce(b"%d" % number, acks=1)
        await cluster.nodes[2].stop()
        await cluster.nodes[2].start()
        cluster.nodes[2].fetchers.close()
        await cluster.nodes[1].stop()
        cluster.fence(cluster.nodes[1])
        cluster.nodes[2].partition().truncate(1, 0)
        cluster.change(leader=2, isr=[2])
        assert await cluster.produce(b"b") == (0, 1)
        await cluster.nodes[1].start()
        await eventually(lambda: set(cluster.image().isr) == {1, 2})
        assert cluster.nodes[1].values_of() == cluster.nodes[2].values_of() == [b"a", b"b"]

    play(tmp_path, scenario, nodes=2)


def test_a_log_that_is_cut_has_its_recovery_point_checkpointed_before_it_grows_again(tmp_path):
    async def scenario(cluster):
        cluster.topic(replicas=(1, 2))
        await cluster.produce(b"a")
        cluster.nodes[2].fetchers.close()
        for number in range(5):
            await cluster.produce(b"%d" % number, acks=1)
        node = cluster.nodes[1]
        node.partition().log.sync()
        await node.checkpoints.write(files.RECOVERY_POINTS)
        await cluster.nodes[2].stop()
        await cluster.nodes[2].start()
        cluster.nodes[2].fetchers.close()
        cluster.nodes[2].partition().truncate(1, 0)
        cluster.change(leader=2, isr=[2])
        assert await cluster.produce(b"b") == (0, 1)
        await eventually(lambda: node.values_of() == [b"a", b"b"])
        checkpoint = read_offsets(node.disk, f"{node.root}/{files.RECOVERY_POINTS}")
        assert list(checkpoint.values()) == [1]

    play(tmp_path, scenario, nodes=2)


def test_a_follower_waits_for_a_leader_that_is_not_there_and_goes_on_when_it_is(tmp_path, caplog):
    async def scenario(cluster):
        cluster.topic(replicas=(1, 2))
        leader = cluster.nodes[1]
        await leader.stop()
        await eventually(lambda: "connection to broker 1 could not be established" in caplog.text)
        await leader.start()
        cluster.change(leader=1, isr=[1])
        await eventually(lambda: set(cluster.image().isr) == {1, 2})
        assert await cluster.produce(b"a") == (0, 0)
        assert cluster.nodes[2].values_of() == [b"a"]

    play(tmp_path, scenario, nodes=2)


def test_a_log_that_fails_is_copied_no_more(tmp_path, caplog):
    async def scenario(cluster):
        cluster.topic()
        await cluster.produce(b"a")
        cluster.nodes[3].partition().log.failed = "the disk said no"
        assert (await cluster.produce(b"b", timeout_ms=300))[0] == RequestTimedOut.code
        await eventually(lambda: cluster.image().isr == (1, 2))
        assert "orders-0: replication stopped" in caplog.text
        assert await cluster.produce(b"c") == (0, 2)

    play(tmp_path, scenario, **QUICK)


@pytest.mark.parametrize(("version", "told"), [(15, False), (16, True)])
def test_who_asks_the_wrong_node_is_told_where_the_leader_is(tmp_path, version, told):
    async def scenario(cluster):
        cluster.topic(replicas=(1, 2))
        topic = cluster.machine.image.topics.by_name["orders"]
        row = FetchPartition(partition=0, current_leader_epoch=0, fetch_offset=0, partition_max_bytes=100)
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic_id=topic.id, partitions=[row])])
        line = await cluster.line(cluster.nodes[3])
        answer = await line.request(request, FetchResponse, version=version)
        found = answer.responses[0].partitions[0]
        assert found.error_code == NotLeaderOrFollower.code
        assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == ((1, 0) if told else (-1, -1))
        nodes = [(one.node_id, one.host, one.port) for one in answer.node_endpoints]
        assert nodes == ([(1, "127.0.0.1", cluster.nodes[1].port)] if told else [])

    play(tmp_path, scenario)


def test_a_producer_at_the_wrong_node_is_told_where_the_leader_is(tmp_path):
    async def scenario(cluster):
        cluster.topic(replicas=(1, 2))
        data = PartitionProduceData(index=0, records=b"")
        request = ProduceRequest(
            acks=-1, timeout_ms=1, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
        )
        answer = await (await cluster.line(cluster.nodes[2])).request(request, ProduceResponse, version=11)
        row = answer.responses[0].partition_responses[0]
        assert (row.error_code, row.current_leader.leader_id) == (NotLeaderOrFollower.code, 1)
        assert [(one.node_id, one.port) for one in answer.node_endpoints] == [(1, cluster.nodes[1].port)]

    play(tmp_path, scenario)


def test_a_follower_whose_end_the_leader_has_elsewhere_begins_with_what_is_on_the_leaders_disk(tmp_path):
    class Tier:
        end_offset = 6

        def state_after(self, offset, leader_epoch):
            assert offset == 5
            found = asyncio.get_running_loop().create_future()
            found.set_result(StateBefore(6, [(leader_epoch, 0)], None))
            return found

    async def scenario(cluster):
        cluster.topic(replicas=(1, 2), internal_segment_bytes=70, local_retention_bytes=0, retention_ms=-1)
        await cluster.nodes[2].stop()
        cluster.fence(cluster.nodes[2])
        for number in range(9):
            assert await cluster.produce(b"%d" % number) == (0, number)
        leader = cluster.leader().partition()
        leader.tier = Tier()
        leader.delete_old_segments(CLOCK.now_ms())
        leader.delete_records(2)
        assert (leader.log_start_offset, leader.local_log_start_offset) == (2, 6)
        await cluster.nodes[2].start()
        follower = cluster.nodes[2].partition()
        follower.tier = Tier()
        await eventually(lambda: follower.log_end_offset == 9)
        await eventually(lambda: follower.high_watermark == 9)
        assert (follower.log_start_offset, follower.local_log_start_offset) == (2, 6)
        assert follower.read_own(6, 1 << 20) == leader.read_own(6, 1 << 20)
        assert await cluster.produce(b"on") == (0, 9)

    play(tmp_path, scenario, nodes=2, **QUICK)
