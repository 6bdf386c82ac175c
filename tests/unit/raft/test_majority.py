"""Counting votes and offsets."""

from __future__ import annotations

import pytest
from raft_replica import key, voters

from kavka.raft.majority import Tally, majority_offset


@pytest.mark.parametrize(
    ("offsets", "majority"), [([5], 5), ([5, 3], 3), ([5, 3, 1], 3), ([5, 4, 3, 1], 3), ([9, 9, 3, 1, -1], 3)]
)
def test_more_than_half_have_reached_the_offset_of_the_majority(offsets, majority):
    assert majority_offset(offsets) == majority
    assert sum(offset >= majority for offset in offsets) > len(offsets) // 2


@pytest.mark.parametrize(("size", "more"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
def test_an_election_is_won_by_more_than_half(size, more):
    tally = Tally(voters(*range(1, size + 1)), 1)
    for id_ in range(2, 2 + more):
        assert not tally.is_won
        tally.record(id_, True)
    assert tally.is_won
    assert not tally.is_lost


@pytest.mark.parametrize(("size", "refusals"), [(2, 1), (3, 2), (4, 2), (5, 3)])
def test_an_election_is_lost_when_the_rest_is_too_few(size, refusals):
    tally = Tally(voters(*range(1, size + 1)), 1)
    for id_ in range(2, 2 + refusals):
        assert not tally.is_lost
        tally.record(id_, False)
    assert tally.is_lost


def test_strangers_do_not_count_not_even_the_nominee():
    tally = Tally(voters(2, 3), 1)
    tally.record(9, True)
    assert tally.granted == ()
    assert tally.missing == [key(2), key(3)]
    tally.record(2, False)
    tally.record(2, True)  # it changed its mind
    assert tally.granted == (2,)
    assert not tally.is_lost
