"""Whether a remote segment is part of this log's history: leader epochs of the segment against those of the log."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from kavka.catalog.segment import Epochs, RemoteSegment

Lineage = Sequence[tuple[int, int]]
"""The log's (epoch, start offset) pairs, oldest first: what `storage.epochs.LeaderEpochs.entries` has."""

_EPOCH: Final = itemgetter(0)
_START: Final = itemgetter(1)


def with_records(epochs: Epochs) -> Epochs:
    """The epochs that have records: an epoch that starts where the next one does has none."""
    return tuple(
        entry
        for position, entry in enumerate(epochs)
        if position + 1 == len(epochs) or epochs[position + 1][1] != entry[1]
    )


def is_within(segment: RemoteSegment, log_end_offset: int, lineage: Lineage) -> bool:
    """Kafka's isRemoteSegmentWithinLeaderEpochs.

    The segment's last epoch is one of the lineage's; epochs before the lineage's first are passed over (an overlapping
    segment whose older part is gone); the first that is left may start late, or anywhere if it is the lineage's first;
    those between start exactly where the lineage says; and the segment ends before the next epoch and the log do.
    """
    if not lineage or segment.end_offset >= log_end_offset:
        return False
    mine = [entry for entry in with_records(segment.epochs) if entry[0] >= lineage[0][0]]
    if not mine:
        return False
    for position, (epoch, start) in enumerate(mine):
        slot = bisect_left(lineage, epoch, key=_EPOCH)
        if slot == len(lineage) or lineage[slot][0] != epoch:
            return False
        if position == 0 and slot > 0 and start < lineage[slot][1]:
            return False
        after = lineage[slot + 1] if slot + 1 < len(lineage) else None
        if position + 1 < len(mine):
            if after != mine[position + 1]:
                return False
        elif after is not None and segment.end_offset >= after[1]:
            return False
    return True


def epoch_of(offset: int, lineage: Lineage) -> int | None:
    """The epoch that wrote an offset of this log."""
    slot = bisect_right(lineage, offset, key=_START) - 1
    return lineage[slot][0] if slot >= 0 else None


def shared_end(segment: RemoteSegment, offset: int, lineage: Lineage) -> int:
    """The last offset up to which a segment that has `offset` in this log's epoch is this log's history.

    After an unclean election a segment may go on with records that this log never had: a read stops before them, and
    goes on in the segment that the next epoch's leader copied.
    """
    epochs = with_records(segment.epochs)
    slots = [slot for slot, (_, start) in enumerate(lineage) if start <= offset]
    for slot in range(slots[-1] if slots else 0, len(lineage)):
        mine = next(((epoch, start) for epoch, start in epochs if epoch > lineage[slot][0]), None)
        after = lineage[slot + 1] if slot + 1 < len(lineage) else None
        if mine != after or mine is None:
            ends = [entry[1] - 1 for entry in (mine, after) if entry is not None]
            return min([segment.end_offset, *ends])
    return segment.end_offset
