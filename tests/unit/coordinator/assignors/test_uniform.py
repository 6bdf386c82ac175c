"""The uniform assignor: balanced, and no more moves than that takes."""

from __future__ import annotations

from coordinator.assigning import COUNTS, A, B, C, groups, owners
from hypothesis import given
from hypothesis import strategies as st

from kavka.coordinator.assignors.spec import MemberSpec
from kavka.coordinator.assignors.uniform import assign_uniformly


def sizes(assigned):
    return {name: sum(map(len, topics.values())) for name, topics in assigned.items()}


@given(groups(wants=st.just(frozenset([A, B, C]))))
def test_no_member_has_two_partitions_more_than_another_when_all_want_the_same(group):
    found = sizes(assign_uniformly(*group)).values()
    assert max(found) - min(found) <= 1


@given(groups(wants=st.just(frozenset([A, B, C]))))
def test_nothing_moves_that_does_not_have_to(group):
    members, counts = group
    assigned = assign_uniformly(members, counts)
    before = {name: sum(len(found) for found in member.assigned.values()) for name, member in members.items()}
    after = sizes(assigned)
    for name, member in members.items():
        kept = {
            (topic_id, each)
            for topic_id, found in member.assigned.items()
            for each in found
            if each in assigned[name].get(topic_id, ())
        }
        gone = sum(each >= counts[topic_id] for topic_id, found in member.assigned.items() for each in found)
        # Who gives something up has nothing new, and who has something new gave up nothing.
        assert len(kept) == min(before[name] - gone, after[name])


@given(groups())
def test_a_balanced_assignment_stays_as_it_is(group):
    members, counts = group
    assigned = assign_uniformly(members, counts)
    again = {name: member._replace(assigned=assigned[name]) for name, member in members.items()}
    assert assign_uniformly(again, counts) == assigned


@given(groups())
def test_no_single_move_makes_it_better(group):
    members, counts = group
    assigned = assign_uniformly(members, counts)
    loads = sizes(assigned)
    for (topic_id, _), owner in owners(assigned).items():
        others = [loads[name] for name, member in members.items() if topic_id in member.topics]
        assert loads[owner] - min(others) <= 1


@given(COUNTS, st.integers(2, 6))
def test_when_a_member_goes_the_others_keep_what_they_have(counts, number):
    members = {f"m{each}": MemberSpec(frozenset(counts), {}) for each in range(number)}
    before = assign_uniformly(members, counts)
    rest = {name: MemberSpec(frozenset(counts), before[name]) for name in members if name != "m0"}
    after = assign_uniformly(rest, counts)
    for name in rest:
        assert all(found <= after[name].get(topic_id, frozenset()) for topic_id, found in before[name].items())


def test_a_partition_that_two_claim_goes_to_one():
    both = {name: MemberSpec(frozenset([A]), {A: frozenset({0})}) for name in ("m1", "m2")}
    assert sizes(assign_uniformly(both, {A: 2})) == {"m1": 1, "m2": 1}


def test_members_with_few_topics_are_helped_by_those_with_many():
    members = {
        "m1": MemberSpec(frozenset([A]), {}),
        "m2": MemberSpec(frozenset([A, B]), {}),
        "m3": MemberSpec(frozenset([B]), {}),
    }
    assert sorted(sizes(assign_uniformly(members, {A: 2, B: 4})).values()) == [2, 2, 2]
