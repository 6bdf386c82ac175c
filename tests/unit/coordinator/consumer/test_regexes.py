"""Members that want the topics of a pattern (ConsumerGroupHeartbeat v1)."""

from __future__ import annotations

import pytest
from coordinator.shards import Shard, assigned

from kavka.model.errors import InvalidRegularExpression


@pytest.fixture
def shard():
    return Shard({"a1": 1, "a2": 1, "b1": 2}, group_consumer_assignment_interval_ms=0)


def join(shard, member="m1", regex="a.*", **more):
    """Join with a pattern; what the member is told when it was matched, at its next heartbeat."""
    return shard.beat(member, shard.beat(member, regex=regex, **more).member_epoch)


def test_who_joins_with_a_new_pattern_is_told_at_its_next_heartbeat_what_it_gets(shard):
    reply = shard.beat("m1", regex="a.*")
    assert (reply.member_epoch, assigned(reply)) == (1, {})
    reply = shard.beat("m1", 1)
    assert (reply.member_epoch, assigned(reply)) == (2, {"a1": [0], "a2": [0]})
    reply = shard.beat("m1", 2)
    assert (reply.member_epoch, reply.assignment) == (2, None)


def test_a_pattern_that_matches_nothing_changes_nothing(shard):
    shard.beat("m1", regex="x.*")
    for _ in range(2):
        reply = shard.beat("m1", 1)
        assert (reply.member_epoch, reply.assignment) == (1, None)


def test_a_pattern_gives_the_topics_that_it_matches(shard):
    reply = join(shard)
    assert assigned(reply) == {"a1": [0], "a2": [0]}
    assert "ConsumerGroupRegularExpression" in shard.records_since(0)
    assert shard.group().resolved["a.*"].topics == {"a1", "a2"}


def test_a_pattern_that_is_none_is_refused_and_leaves_no_trace(shard):
    with pytest.raises(InvalidRegularExpression):
        shard.beat("m1", regex="*")
    assert InvalidRegularExpression.code == 128
    assert shard.log == []


def test_names_and_a_pattern_go_together(shard):
    reply = shard.beat("m1", regex="a1", topics=["b1"])
    assert (reply.member_epoch, assigned(reply)) == (2, {"b1": [0, 1]})
    reply = shard.beat("m1", 2)
    assert (reply.member_epoch, assigned(reply)) == (3, {"a1": [0], "b1": [0, 1]})


def test_a_pattern_that_others_have_is_not_matched_again(shard):
    join(shard)
    matched = len(shard.matched)
    reply = shard.beat("m2", regex="a.*")
    assert reply.member_epoch == 3
    assert len(shard.matched) == matched
    assert shard.group().regexes == {"a.*": 2}


def test_new_topics_that_match_are_given_out_but_not_at_once(shard):
    join(shard)
    shard.beat("m1", 2, owned={"a1": [0], "a2": [0]})
    shard.advance(5_000)
    shard.create_topic("a3", 1)
    assert shard.beat("m1", 2).assignment is None  # too soon to look at all topics again
    shard.advance(5_001)
    assert assigned(shard.beat("m1", 2)) == {"a1": [0], "a2": [0], "a3": [0]}


def test_patterns_are_matched_again_only_when_topics_come(shard):
    join(shard)
    shard.matched.clear()
    shard.advance(30_000)
    shard.beat("m1", 2)
    assert shard.matched == []
    shard.advance(30_000)
    shard.create_topic("c", 1)
    written = len(shard.log)
    shard.beat("m1", 2)
    assert shard.matched == ["a.*"]
    assert shard.records_since(written) == ["ConsumerGroupRegularExpression"]
    shard.advance(30_000)
    shard.beat("m1", 2)
    assert len(shard.matched) == 1


def test_patterns_are_matched_again_from_time_to_time():
    shard = Shard({"a": 1}, group_consumer_regex_refresh_interval_ms=60_000)
    join(shard, regex="a")
    shard.matched.clear()
    for _ in range(4):
        shard.advance(20_001)
        shard.beat("m1", 2)
    assert shard.matched == ["a"]


def test_another_pattern_takes_the_place_of_the_first(shard):
    join(shard)
    reply = shard.beat("m1", 2, regex="b.*")
    assert assigned(reply) == {}
    assert assigned(shard.beat("m1", 2, owned={})) == {"b1": [0, 1]}
    assert list(shard.group().resolved) == ["b.*"]


def test_a_pattern_that_nobody_wants_any_more_is_forgotten(shard):
    join(shard)
    shard.beat("m2", regex="a.*")
    shard.beat("m1", -1)
    assert shard.group().resolved
    start = len(shard.log)
    shard.beat("m2", -1)
    assert "-ConsumerGroupRegularExpression" in shard.records_since(start)
    assert shard.group().resolved == {}


def test_an_empty_pattern_is_none(shard):
    join(shard)
    reply = shard.beat("m1", 2, regex="", topics=["b1"], owned={})
    assert assigned(reply) == {"b1": [0, 1]}
    assert shard.group().regexes == {}


def test_a_deleted_topic_is_taken_away_though_the_pattern_still_names_it(shard):
    join(shard)
    shard.delete_topic("a2")
    assert assigned(shard.beat("m1", 2, owned={"a1": [0]})) == {"a1": [0]}


def test_matched_topics_are_in_the_log(shard):
    join(shard)
    shard.matched.clear()
    shard.start()
    assert shard.beat("m1", 2).error_code == 0
    assert shard.matched == []


def test_a_pattern_that_can_no_longer_be_read_matches_nothing_and_hurts_nobody(shard):
    join(shard)
    shard.advance(20_000)
    shard.create_topic("a3", 1)
    shard.broken = {"a.*"}
    reply = shard.beat("m1", 2, owned={"a1": [0]})
    assert assigned(reply) == {}
