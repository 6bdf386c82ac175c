"""The assignors of classic groups: nothing left out, nothing twice, even where they promise it, and sticky."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.client.assignors import ASSIGNORS, Subscriber, assign_cooperative, assign_range, assign_sticky
from kavka.model.types import TopicPartition

COUNTS = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(0, 7))
MEMBERS = st.dictionaries(
    st.sampled_from([f"m{number}" for number in range(8)]),
    st.frozensets(st.sampled_from(["a", "b", "c", "d", "nowhere"]), max_size=4).map(Subscriber),
    min_size=1,
)


def wanted(members, counts):
    """The partitions that somebody wants."""
    return {
        TopicPartition(topic, index)
        for topic, count in counts.items()
        if any(topic in member.topics for member in members.values())
        for index in range(count)
    }


def tps(*texts):
    return {TopicPartition(text.split("-")[0], int(text.split("-")[1])) for text in texts}


@pytest.mark.parametrize("name", ASSIGNORS)
@given(members=MEMBERS, counts=COUNTS)
def test_every_wanted_partition_has_one_owner_who_wants_it(name, members, counts):
    found = ASSIGNORS[name](members, counts)
    assert found.keys() == members.keys()
    given_out = [tp for partitions in found.values() for tp in partitions]
    assert sorted(given_out) == sorted(wanted(members, counts))
    assert all(tp.topic in members[id_].topics for id_, partitions in found.items() for tp in partitions)


@given(members=MEMBERS, counts=COUNTS)
def test_the_sticky_one_is_even_and_stays_where_it_is(members, counts):
    first = assign_sticky(members, counts)
    for owned in first.values():
        for other, theirs in first.items():
            movable = [tp for tp in owned if tp.topic in members[other].topics]
            assert not movable or len(owned) - len(theirs) <= 1
    again = {id_: Subscriber(member.topics, frozenset(first[id_]), 1) for id_, member in members.items()}
    assert assign_sticky(again, counts) == first


@given(members=MEMBERS, counts=COUNTS, new=st.frozensets(st.sampled_from(["a", "b", "c", "d"]), min_size=1))
def test_a_cooperative_group_comes_to_rest_and_never_gives_what_another_still_has(members, counts, new):
    owned = assign_sticky(members, counts)
    now = {**members, "new": Subscriber(new)}
    for generation in range(2, 5):
        subscribers = {
            id_: Subscriber(member.topics, frozenset(owned.get(id_, ())), generation) for id_, member in now.items()
        }
        found = assign_cooperative(subscribers, counts)
        for id_, partitions in found.items():
            for other, theirs in owned.items():
                assert other == id_ or not partitions & theirs
        if found == owned:
            break
        owned = found
    assert {tp for partitions in owned.values() for tp in partitions} == wanted(now, counts)


def test_range_gives_neighbours_and_the_first_get_more():
    members = {"x": Subscriber(frozenset("ab")), "y": Subscriber(frozenset("ab")), "z": Subscriber(frozenset("b"))}
    assert assign_range(members, {"a": 3, "b": 3}) == {
        "x": tps("a-0", "a-1", "b-0"),
        "y": tps("a-2", "b-1"),
        "z": tps("b-2"),
    }


def test_of_two_who_claim_a_partition_the_later_generation_has_it():
    mine = frozenset(tps("a-0"))
    members = {"old": Subscriber(frozenset("a"), mine, 1), "new": Subscriber(frozenset("a"), mine, 2)}
    assert assign_sticky(members, {"a": 1}) == {"old": set(), "new": set(mine)}
