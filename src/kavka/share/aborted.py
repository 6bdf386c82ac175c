"""Records of aborted transactions, which a read_committed group must not get."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kavka.share.acquiring import Acquired


class TransactionalBatch(NamedTuple):
    """A batch of the log that was written with a producer id."""

    base_offset: int
    last_offset: int
    producer_id: int
    transactional: bool = True
    aborts: bool = False
    """It is the marker that ends an aborted transaction."""


def aborted_ranges(batches: Iterable[TransactionalBatch], aborted: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """First and last offsets of the batches of aborted transactions: those are producer ids and first offsets."""
    waiting = sorted(((first, producer) for producer, first in aborted), reverse=True)
    aborting: set[int] = set()
    ranges = []
    for batch in batches:
        while waiting and waiting[-1][0] <= batch.last_offset:
            aborting.add(waiting.pop()[1])
        if batch.aborts:
            aborting.discard(batch.producer_id)
        elif batch.transactional and batch.producer_id in aborting:
            ranges.append((batch.base_offset, batch.last_offset))
    return ranges


def without(acquired: Iterable[Acquired], ranges: Sequence[tuple[int, int]]) -> list[Acquired]:
    """What was acquired, but for the ranges; both are in order."""
    remaining: list[Acquired] = []
    at = 0
    for first, last, count in acquired:
        while at < len(ranges) and ranges[at][1] < first:
            at += 1
        here = at
        while here < len(ranges) and ranges[here][0] <= last and first <= last:
            if first < ranges[here][0]:
                remaining.append(Acquired(first, ranges[here][0] - 1, count))
            first = ranges[here][1] + 1
            here += 1
        if first <= last:
            remaining.append(Acquired(first, last, count))
    return remaining
