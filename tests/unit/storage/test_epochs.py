from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.storage.epochs import LeaderEpochs


def test_an_epoch_is_noted_where_it_starts_and_only_once():
    epochs = LeaderEpochs()
    assert epochs.assign(0, 0)
    assert epochs.assign(2, 10)
    assert not epochs.assign(2, 15)
    assert epochs.entries == ((0, 0), (2, 10))
    assert epochs.latest == 2
    assert epochs.earliest == (0, 0)


def test_an_epoch_that_begins_earlier_replaces_what_it_contradicts():
    epochs = LeaderEpochs([(0, 0), (1, 10), (2, 20)])
    epochs.assign(3, 10)
    assert epochs.entries == ((0, 0), (3, 10))
    epochs.assign(1, 5)
    assert epochs.entries == ((0, 0), (1, 5))


@pytest.mark.parametrize(("epoch", "offset"), [(-1, 0), (0, -1)])
def test_impossible_epochs_are_refused(epoch, offset):
    with pytest.raises(ValueError, match="cannot start"):
        LeaderEpochs().assign(epoch, offset)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),  # undefined
        (0, (0, 10)),  # smaller than all: the start of the first
        (1, (1, 20)),
        (2, (1, 20)),  # never wrote: the one before it
        (3, (3, 30)),
        (5, (5, 99)),  # the newest ends at the log end
        (6, (-1, -1)),  # unknown and newer
    ],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(asked, answer):
    assert LeaderEpochs([(1, 10), (3, 20), (5, 30)]).end_offset_for(asked, 99) == answer


def test_an_offset_has_the_epoch_that_wrote_it():
    epochs = LeaderEpochs([(1, 10), (3, 20)])
    assert [epochs.epoch_for(offset) for offset in (9, 10, 19, 20, 99)] == [None, 1, 1, 3, 3]


def test_truncating_the_end_forgets_epochs_that_start_there():
    epochs = LeaderEpochs([(1, 10), (3, 20), (5, 30)])
    assert not epochs.dirty
    epochs.truncate_from_end(31)
    assert not epochs.dirty
    epochs.truncate_from_end(20)
    assert epochs.entries == ((1, 10),)
    assert epochs.dirty
    assert epochs.latest == 1


def test_truncating_the_start_keeps_the_epoch_that_holds_it():
    epochs = LeaderEpochs([(1, 10), (3, 20), (5, 30)])
    epochs.truncate_from_start(10)
    assert not epochs.dirty
    epochs.truncate_from_start(25)
    assert epochs.entries == ((3, 25), (5, 30))
    epochs.truncate_from_start(5)
    assert epochs.entries == ((3, 25), (5, 30))


def test_clearing_forgets_all():
    epochs = LeaderEpochs([(1, 10)])
    epochs.clear()
    assert (epochs.entries, epochs.latest, epochs.dirty) == ((), -1, True)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 100)), max_size=30), st.integers(0, 100))
def test_epochs_and_offsets_always_grow_together(assignments, cut):
    epochs = LeaderEpochs(assignments)
    epochs.truncate_from_start(cut)
    pairs = epochs.entries
    assert list(pairs) == sorted(pairs)
    assert len({epoch for epoch, _ in pairs}) == len({start for _, start in pairs}) == len(pairs)
