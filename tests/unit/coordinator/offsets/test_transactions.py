"""Offsets that transactions commit: they wait for the marker."""

from __future__ import annotations

import pytest
from coordinator.shards import GROUP, Shard
from coordinator.streams.play import StreamsShard, tasks

from kavka.coordinator.offsets.records import OffsetCommitKey, OffsetCommitValue
from kavka.coordinator.record import Record
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


@pytest.fixture
def shard():
    return Shard({"a": 2})


def commit_in(shard, producer_id, offset, partition=0, group=GROUP):
    value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=shard.now_ms)
    shard.append(Record(OffsetCommitKey(group=group, topic="a", partition=partition), value, 4), producer_id)


def test_an_offset_counts_from_the_commit_marker_on(shard):
    commit_in(shard, 9, 5)
    assert shard.fetch()[0] == -1
    shard.end_transaction(9, committed=True)
    assert shard.fetch()[0] == 5
    assert shard.loaded().state == shard.state


def test_an_offset_of_an_aborted_transaction_never_counts(shard):
    shard.commit(3)
    commit_in(shard, 9, 5)
    shard.end_transaction(9, committed=False)
    assert shard.fetch(stable=True) == (3, -1, "", 0)
    assert shard.state.offsets.open == shard.state.offsets.pending == {}


def test_who_wants_stable_offsets_is_told_to_wait(shard):
    shard.commit(3)
    commit_in(shard, 9, 5)
    assert shard.fetch(stable=True) == (-1, -1, "", 88)
    assert shard.fetch(stable=False)[0] == 3
    assert shard.fetch_all(stable=True) == {("a", 0): (-1, 88)}
    assert shard.fetch(partition=1, stable=True)[3] == 0


def test_of_a_plain_commit_and_a_transactions_the_later_record_counts(shard):
    commit_in(shard, 9, 5)
    shard.commit(6)
    shard.end_transaction(9, committed=True)
    assert shard.fetch()[0] == 6


def test_transactions_of_several_producers_wait_for_each(shard):
    commit_in(shard, 8, 5)
    commit_in(shard, 9, 6)
    shard.end_transaction(8, committed=True)
    assert shard.fetch(stable=True)[3] == 88
    shard.end_transaction(9, committed=True)
    assert shard.fetch(stable=True)[0] == 6


def test_a_marker_of_nobody_we_know_is_nothing(shard):
    shard.end_transaction(7, committed=True)
    assert shard.state.groups == {}


def test_deleting_an_offset_takes_what_transactions_would_make_of_it(shard):
    commit_in(shard, 9, 5)
    assert shard.delete_offset() == 0
    shard.end_transaction(9, committed=True)
    assert shard.fetch()[0] == -1


def test_deleting_a_group_takes_what_transactions_would_make_of_it(shard):
    commit_in(shard, 9, 5)
    shard.commit(1, partition=1)
    start = len(shard.log)
    assert shard.delete_groups(GROUP) == [0]
    assert shard.records_since(start) == ["-OffsetCommit", "-OffsetCommit", "-GroupMetadata"]
    assert shard.state.offsets.pending == {}


def test_an_open_transaction_keeps_offsets_and_group_from_expiring():
    shard = Shard({"a": 2}, offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    shard.commit(3)
    commit_in(shard, 9, 5)
    shard.advance(120_000)
    assert shard.fetch()[0] == 3
    shard.end_transaction(9, committed=False)
    shard.advance(1_000)
    assert shard.state.groups == {}


def test_deleting_a_topic_takes_what_transactions_would_commit_for_it(shard):
    commit_in(shard, 9, 5)
    shard.delete_topic("a")
    assert shard.state.offsets.pending == {}


# -- TxnOffsetCommit: who may ------------------------------------------------------------------------------


def committing(shard, *, group=GROUP, member="", epoch=-1, instance=None, metadata=None, topic_id=None, partition=0):
    """The error code of a commit in producer 9's transaction; what it writes is appended in it."""
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        group_instance_id=instance,
        topics=[
            OffsetCommitRequestTopic(
                name="a",
                topic_id=topic_id or shard.topics.id_of("a"),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=5, committed_metadata=metadata
                    )
                ],
            )
        ],
    )
    try:
        transition = shard.machine.commit_transactional_offsets(request, shard.now_ms)
    except KafkaError as error:
        return error.code
    for record in transition.records:
        shard.append(record, 9)
    return transition.reply.topics[0].partitions[0].error_code


def test_a_transaction_may_commit_for_a_group_that_there_is_not(shard):
    assert committing(shard) == 0
    assert shard.fetch(stable=True)[3] == 88
    shard.end_transaction(9, committed=True)
    assert shard.fetch()[0] == 5
    assert shard.loaded().state == shard.state


@pytest.mark.parametrize(
    ("values", "code"),
    [({"group": ""}, 24), ({"epoch": 3}, 22), ({"metadata": "x" * 4097}, 12)],
)
def test_what_a_transaction_may_not_commit(shard, values, code):
    assert committing(shard, **values) == code
    assert shard.state.offsets.pending == {}


def test_with_a_classic_group_only_its_members_commit_or_who_does_not_say_for_whom(shard):
    member, waits = shard.join_known()
    shard.advance(3_000)
    generation = shard.answers[waits].generation_id
    assert committing(shard) == 0, "older producers do not tell (KIP-447)"
    assert committing(shard, member=member, epoch=generation) == 0, "not even while the generation is being assigned"
    assert committing(shard, member=member, epoch=generation + 1) == 22
    assert committing(shard, member="other", epoch=generation) == 25
    assert committing(shard, member="other", epoch=-1) == 25


def test_with_a_consumer_group_only_its_members_commit_or_who_does_not_say_for_whom(shard):
    epoch = shard.beat("m1", 0, topics=["a"], owned={}).member_epoch
    assert committing(shard) == 0
    assert committing(shard, member="m1", epoch=epoch) == 0
    assert committing(shard, member="m1", epoch=epoch + 1) == 22
    assert committing(shard, member="m2", epoch=epoch) == 25
    assert committing(shard, member="m1", epoch=-1) == 22


def test_a_member_that_is_behind_commits_for_what_it_has_had_since_before():
    shard = Shard({"a": 2, "b": 1}, group_consumer_assignment_interval_ms=0)
    first = shard.beat("m1", 0, topics=["a"], owned={}).member_epoch
    shard.beat("m1", first, owned={"a": [0, 1]})
    shard.beat("m1", first, topics=["a", "b"], owned={"a": [0, 1]})  # the group goes on, and its member with it
    assert shard.member("m1").epoch > first
    assert committing(shard, member="m1", epoch=first) == 0
    assert committing(shard, member="m1", epoch=first - 1) == 22
    assert committing(shard, member="m1", epoch=first, topic_id=Uuid(b"another topic id")) == 22


def test_with_a_streams_group_only_its_members_commit_or_who_does_not_say_for_whom():
    shard = StreamsShard({"a": 2})
    epoch = shard.streams("m1").member_epoch
    assert committing(shard) == 0
    assert committing(shard, member="m1", epoch=epoch) == 0
    assert committing(shard, member="m1", epoch=epoch + 1) == 22
    assert committing(shard, member="m2", epoch=epoch) == 25
    assert committing(shard, member="m1", epoch=-1) == 22
    shard.streams("m1", -1)
    assert committing(shard, member="m1", epoch=epoch) == 25, "it has left"


def test_a_streams_member_that_is_behind_commits_for_the_tasks_it_has_had_since_before():
    shard = StreamsShard({"a": 2})
    first = shard.streams("m1").member_epoch
    shard.streams("m2")
    shard.streams("m1", first, owned=(tasks(_0=[0, 1]), []))
    assert committing(shard, member="m1", epoch=first, partition=1) == 0, "it has not given it back yet"
    then = shard.streams("m1", first, owned=(tasks(_0=[0]), [])).member_epoch
    assert then > first
    assert committing(shard, member="m1", epoch=first) == 0
    assert committing(shard, member="m1", epoch=first, partition=1) == 22
    newest = shard.streams("m2", then).member_epoch
    assert committing(shard, member="m2", epoch=newest, partition=1) == 0
    assert committing(shard, member="m2", epoch=newest - 1, partition=1) == 22, "somebody else's then"
