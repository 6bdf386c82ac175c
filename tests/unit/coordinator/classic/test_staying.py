"""SyncGroup, Heartbeat and LeaveGroup in classic groups, and members that go silent."""

from __future__ import annotations

import pytest
from coordinator.shards import GROUP, Shard, assignment

from kavka.model.errors import KafkaError


@pytest.fixture
def shard():
    return Shard({"a": 4})


def code_of(call):
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


def rejoined(shard, ids, **values):
    """Everybody joins again; the next generation, not yet assigned."""
    tokens = [shard.join(id_, **values) for id_ in ids]
    return shard.answer(tokens[-1]).generation_id


# -- SyncGroup ----------------------------------------------------------------------------------------


def test_followers_wait_for_what_the_leader_assigns(shard):
    ids, _ = shard.stable(2)
    generation = rejoined(shard, ids)
    follower = shard.sync(ids[1], generation, protocol_type="consumer", protocol_name="range")
    assert follower not in shard.answers
    start = len(shard.log)
    leader = shard.sync(ids[0], generation, {ids[0]: b"one", ids[1]: b"two"})
    assert (leader.assignment, shard.answer(follower).assignment) == (b"one", b"two")
    assert (leader.protocol_type, leader.protocol_name) == ("consumer", "range")
    assert shard.records_since(start) == ["GroupMetadata"]


def test_who_comes_after_the_leader_is_answered_at_once(shard):
    ids, _ = shard.stable(2)
    generation = rejoined(shard, ids)
    shard.sync(ids[0], generation, {ids[1]: b"two"})
    assert shard.sync(ids[1], generation).assignment == b"two"


def test_a_member_that_the_leader_left_out_gets_nothing(shard):
    ids, _ = shard.stable(2)
    generation = rejoined(shard, ids)
    shard.sync(ids[0], generation, {ids[0]: b"one", "stranger": b"x"})
    assert shard.sync(ids[1], generation).assignment == b""


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"generation": 0}, 22),
        ({"generation": 2}, 22),
        ({"member": "unknown"}, 25),
        ({"instance": "i"}, 25),
        ({"protocol_type": "connect"}, 23),
        ({"protocol_name": "sticky"}, 23),
        ({"group": "other"}, 25),
        ({"group": ""}, 24),
    ],
)
def test_a_sync_that_is_refused(shard, values, code):
    ids, generation = shard.stable(1)
    values = {"member": ids[0], "generation": generation, **values}
    assert code_of(lambda: shard.sync(**values)) == code


def test_a_sync_while_members_are_gathered_is_told_so(shard):
    ids, generation = shard.stable(2)
    shard.join(ids[0])
    assert code_of(lambda: shard.sync(ids[1], generation)) == 27


def test_who_does_not_ask_for_its_assignment_in_time_is_out(shard):
    ids, _ = shard.stable(2)
    generation = rejoined(shard, ids, session_timeout_ms=100_000)
    shard.sync(ids[0], generation, {})
    shard.advance(59_999)
    assert shard.classic_beat(ids[1], generation) == 0
    shard.advance(1)
    assert shard.classic_beat(ids[0], generation) == 27
    assert code_of(lambda: shard.classic_beat(ids[1], generation)) == 25


def test_of_two_tries_of_one_follower_the_first_is_told_to_join_again(shard):
    ids, _ = shard.stable(2)
    generation = rejoined(shard, ids)
    first, second = shard.sync(ids[1], generation), shard.sync(ids[1], generation)
    assert shard.answer(first).error_code == 27
    shard.sync(ids[0], generation, {ids[1]: b"x"})
    assert shard.answer(second).assignment == b"x"


def test_who_leaves_while_it_waits_for_its_assignment_is_answered(shard):
    ids, _ = shard.stable(2)
    generation = rejoined(shard, ids)
    waits = shard.sync(ids[1], generation)
    shard.leave(ids[1])
    assert shard.answer(waits).error_code == 25


def test_a_leader_that_does_not_assign_in_time_loses_the_lead(shard):
    ids, _ = shard.stable(2)
    generation = rejoined(shard, ids, session_timeout_ms=100_000)
    waits = shard.sync(ids[1], generation)
    shard.advance(60_000)
    assert shard.answer(waits).error_code == 27
    token = shard.join(ids[1])
    assert shard.answer(token).leader == ids[1]


# -- Heartbeat ----------------------------------------------------------------------------------------


def test_a_member_that_is_heard_of_stays(shard):
    ids, generation = shard.stable(1)
    for _ in range(5):
        shard.advance(9_999)
        assert shard.classic_beat(ids[0], generation) == 0
    shard.advance(10_000)
    assert code_of(lambda: shard.classic_beat(ids[0], generation)) == 25


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"generation": 7}, 22),
        ({"member": "unknown"}, 25),
        ({"instance": "i"}, 25),
        ({"group": "other"}, 25),
        ({"group": ""}, 24),
    ],
)
def test_a_heartbeat_that_is_refused(shard, values, code):
    ids, generation = shard.stable(1)
    assert code_of(lambda: shard.classic_beat(**{"member": ids[0], "generation": generation, **values})) == code


def test_heartbeats_count_from_the_join_on(shard):
    ids, _ = shard.stable(2)
    generation = rejoined(shard, ids)
    assert shard.classic_beat(ids[1], generation) == 0


def test_a_steady_member_writes_nothing_and_sets_no_timer(shard):
    ids, generation = shard.stable(1)
    shard.classic_beat(ids[0], generation)
    timers, written = dict(shard.timers), len(shard.log)
    shard.now_ms += 1_000
    shard.classic_beat(ids[0], generation)
    assert (shard.timers, len(shard.log)) == (timers, written)


def test_a_commit_keeps_a_session_alive(shard):
    ids, generation = shard.stable(1)
    shard.advance(9_000)
    assert shard.commit(member=ids[0], epoch=generation) == 0
    shard.advance(9_000)
    assert shard.classic_beat(ids[0], generation) == 0


def test_when_a_member_is_silent_the_others_gather_without_it(shard):
    ids, generation = shard.stable(2)
    shard.advance(5_000)
    shard.classic_beat(ids[0], generation)
    shard.advance(5_000)
    assert shard.classic_beat(ids[0], generation) == 27
    token = shard.join(ids[0])
    assert len(shard.answer(token).members) == 1


def test_who_waits_for_others_is_not_silent(shard):
    ids, _ = shard.stable(2, session_timeout_ms=6_000, rebalance_timeout_ms=60_000)
    token = shard.join(ids[0])
    for _ in range(3):
        shard.advance(3_000)
        shard.commit(member=ids[1], epoch=1)  # the other one stays, but takes its time
    assert token not in shard.answers
    shard.join(ids[1])
    assert shard.answer(token).error_code == 0


def test_a_new_member_that_waits_too_long_is_told_to_try_again(shard):
    ids, generation = shard.stable(1, rebalance_timeout_ms=900_000, session_timeout_ms=900_000)
    _, token = shard.join_known()
    for _ in range(30):
        shard.advance(10_000)
        assert shard.classic_beat(ids[0], generation) == 27
    assert shard.answer(token).error_code == 25


def test_who_does_not_join_within_the_rebalance_timeout_is_out(shard):
    ids, generation = shard.stable(2, session_timeout_ms=100_000)
    token = shard.join(ids[0])
    shard.advance(60_000)
    assert shard.answer(token).generation_id == generation + 1
    assert code_of(lambda: shard.classic_beat(ids[1], generation)) == 25


def test_when_the_leader_does_not_join_another_one_leads(shard):
    ids, _ = shard.stable(2, session_timeout_ms=100_000)
    token = shard.join(ids[1], protocols={"range": b"\0\1\0\0\0\0\xff\xff\xff\xff"})
    shard.advance(60_000)
    assert shard.answer(token).leader == ids[1]


# -- LeaveGroup ---------------------------------------------------------------------------------------


def test_a_group_that_everybody_left_is_empty_and_says_so_in_the_log(shard):
    ids, generation = shard.stable(2)
    start = len(shard.log)
    assert shard.leave(*ids) == [0, 0]
    assert shard.listed()["g"] == ("Empty", "classic", "consumer")
    assert shard.records_since(start) == ["GroupMetadata"]
    stored = shard.group().metadata
    assert (stored.generation, stored.members, stored.protocol) == (generation + 1, [], None)
    assert stored.current_state_timestamp == shard.now_ms


def test_when_one_leaves_the_others_gather(shard):
    ids, generation = shard.stable(2)
    assert shard.leave(ids[1]) == [0]
    assert shard.classic_beat(ids[0], generation) == 27


def test_each_member_that_leaves_has_its_own_outcome(shard):
    ids, _ = shard.stable(1)
    assert shard.leave("unknown", ids[0], ("", "seat"), (ids[0], "seat")) == [25, 0, 25, 25]


def test_before_version_3_one_member_leaves_and_its_outcome_is_the_whole_answer(shard):
    ids, _ = shard.stable(1)
    assert shard.leave("unknown", version=2) == 25
    assert shard.leave(ids[0], version=2) == 0


def test_nobody_can_leave_a_group_that_is_not_there(shard):
    assert shard.leave("m", ("", "i"), group="other") == [25, 25]
    assert code_of(lambda: shard.leave("m", group="")) == 24


def test_an_id_that_was_handed_out_can_leave(shard):
    refused = shard.join()
    assert shard.leave(refused.member_id) == [0]
    assert shard.join(refused.member_id).error_code == 25


def test_who_leaves_while_it_waits_is_answered(shard):
    ids, _ = shard.stable(2)
    token = shard.join(ids[0])
    shard.leave(ids[0])
    assert shard.answer(token).error_code == 25


def test_when_the_last_one_that_was_missing_leaves_the_others_go_on(shard):
    ids, generation = shard.stable(2)
    token = shard.join(ids[0])
    shard.leave(ids[1])
    assert shard.answer(token).generation_id == generation + 1


# -- failover -----------------------------------------------------------------------------------------


def test_a_new_coordinator_starts_from_the_last_assignment(shard):
    ids, generation = shard.stable(2)
    shard.join(ids[0])
    shard.start()
    assert shard.listed()["g"][0] == "Stable"
    assert [shard.classic_beat(id_, generation) for id_ in ids] == [0, 0]
    assert shard.sync(ids[1], generation).assignment == assignment(a=[1])


def test_whoever_waits_when_the_coordinator_goes_is_sent_away(shard):
    ids, _ = shard.stable(2)
    token = shard.join(ids[0])
    ((key, reply),) = [(answer.key, answer.reply) for answer in shard.machine.on_unloaded()]
    assert (key, reply.code) == (token, 16)


def test_members_that_do_not_find_the_new_coordinator_in_time_are_out(shard):
    shard.stable(2)
    shard.start()
    shard.advance(10_000)
    assert shard.listed()[GROUP][0] == "Empty"
