"""What a topology takes of the topics: tasks, internal topics, and why it cannot be."""

from __future__ import annotations

import pytest
from coordinator.streams.play import subtopology, topic, topology

from kavka.coordinator.streams.topology import StreamsStatus, StreamsTopology, configure, read_topology
from kavka.model.errors import StreamsInvalidTopology


def configured(parts, **counts):
    return configure(StreamsTopology(read_topology(topology(*parts))), counts.get)


def made(found):
    return {one.name: one.partitions for one in found.missing}


def tasks(found):
    return {id_: one.tasks for id_, one in found.subtopologies.items()}


def test_a_subtopology_has_a_task_for_each_partition_of_its_largest_topic():
    found = configured([subtopology("0", ["a", "b"])], a=3, b=5)
    assert (tasks(found), found.is_ready, made(found)) == ({"0": 5}, True, {})


def test_a_repartition_topic_is_as_large_as_the_largest_source_of_who_writes_to_it():
    parts = [
        subtopology("0", ["a", "b"], sinks=["r"]),
        subtopology("1", [], repartitions=["r"], sinks=["s"]),
        subtopology("2", ["a"], repartitions=["s"], changelogs=["c"]),
    ]
    found = configured(parts[::-1], a=2, b=5)
    assert (tasks(found), made(found)) == ({"0": 5, "1": 5, "2": 5}, {"r": 5, "s": 5, "c": 5})
    assert found.trouble.status is StreamsStatus.MISSING_INTERNAL_TOPICS
    assert not found.is_ready


def test_a_repartition_topic_may_have_its_own_number():
    found = configured([subtopology("0", ["a"], sinks=["r"]), subtopology("1", [], repartitions=[topic("r", 7)])], a=2)
    assert (tasks(found), made(found)) == ({"0": 2, "1": 7}, {"r": 7})


def test_repartition_topics_follow_what_they_are_joined_with():
    parts = [
        subtopology("0", ["a"], sinks=["r"]),
        subtopology("1", ["b"], repartitions=["r"], together=[([0], [0])], changelogs=["c"]),
    ]
    assert made(configured(parts, a=2, b=6)) == {"r": 6, "c": 6}


def test_repartition_topics_that_are_joined_are_as_large_as_the_largest():
    parts = [
        subtopology("0", ["a"], sinks=["r"]),
        subtopology("1", ["b"], sinks=["s"]),
        subtopology("2", [], repartitions=["r", "s"], together=[([], [0, 1])]),
    ]
    assert made(configured(parts, a=2, b=6)) == {"r": 6, "s": 6}


def test_a_fixed_repartition_topic_decides_for_those_it_is_joined_with():
    parts = [
        subtopology("0", ["a"], sinks=["r", "s"]),
        subtopology("1", [], repartitions=[topic("r", 3), "s"], together=[([], [0, 1])]),
    ]
    assert made(configured(parts, a=9)) == {"r": 3, "s": 3}


@pytest.mark.parametrize(("parts", "detail"), [
    ([subtopology("0", ["a"], sinks=["r"]),
      subtopology("1", ["b"], repartitions=[topic("r", 3)], together=[([0], [0])])],
     "Number of partitions [3] of repartition topic [r] doesn't match number of partitions [4] of the source topic."),
    ([subtopology("0", ["a"], sinks=["r", "s"]),
      subtopology("1", [], repartitions=[topic("r", 3), topic("s", 4)], together=[([], [0, 1])])],
     "Following topics do not have the same number of partitions: [{r=3, s=4}]"),
])  # fmt: skip
def test_numbers_that_contradict_each_other(parts, detail):
    found = configured(parts, a=2, b=4)
    assert (found.trouble.status, found.trouble.detail) == (StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS, detail)
    assert (found.subtopologies, found.missing) == ({}, ())


def test_topics_that_are_there_already_are_not_missing():
    parts = [subtopology("0", ["a"], sinks=["r"]), subtopology("1", [], repartitions=["r"], changelogs=["c"])]
    assert made(configured(parts, a=2, r=2)) == {"c": 2}
    assert configured(parts, a=2, r=2, c=2).is_ready


def test_what_no_topics_could_make_right():
    for parts in (
        [subtopology("0", [])],
        [subtopology("0", ["a"], repartitions=["r"])],
        [subtopology("0", [], repartitions=["r"], sinks=["s"]), subtopology("1", [], repartitions=["s"], sinks=["r"])],
    ):
        with pytest.raises(StreamsInvalidTopology):
            configured(parts, a=1)


def test_internal_topics_carry_their_settings():
    parts = [subtopology("0", ["a"], changelogs=[topic("c", replication=2, cleanup_policy="compact")])]
    [found] = configured(parts, a=1).missing
    assert (found.replication, found.configs) == (2, {"cleanup.policy": "compact"})


def test_the_order_of_subtopologies_does_not_matter():
    one, two = subtopology("0", ["a"]), subtopology("1", ["b"])
    first, second = (StreamsTopology(read_topology(topology(*parts))) for parts in ([one, two], [two, one]))
    assert first == second
    assert first != StreamsTopology(read_topology(topology(one)))
    assert (first == 1) is False
