"""The range assignor: runs of neighbours, alike for topics that are alike."""

from __future__ import annotations

from kavka.coordinator.assignors.range import assign_ranges
from kavka.coordinator.assignors.spec import MemberSpec
from kavka.model.types import Uuid

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)


def members(**wants):
    return {name: MemberSpec(frozenset(topics), {}) for name, topics in wants.items()}


def test_members_get_runs_and_the_first_ones_get_what_is_left_over():
    assert assign_ranges(members(m1=[A], m2=[A], m3=[A]), {A: 7}) == {
        "m1": {A: frozenset({0, 1, 2})},
        "m2": {A: frozenset({3, 4})},
        "m3": {A: frozenset({5, 6})},
    }


def test_topics_of_the_same_size_are_cut_alike():
    assigned = assign_ranges(members(m1=[A, B], m2=[A, B]), {A: 3, B: 3})
    assert all(found[A] == found[B] for found in assigned.values())


def test_only_subscribers_share_a_topic():
    assigned = assign_ranges(members(m1=[A], m2=[A, B], m3=[B]), {A: 4, B: 2})
    assert assigned["m1"] == {A: frozenset({0, 1})}
    assert assigned["m2"] == {A: frozenset({2, 3}), B: frozenset({0})}
    assert assigned["m3"] == {B: frozenset({1})}


def test_more_members_than_partitions_leave_the_last_ones_empty_handed():
    assert assign_ranges(members(m1=[A], m2=[A]), {A: 1})["m2"] == {}


def test_static_members_keep_their_place_under_another_member_id():
    seats = {"z": MemberSpec(frozenset([A]), {}, "i1"), "b": MemberSpec(frozenset([A]), {}, "i2")}
    dynamic = {"a": MemberSpec(frozenset([A]), {})}
    assigned = assign_ranges({**seats, **dynamic}, {A: 3})
    assert [assigned[name][A] for name in ("z", "b", "a")] == [frozenset({0}), frozenset({1}), frozenset({2})]
