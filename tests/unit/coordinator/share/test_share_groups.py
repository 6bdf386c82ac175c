"""Share groups: members, states of partitions, and what administrators ask."""

from __future__ import annotations

import pytest
from coordinator.shards import GROUP, topic_id
from coordinator.share.play import ShareShard

from kavka.coordinator.share.settings import ShareSettings
from kavka.coordinator.share.states import DeleteStates, InitializeStates
from kavka.model.settings import broker_values

A, B = topic_id("a"), topic_id("b")


@pytest.fixture
def shard():
    return ShareShard({"a": 2, "b": 1})


def test_a_member_joins_and_gets_partitions_once_their_state_is_there(shard):
    reply = shard.share(topics=["a"])
    assert (reply.error_code, reply.member_id, reply.member_epoch, reply.heartbeat_interval_ms) == (0, "m", 2, 5000)
    assert reply.assignment.topic_partitions == []
    assert shard.published == [InitializeStates(GROUP, 2, {A: {0: -1, 1: -1}})]
    assert shard.share(epoch=2).assignment is None
    assert len(shard.published) == 1
    shard.initialize()
    shard.advance(1000)
    reply = shard.share(epoch=2)
    assert reply.member_epoch == 3
    assert [(each.topic_id, each.partitions) for each in reply.assignment.topic_partitions] == [(A, [0, 1])]
    written = len(shard.log)
    assert shard.share(epoch=3).assignment is None
    assert len(shard.log) == written


def test_what_is_written_is_what_kafka_writes(shard):
    shard.share(topics=["a"])
    assert shard.records_since(0) == [
        "ShareGroupMemberMetadata",
        "ShareGroupMetadata",
        "ShareGroupTargetAssignmentMember",
        "ShareGroupTargetAssignmentMetadata",
        "ShareGroupCurrentMemberAssignment",
        "ShareGroupStatePartitionMetadata",
    ]
    written = len(shard.log)
    shard.share(epoch=-1)
    assert shard.records_since(written) == [
        "-ShareGroupCurrentMemberAssignment",
        "-ShareGroupTargetAssignmentMember",
        "-ShareGroupMemberMetadata",
        "ShareGroupMetadata",
    ]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"member": "", "topics": ["a"]}, 42),
        ({"group": "", "topics": ["a"]}, 42),
        ({"rack": "", "topics": ["a"]}, 42),
        ({"topics": None}, 42),
        ({"topics": []}, 42),
        ({"epoch": -2}, 42),
        ({"epoch": 1}, 69),
        ({"epoch": -1}, 69),
    ],
)
def test_what_no_group_accepts(shard, asked, code):
    assert shard.share(**asked) == code
    assert not shard.log


def test_members_that_are_not_who_they_say(shard):
    shard.joined()
    assert shard.group().members["m"].epoch == 3
    assert shard.share("n", 1) == 25
    assert shard.share("n", -1) == 25
    assert shard.share("m", 4) == 110
    assert shard.share("m", 2).member_epoch == 3  # its last answer was lost
    shard.share("m", 0, ["a", "b"])
    assert shard.share("m", 2) == 110


def test_a_group_of_another_kind_is_not_found(shard):
    shard.commit(1, group="other")
    assert shard.share(topics=["a"], group="other") == 69
    shard.joined()
    with pytest.raises(Exception, match="share group"):
        shard.kind.check_fetch(type("Asked", (), {"group_id": GROUP}), shard.group())


def test_no_more_members_than_may_be():
    shard = ShareShard({"a": 1}, group_share_max_size=1)
    shard.share("m", topics=["a"])
    assert shard.share("n", topics=["a"]) == 81
    assert shard.share("m", topics=["a"]).error_code == 0


def test_members_share_partitions_and_keep_what_they_have(shard):
    shard.joined("m")
    shard.joined("n")
    shard.joined("o")
    shard.joined("m")
    held = [shard.assigned(each).get("a", []) for each in "mno"]
    assert sorted(map(len, held)) == [1, 1, 2]
    assert {each for one in held for each in one} == {0, 1}


def test_a_silent_member_is_taken_out(shard):
    shard.joined()
    shard.advance(45_000)
    assert shard.group().state == "Empty"
    assert shard.share("m", 3) == 25


def test_states_that_could_not_be_initialized_are_tried_again(shard):
    shard.share(topics=["a"])
    shard.initialize(well=False)
    shard.share(epoch=2)
    assert [each.partitions for each in shard.published] == [{A: {0, 1}}]
    shard.published.clear()  # nobody ever says how it went
    shard.share(epoch=2)
    assert not shard.published
    shard.advance(30_000)
    shard.share(epoch=2)
    assert len(shard.published) == 1


def test_new_partitions_and_topics_of_another_id_begin_anew(shard):
    shard.joined()
    shard.grow_topic("a", 3)
    shard.share(epoch=3)
    assert shard.published == [InitializeStates(GROUP, 4, {A: {2: -1}})]
    shard.initialize()
    shard.advance(1000)
    shard.share(epoch=4)
    assert shard.assigned() == {"a": [0, 1, 2]}
    shard.delete_topic("a")
    assert not shard.group().states.initialized
    shard.create_topic("a", 1)
    shard.share(epoch=5)
    assert list(shard.published[0].start_offsets) == [topic_id("a", 1)]


def test_a_new_coordinator_goes_on(shard):
    shard.joined()
    shard.start()
    assert shard.share(epoch=3).member_epoch == 3
    shard.advance(45_000)
    assert shard.group().state == "Empty"


def test_groups_are_described_and_listed(shard):
    shard.joined()
    found, other = shard.kind.describe([GROUP, "nobody"])
    assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
        "Stable",
        3,
        3,
        "simple",
    )
    (member,) = found.members
    assert (member.member_id, member.member_epoch, member.subscribed_topic_names) == ("m", 3, ["a"])
    assert [(each.topic_name, each.partitions) for each in member.assignment.topic_partitions] == [("a", [0, 1])]
    assert other.error_code == 69
    (listed,) = shard.machine.list_groups([GROUP], (), ["share"])
    assert (listed.protocol_type, listed.group_state, listed.group_type) == ("share", "Stable", "share")
    assert shard.machine.list_groups([GROUP], (), ["consumer"]) == []


def test_a_group_is_deleted_after_its_states(shard):
    shard.joined()
    asked = shard.take(shard.kind.delete_states([GROUP, "nobody"], shard.now_ms))
    assert asked[GROUP].code == 68
    shard.share(epoch=-1)
    asked = shard.take(shard.kind.delete_states([GROUP], shard.now_ms))
    assert asked == {GROUP: DeleteStates(GROUP, {A: frozenset({0, 1})})}
    again = shard.take(shard.kind.delete_states([GROUP], shard.now_ms))
    assert again == asked  # the first try may have failed
    (result,) = shard.take(shard.machine.delete_groups([GROUP]))
    assert result.error_code == 0
    assert not shard.state.groups
    assert not shard.loaded().state.groups


def test_offsets_are_altered_for_a_group_without_members(shard):
    wanted = shard.take(shard.kind.alter_offsets("new", {"a": {0: 5, 7: 1}, "z": {0: 1}}, shard.now_ms))
    assert wanted == InitializeStates("new", 1, {A: {0: 5}})
    shard.take(shard.kind.initialized("new", wanted.partitions, shard.now_ms))
    assert shard.kind.initialized_partitions("new") == {A: {0}}
    assert shard.kind.initialized_partitions("nobody") == {}
    shard.joined()
    assert shard.tried(lambda: shard.kind.alter_offsets(GROUP, {"a": {0: 5}}, shard.now_ms)) == 68


def test_a_topic_whose_states_begin_anew_is_not_being_deleted_any_more(shard):
    shard.joined()
    shard.share("m", -1)
    shard.take(shard.kind.delete_offsets(GROUP, ["a"], shard.now_ms))
    assert shard.group().states.deleting == {A: "a"}
    shard.take(shard.kind.alter_offsets(GROUP, {"a": {0: 5}}, shard.now_ms))
    assert shard.group().states.deleting == {}


def test_offsets_of_topics_are_deleted(shard):
    assert shard.tried(lambda: shard.kind.delete_offsets("nobody", ["a"], shard.now_ms)) == 69
    shard.joined()
    assert shard.tried(lambda: shard.kind.delete_offsets(GROUP, ["a"], shard.now_ms)) == 68
    shard.share(epoch=-1)
    to_delete, unknown = shard.take(shard.kind.delete_offsets(GROUP, ["a", "b", "z"], shard.now_ms))
    assert (to_delete.partitions, unknown) == ({A: {0, 1}}, ["b", "z"])
    assert shard.take(shard.kind.delete_offsets(GROUP, ["a"], shard.now_ms))[0] == to_delete
    shard.take(shard.kind.offsets_deleted(GROUP, [A], shard.now_ms))
    assert shard.kind.delete_offsets(GROUP, ["a"], shard.now_ms).reply[1] == ["a"]


def test_the_settings_of_a_group_count_within_the_bounds_of_the_node(shard):
    shard.configure(GROUP, share_heartbeat_interval_ms=99_000, share_delivery_count_limit=3)
    assert shard.share(topics=["a"]).heartbeat_interval_ms == 15_000
    assert shard.kind.settings_of(GROUP).delivery_count_limit == 3
    shard.configure(GROUP, share_heartbeat_interval_ms=7_000)
    assert shard.share(epoch=2).heartbeat_interval_ms == 7_000
    settings = ShareSettings(broker_values({}))
    assert settings.of_group({})[:9] == (45_000, 5_000, 1_000, 30_000, 5, 2000, "latest", "read_uncommitted", True)
    assert settings.of_group({})[9:] == ("", False, 0, 0)  # what Kafka 4.3 has not is off
    odd = {
        "share.isolation.level": "read_committed",
        "share.record.lock.duration.ms": "?",
        "share.renew.acknowledge.enable": "false",
    }
    assert settings.of_group(odd)[3:9] == (30_000, 5, 2000, "latest", "read_committed", False)
