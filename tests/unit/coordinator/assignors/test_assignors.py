"""What both assignors promise: each partition once, to someone who wants it, whatever order things are named in."""

from __future__ import annotations

import pytest
from coordinator.assigning import groups, owners
from hypothesis import given

from kavka.coordinator.assignors import ASSIGNORS


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
def test_every_partition_that_is_wanted_goes_to_one_who_wants_it(name, group):
    members, counts = group
    assigned = ASSIGNORS[name](members, counts)
    assert set(assigned) == set(members)
    wanted = {
        (topic_id, partition)
        for member in members.values()
        for topic_id in member.topics
        for partition in range(counts[topic_id])
    }
    found = owners(assigned)
    assert set(found) == wanted
    assert all(topic_id in members[owner].topics for (topic_id, _), owner in found.items())


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=groups())
def test_the_order_in_which_things_are_named_does_not_matter(name, group):
    members, counts = group
    backwards = dict(reversed(members.items())), dict(reversed(counts.items()))
    assert ASSIGNORS[name](members, counts) == ASSIGNORS[name](*backwards)


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_group_of_nobody_gets_nothing(name):
    assert ASSIGNORS[name]({}, {}) == {}
