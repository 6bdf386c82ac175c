"""OffsetCommit, OffsetFetch and OffsetDelete: Kafka's rules and codes."""

from __future__ import annotations

import pytest
from coordinator.shards import Shard, subscription

from kavka.coordinator.kinds import codec_of
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid


@pytest.fixture
def shard():
    return Shard({"a": 4, "b": 1}, group_consumer_assignment_interval_ms=0)


def code_of(call):
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


NOTHING = (-1, -1, "", 0)


# -- OffsetCommit -------------------------------------------------------------------------------------


def test_who_is_in_no_group_may_commit(shard):
    assert shard.commit(7, leader_epoch=3, metadata="why") == 0
    assert shard.fetch() == (7, 3, "why", 0)
    assert shard.listed() == {"g": ("Empty", "classic", "")}
    assert shard.records_since(0) == ["OffsetCommit"]


def test_an_offset_is_written_at_version_4_with_all_there_is_to_know(shard):
    shard.commit(7, leader_epoch=3, metadata="why", topic_id=shard.topics.id_of("a"))
    record = codec_of().decode(*shard.log[-1][:2])
    assert record.version == 4
    assert (record.value.offset, record.value.leader_epoch, record.value.metadata) == (7, 3, "why")
    assert (record.value.commit_timestamp, record.value.topic_id) == (shard.now_ms, shard.topics.id_of("a"))


def test_an_old_client_may_say_how_long_its_offset_is_kept(shard):
    shard.commit(7, version=2, retention_time_ms=60_000)
    record = codec_of().decode(*shard.log[-1][:2])
    assert (record.version, record.value.expire_timestamp) == (1, shard.now_ms + 60_000)


def test_an_offset_can_be_kept_for_longer_than_there_is_time(shard):
    shard.commit(7, version=2, retention_time_ms=2**63 - 1)
    assert codec_of().decode(*shard.log[-1][:2]).value.expire_timestamp == 2**63 - 1


@pytest.mark.parametrize(("version", "code"), [(8, 22), (9, 69)])
def test_a_generation_of_a_group_that_is_not_there(shard, version, code):
    assert code_of(lambda: shard.commit(member="m", epoch=1, version=version)) == code


def test_metadata_has_a_limit_in_characters():
    shard = Shard(offset_metadata_max_bytes=4)
    assert shard.commit(metadata="1234") == 0
    assert shard.commit(metadata="12345") == 12
    assert shard.commit(metadata="\N{JACK-O-LANTERN}" * 2) == 0  # two characters each, for Java
    assert shard.commit(metadata="\N{JACK-O-LANTERN}" * 3) == 12


def test_a_partition_that_is_refused_does_not_stop_others(shard):
    assert shard.commit(metadata="x" * 5_000) == 12
    assert (shard.log, shard.state.groups) == ([], {})


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"epoch": 9}, 22),
        ({"epoch": -1}, 22),
        ({"member": "unknown"}, 25),
        ({"member": "", "epoch": -1}, 25),
        ({"instance": "i"}, 25),
    ],
)
def test_a_commit_that_a_classic_group_refuses(shard, values, code):
    ids, generation = shard.stable(1)
    assert code_of(lambda: shard.commit(**{"member": ids[0], "epoch": generation, **values})) == code


def test_a_member_of_a_classic_group_may_commit_while_members_are_gathered(shard):
    ids, generation = shard.stable(2)
    shard.join(ids[0])
    assert shard.commit(3, member=ids[1], epoch=generation) == 0


def test_a_generation_that_is_not_assigned_yet_is_told_so(shard):
    ids, _ = shard.stable(1)
    generation = shard.answer(shard.join(ids[0])).generation_id
    assert code_of(lambda: shard.commit(member=ids[0], epoch=generation)) == 27


def test_an_empty_group_takes_the_commits_of_administrators(shard):
    ids, generation = shard.stable(1)
    shard.leave(*ids)
    assert shard.commit(9) == 0
    assert code_of(lambda: shard.commit(member=ids[0], epoch=generation)) == 25


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"epoch": 3}, 113),
        ({"epoch": -1}, 113),
        ({"member": "unknown"}, 25),
        ({"member": "", "epoch": -1}, 25),
        ({"version": 8}, 35),
    ],
)
def test_a_commit_that_a_consumer_group_refuses(shard, values, code):
    shard.beat("m1")
    assert code_of(lambda: shard.commit(**{"member": "m1", "epoch": 2, **values})) == code


def test_an_empty_consumer_group_takes_the_commits_of_administrators(shard):
    shard.beat("m1")
    shard.beat("m1", -1)
    assert shard.commit(9) == 0


def test_a_member_that_is_behind_may_commit_for_what_it_has_had_since_then(shard):
    ids = {"topic_id": shard.topics.id_of("a"), "member": "m1"}
    shard.beat("m1")
    shard.beat("m2")
    shard.beat("m1", 2)
    shard.beat("m1", 2, owned={"a": [0, 1]})
    assert shard.member().epoch == 3
    assert shard.commit(5, epoch=2, partition=0, **ids) == 0
    assert code_of(lambda: shard.commit(5, epoch=1, partition=0, **ids)) == 113  # before it had it
    assert code_of(lambda: shard.commit(5, epoch=2, partition=3, **ids)) == 113  # it is not its own


def test_a_member_may_commit_for_what_it_is_giving_back(shard):
    shard.beat("m1")
    shard.beat("m2")
    shard.beat("m1", 2)
    assert shard.commit(5, member="m1", epoch=2, partition=3, topic_id=shard.topics.id_of("a")) == 0


def test_a_classic_member_of_a_consumer_group_is_fenced_by_its_generation(shard):
    shard.beat("m1")
    member = shard.join().member_id
    generation = shard.join(member).generation_id
    assert shard.commit(5, member=member, epoch=generation, version=2) == 0
    for epoch in (generation + 1, generation - 1):
        assert code_of(lambda epoch=epoch: shard.commit(5, member=member, epoch=epoch)) == 22


# -- OffsetFetch --------------------------------------------------------------------------------------


def test_what_was_not_committed_is_minus_one(shard):
    assert shard.fetch() == NOTHING
    shard.commit(1)
    assert shard.fetch(partition=1) == shard.fetch(topic="b") == shard.fetch(group="other") == NOTHING


def test_no_topics_means_all_of_them(shard):
    shard.commit(1, partition=0)
    shard.commit(2, partition=1)
    shard.commit(3, topic="b")
    assert shard.fetch_all() == {("a", 0): (1, 0), ("a", 1): (2, 0), ("b", 0): (3, 0)}
    assert shard.fetch_all("other") == {}


def test_the_offset_of_an_earlier_topic_of_the_name_is_not_the_topics(shard):
    shard.commit(5, topic_id=shard.topics.id_of("a"))
    assert shard.fetch(id_=shard.topics.id_of("a"))[0] == 5
    assert shard.fetch(id_=Uuid(b"x" * 16)) == NOTHING
    assert shard.fetch()[0] == 5


@pytest.mark.parametrize(
    ("values", "code"),
    [({"member_id": "m9", "member_epoch": 2}, 25), ({"member_id": "m1", "member_epoch": 1}, 113)],
)
def test_a_fetch_that_a_consumer_group_refuses(shard, values, code):
    shard.beat("m1")
    assert code_of(lambda: shard.fetch(**values)) == code


def test_a_fetch_of_a_member_or_of_nobody_in_particular(shard):
    shard.beat("m1")
    shard.commit(4, member="m1", epoch=2)
    assert shard.fetch(member_id="m1", member_epoch=2)[0] == shard.fetch()[0] == 4


def test_a_classic_group_does_not_ask_who_fetches(shard):
    ids, generation = shard.stable(1)
    shard.commit(4, member=ids[0], epoch=generation)
    assert shard.fetch(member_id="who", member_epoch=9)[0] == 4


# -- OffsetDelete -------------------------------------------------------------------------------------


def test_offsets_of_topics_that_nobody_reads_are_deleted(shard):
    shard.commit(1)
    start = len(shard.log)
    assert shard.delete_offset() == 0
    assert shard.delete_offset(partition=3) == 0
    assert shard.records_since(start) == ["-OffsetCommit"]
    assert shard.fetch() == NOTHING


def test_offsets_of_topics_that_are_read_stay(shard):
    ids, generation = shard.stable(1)
    shard.commit(1, member=ids[0], epoch=generation)
    assert (shard.delete_offset("a"), shard.delete_offset("b")) == (86, 0)
    shard.beat("m1", group="h")
    assert (shard.delete_offset("a", group="h"), shard.delete_offset("b", group="h")) == (86, 0)
    shard.beat("m2", shard.beat("m2", group="i", regex="b").member_epoch, group="i")
    assert shard.delete_offset("b", group="i") == 86


def test_offsets_of_a_group_whose_topics_are_unknown_stay(shard):
    shard.stable(1, protocol_type="connect")
    assert code_of(shard.delete_offset) == 68
    shard.stable(1, protocols={"range": b"?"}, group="h")
    assert shard.delete_offset("b", group="h") == 86


def test_offsets_of_no_group_cannot_be_deleted(shard):
    assert code_of(shard.delete_offset) == 69
    assert code_of(lambda: shard.delete_offset(group="")) == 24


def test_what_a_group_read_before_it_emptied_can_be_deleted(shard):
    ids, generation = shard.stable(1, protocols={"range": subscription(["a"])})
    shard.commit(1, member=ids[0], epoch=generation)
    shard.leave(*ids)
    assert shard.delete_offset() == 0
    assert shard.fetch() == NOTHING
