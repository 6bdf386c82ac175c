"""Merging batches of states: for every record, what came later is what counts."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kavka.coordinator.share_state.batches import combine
from kavka.model.share import StateBatch


@st.composite
def batch(draw):
    first = draw(st.integers(0, 40))
    last = first + draw(st.integers(0, 12))
    return StateBatch(first, last, draw(st.sampled_from([0, 2, 4])), draw(st.integers(1, 3)))


@given(st.lists(st.lists(batch(), max_size=5), max_size=6), st.lists(st.integers(-1, 30), min_size=6, max_size=6))
def test_every_record_has_the_latest_of_its_states(writes, starts):
    batches: list[StateBatch] = []
    slow: dict[int, tuple[int, int]] = {}
    for changes, start in zip(writes, starts, strict=False):
        combine(batches, changes, start)
        for each in changes:
            for offset in range(each.first_offset, each.last_offset + 1):
                slow[offset] = max(slow.get(offset, (0, 0)), (each.delivery_count, each.delivery_state))
        slow = {offset: state for offset, state in slow.items() if offset >= start}
        assert {o: (b[3], b[2]) for b in batches for o in range(b[0], b[1] + 1)} == slow
        for before, after in pairwise(batches):
            assert before.last_offset < after.first_offset
            assert before.last_offset + 1 < after.first_offset or before[2:] != after[2:]
        assert all(each.first_offset <= each.last_offset for each in batches)


def test_writing_twice_changes_nothing():
    batches = [StateBatch(0, 9, 2, 1), StateBatch(12, 19, 0, 2)]
    again = list(batches)
    combine(again, batches, 0)
    assert again == batches
