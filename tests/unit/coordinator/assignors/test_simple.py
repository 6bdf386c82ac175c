"""The simple assignor: fair to members and to partitions, and sticky."""

from __future__ import annotations

from collections import Counter

from coordinator.shards import topic_id
from hypothesis import given
from hypothesis import strategies as st

from kavka.coordinator.assignors.simple import assign_simply
from kavka.coordinator.assignors.spec import MemberSpec

A, B, C = topic_id("a"), topic_id("b"), topic_id("c")


def spec(*topics, **assigned):
    return MemberSpec(frozenset(topics), {topic_id(name): frozenset(found) for name, found in assigned.items()})


def holders(assigned, topic):
    return Counter(each for mine in assigned.values() for each in mine.get(topic, ()))


def test_more_members_than_partitions_share_them():
    assigned = assign_simply({f"m{n}": spec(A) for n in range(5)}, {A: range(2)})
    assert sorted(holders(assigned, A).values()) == [3, 3]
    assert sorted(sum(map(len, mine.values())) for mine in assigned.values()) == [1, 1, 1, 1, 2]


def test_more_partitions_than_members_are_dealt_out():
    assigned = assign_simply({"m1": spec(A, B), "m2": spec(A, B)}, {A: range(3), B: range(2)})
    assert sorted(sum(map(len, mine.values())) for mine in assigned.values()) == [2, 3]
    assert set(holders(assigned, A).values()) == {1}


def test_members_keep_what_they_have():
    assigned = assign_simply({"m1": spec(A, a=[1, 2]), "m2": spec(A, a=[3]), "m3": spec(A)}, {A: range(4)})
    assert assigned["m1"][A] <= {1, 2} or assigned["m1"][A] >= {1, 2}
    assert 3 in assigned["m2"][A]


def test_nothing_is_assigned_that_nobody_wants_or_that_cannot_be():
    assigned = assign_simply({"m1": spec(A, b=[0]), "m2": spec(A, B, a=[9])}, {A: [1], C: [0]})
    assert assigned == {"m1": {A: {1}}, "m2": {A: {1}}}
    assert assign_simply({}, {A: [0]}) == {}
    assert assign_simply({"m": spec()}, {A: [0]}) == {"m": {}}


def test_one_who_is_due_but_has_it_already_leaves_it_to_another():
    assigned = assign_simply({"m0": spec(B), "m1": spec(B, b=[0]), "m2": spec(B, b=[0])}, {B: [0, 1]})
    assert holders(assigned, B) == {0: 2, 1: 2}


TOPICS = {topic_id(name): name for name in "abc"}
MEMBERS = st.dictionaries(
    st.sampled_from([f"m{n}" for n in range(9)]),
    st.tuples(
        st.sets(st.sampled_from(sorted(TOPICS)), min_size=1),
        st.dictionaries(st.sampled_from(sorted(TOPICS)), st.frozensets(st.integers(0, 6), min_size=1)),
    ),
    min_size=1,
)
ASSIGNABLE = st.dictionaries(st.sampled_from(sorted(TOPICS)), st.frozensets(st.integers(0, 6)))


@given(MEMBERS, ASSIGNABLE)
def test_it_is_fair_whatever_was_before(members, assignable):
    specs = {id_: MemberSpec(frozenset(topics), had) for id_, (topics, had) in members.items()}
    assigned = assign_simply(specs, assignable)
    assert assigned.keys() == specs.keys()
    for id_, mine in assigned.items():
        for topic, partitions in mine.items():
            assert partitions
            assert topic in specs[id_].topics
            assert partitions <= assignable[topic]
    for topic, partitions in assignable.items():
        wanting = [id_ for id_, each in specs.items() if topic in each.topics]
        found = holders(assigned, topic)
        if wanting:
            assert set(found) == partitions  # nobody is left out
    wanted = {each.topics for each in specs.values()}
    for topics in [*wanted] if len(wanted) == 1 else [{topic} for topic in assignable]:
        check_balance({id_: mine for id_, mine in assigned.items() if topics <= specs[id_].topics}, topics, assignable)


def check_balance(assigned, topics, assignable):
    """Every partition has equally many members, and every member equally many partitions but for one."""
    places = sum(len(assignable.get(topic, ())) for topic in topics)
    if places and assigned:
        sharing = -(-len(assigned) // places)
        assert all(found == sharing for topic in topics for found in holders(assigned, topic).values())
        counts = [sum(len(mine.get(topic, ())) for topic in topics) for mine in assigned.values()]
        assert max(counts) - min(counts) <= 1


@given(MEMBERS, ASSIGNABLE)
def test_doing_it_again_changes_nothing(members, assignable):
    specs = {id_: MemberSpec(frozenset(topics), had) for id_, (topics, had) in members.items()}
    once = assign_simply(specs, assignable)
    again = assign_simply({id_: each._replace(assigned=once[id_]) for id_, each in specs.items()}, assignable)
    assert (
        sum(len(again[id_].get(t, frozenset()) - once[id_].get(t, frozenset())) for id_ in specs for t in TOPICS) == 0
    )


def test_who_has_one_more_keeps_it():
    members = {"m0": spec(A, a={0}), "m1": spec(A, a={0, 1}), "m2": spec(A, a={1})}
    assert assign_simply(members, {A: range(2)}) == {id_: each.assigned for id_, each in members.items()}
