"""Batches of records in one state: in order, without overlaps, and no two neighbours alike."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter

from kavka.model.share import NO_START_OFFSET, StateBatch

_first = attrgetter("first_offset")
_last = attrgetter("last_offset")


def combine(batches: list[StateBatch], changes: Iterable[StateBatch], start_offset: int) -> None:
    """Take changes into batches, of which those before the start offset are forgotten.

    Where two speak of one record, the one that was delivered more often is the later one, and among equals the one in
    the state that comes later: what is written twice, or late, changes nothing.
    """
    for each in changes:
        if each.last_offset >= start_offset:
            _put(batches, each)
    if start_offset != NO_START_OFFSET:
        del batches[: bisect_left(batches, start_offset, key=_last)]
        if batches and batches[0].first_offset < start_offset:
            batches[0] = batches[0]._replace(first_offset=start_offset)


def _put(batches: list[StateBatch], new: StateBatch) -> None:
    begin = bisect_left(batches, new.first_offset - 1, key=_last)
    end = bisect_right(batches, new.last_offset + 1, key=_first)
    pieces: list[StateBatch] = []
    at = new.first_offset
    for old in batches[begin:end]:
        low, high = max(old.first_offset, new.first_offset), min(old.last_offset, new.last_offset)
        if low > high:  # a neighbour
            if old.first_offset > new.last_offset and at <= new.last_offset:
                _append(pieces, new._replace(first_offset=at))
                at = new.last_offset + 1
            _append(pieces, old)
            continue
        if old.first_offset < low:
            _append(pieces, old._replace(last_offset=low - 1))
        elif at < low:
            _append(pieces, new._replace(first_offset=at, last_offset=low - 1))
        later = max(old, new, key=_age)
        _append(pieces, later._replace(first_offset=low, last_offset=high))
        if old.last_offset > high:
            _append(pieces, old._replace(first_offset=high + 1))
        at = high + 1
    if at <= new.last_offset:
        _append(pieces, new._replace(first_offset=at))
    batches[begin:end] = pieces


def _age(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state


def _append(pieces: list[StateBatch], new: StateBatch) -> None:
    if pieces and pieces[-1].last_offset + 1 == new.first_offset and pieces[-1][2:] == new[2:]:
        new = new._replace(first_offset=pieces.pop().first_offset)
    pieces.append(new)
