"""Replaying logs that we did not write, or that compaction has thinned out."""

from __future__ import annotations

import pytest
from coordinator.shards import Shard

from kavka.coordinator.classic.records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kavka.coordinator.classic.state import ClassicGroup
from kavka.coordinator.consumer.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    CurrentAssignmentTopic,
)
from kavka.coordinator.consumer.state import ConsumerGroup, MemberState
from kavka.coordinator.kinds import KINDS, state_of
from kavka.coordinator.offsets.records import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from kavka.coordinator.record import Record
from kavka.model.types import Uuid

A = Uuid(b"a" * 16)


@pytest.fixture
def state():
    return state_of(KINDS)


def replay(state, key, value=None):
    state.replay(Record(key, value), 0)


def current(member_id, partitions, *, epoch=3, code=0, epochs=None):
    owned = CurrentAssignmentTopic(topic_id=A, partitions=partitions, assignment_epochs=epochs)
    return ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=member_id), (
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=epoch - 1,
            state=code,
            assigned_partitions=[owned] if partitions else [],
            partitions_pending_revocation=[],
        )
    )


def member(member_id, **values):
    said = {"instance_id": None, "rack_id": None, "client_id": "c", "client_host": "/h", "server_assignor": None}
    said |= {"subscribed_topic_names": ["a"], "subscribed_topic_regex": None, "classic_member_metadata": None}
    return ConsumerGroupMemberMetadataKey(group_id="g", member_id=member_id), (
        ConsumerGroupMemberMetadataValue(**{**said, **values})
    )


def classic(members=()):
    return GroupMetadataKey(group="g"), GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader=None, members=list(members)
    )


def test_a_members_records_may_come_in_any_order(state):
    replay(state, *current("m", [0, 1]))
    replay(state, *member("m", instance_id="i"))
    found = state.groups["g"].members["m"]
    assert (found.epoch, found.assigned, found.instance_id, found.topics) == (3, {A: {0: 3, 1: 3}}, "i", {"a"})
    assert state.groups["g"].owners == {(A, 0): "m", (A, 1): "m"}


def test_records_without_epochs_of_partitions_have_the_members_own(state):
    replay(state, *current("m", [0, 1], epochs=[3]))
    assert state.groups["g"].members["m"].assigned == {A: {0: 3, 1: 3}}
    replay(state, *current("m", [0], epoch=-2))
    assert state.groups["g"].members["m"].assigned == {A: {0: 0}}


def test_a_state_of_a_later_version_is_unknown(state):
    replay(state, *current("m", [0], code=9))
    assert state.groups["g"].members["m"].state is MemberState.UNKNOWN


def test_of_two_members_with_one_partition_the_later_record_counts(state):
    replay(state, *current("m1", [0]))
    replay(state, *current("m2", [0]))
    replay(state, *current("m1", []))
    assert state.groups["g"].owners == {(A, 0): "m2"}


@pytest.mark.parametrize(
    "key",
    [
        ConsumerGroupMetadataKey(group_id="g"),
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"),
        ConsumerGroupTargetAssignmentMetadataKey(group_id="g"),
        ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="x"),
        ConsumerGroupPartitionMetadataKey(group_id="g"),
        GroupMetadataKey(group="g"),
    ],
    ids=lambda key: type(key).__name__,
)
def test_what_was_never_there_can_be_forgotten(state, key):
    replay(state, key)
    assert state.groups == {}
    replay(state, ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=3))
    replay(state, key)
    assert list(state.groups) == ([] if isinstance(key, ConsumerGroupMetadataKey) else ["g"])


def test_a_group_that_is_forgotten_takes_its_members_along(state):
    replay(state, *member("m"))
    replay(state, ConsumerGroupMetadataKey(group_id="g"))
    assert state.groups == {}


def test_a_group_is_what_its_last_record_says(state):
    replay(state, *classic())
    replay(state, *member("m"))
    assert isinstance(state.groups["g"], ConsumerGroup)
    replay(state, GroupMetadataKey(group="g"))  # of the classic group that it was
    assert isinstance(state.groups["g"], ConsumerGroup)
    replay(state, *classic())
    assert isinstance(state.groups["g"], ClassicGroup)


def test_offsets_of_the_oldest_kind_are_read(state):
    value = LegacyOffsetCommitValue(offset=7, metadata="x", commit_timestamp=5)
    replay(state, LegacyOffsetCommitKey(group="g", topic="a", partition=0), value)
    found = state.offsets.get("g", "a", 0)
    assert (found.offset, found.metadata, found.commit_timestamp_ms, found.leader_epoch) == (7, "x", 5, -1)


def test_what_kafka_4_0_wrote_of_partitions_is_forgotten_at_the_next_change():
    shard = Shard({"a": 1})
    key = ConsumerGroupPartitionMetadataKey(group_id="g")
    shard.append(Record(key, ConsumerGroupPartitionMetadataValue(topics=[])))
    assert shard.group().has_partition_metadata
    shard.beat("m1")
    assert "-ConsumerGroupPartitionMetadata" in shard.records_since(0)
    assert not shard.group().has_partition_metadata


def test_an_old_record_of_an_empty_group_does_not_say_since_when():
    shard = Shard(offsets_retention_minutes=10, offsets_retention_check_interval_ms=60_000)
    shard.append(Record(*classic(), 1))
    shard.commit(5)
    shard.advance(9 * 60_000)
    assert shard.fetch()[0] == 5
    shard.advance(60_000)
    assert shard.state.groups == {}  # so its offsets age from their commit


def test_an_old_record_of_a_member_has_one_timeout():
    shard = Shard()
    each = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=9_000, subscription=b"", assignment=b"x"
    )
    shard.append(Record(*classic([each]), 0))
    shard.start()
    shard.advance(8_999)
    assert shard.classic_beat("m", 4) == 0
