"""Whether a segment belongs to a log's history: the cases of Kafka's RemoteLogManager, and those its comments name."""

from __future__ import annotations

import pytest

from kavka.catalog.lineage import epoch_of, is_within, shared_end, with_records
from kavka.catalog.segment import RemoteSegment
from kavka.model.types import Uuid

LINEAGE = ((0, 0), (1, 10), (2, 20), (3, 30))


def segment(start: int, end: int, *epochs: tuple[int, int]) -> RemoteSegment:
    return RemoteSegment(Uuid(bytes(16)), start, end, 0, 0, 1, 0, epochs)


@pytest.mark.parametrize(
    ("epochs", "start", "end", "within"),
    [
        (((0, 0),), 0, 9, True),
        (((0, 0), (1, 10)), 0, 19, True),
        (((1, 15), (2, 20)), 15, 25, True),  # the first epoch may start later than in the lineage
        (((1, 9), (2, 20)), 9, 25, False),  # ... but not earlier
        (((0, 0), (1, 10), (2, 21)), 0, 29, False),  # an epoch between starts elsewhere
        (((0, 0), (2, 20)), 0, 29, False),  # epoch 1 had records in this log
        (((0, 0), (1, 10)), 0, 20, False),  # ends in the next epoch's offsets
        (((3, 30),), 30, 39, True),
        (((3, 30),), 30, 40, False),  # ends at the log's end
        (((4, 30),), 30, 35, False),  # an epoch that the log has never heard of
        (((0, 0), (1, 10), (2, 10), (3, 30)), 0, 35, False),
        (((0, 0), (1, 5), (2, 5)), 0, 9, False),  # epoch 1 is empty, epoch 2 starts elsewhere
    ],
)
def test_a_segment_is_within_the_lineage_or_not(
    epochs: tuple[tuple[int, int], ...], start: int, end: int, within: bool
) -> None:
    assert is_within(segment(start, end, *epochs), 40, LINEAGE) is within


def test_an_overlapping_segment_whose_older_epochs_are_gone_is_valid() -> None:
    lineage = ((7, 51), (9, 100))
    assert is_within(segment(14, 150, (5, 14), (7, 15), (9, 100)), 200, lineage)
    assert not is_within(segment(14, 50, (5, 14)), 200, lineage)


def test_no_segment_is_within_an_empty_lineage() -> None:
    assert not is_within(segment(0, 9, (0, 0)), 40, ())


def test_epochs_without_records_do_not_count() -> None:
    assert with_records(((0, 0), (1, 5), (2, 5), (3, 9))) == ((0, 0), (2, 5), (3, 9))


def test_the_epoch_of_an_offset() -> None:
    assert [epoch_of(offset, LINEAGE[1:]) for offset in (9, 10, 19, 20, 99)] == [None, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("epochs", "end", "offset", "shared"),
    [
        (((0, 0), (1, 10), (2, 20)), 25, 5, 25),
        (((0, 0), (1, 10), (2, 15)), 25, 5, 14),  # epoch 2 began earlier for the leader who copied it
        (((0, 0), (2, 20)), 25, 5, 9),  # it never saw epoch 1
        (((0, 0),), 25, 5, 9),  # it went on in epoch 0
        (((3, 30),), 99, 35, 99),  # the log's newest epoch goes on
        (((0, 0), (1, 10)), 12, 10, 12),
    ],
)
def test_a_segment_is_read_only_as_far_as_it_is_this_logs_history(
    epochs: tuple[tuple[int, int], ...], end: int, offset: int, shared: int
) -> None:
    assert shared_end(segment(epochs[0][1], end, *epochs), offset, LINEAGE) == shared
