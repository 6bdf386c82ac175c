"""What a follower makes of its leader's answers: where to truncate, where to fetch from, what to do on errors."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, Protocol

from kavka.model.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetMovedToTieredStorage,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

UNKNOWN: Final = -1


class Epochs(Protocol):
    """The leader epochs of a log."""

    @property
    def latest(self) -> int:
        """The newest epoch, -1 if there is none."""

    def end_offset_for(self, epoch: int, log_end_offset: int, /) -> tuple[int, int]:
        """The largest epoch at or below this one, and where the next one began; (-1, -1) if none is known."""


def start_offset(epochs: Epochs, end_offset: int, high_watermark: int) -> int:
    """Where a new follower's log must end: only with epochs can the leader tell whether what is uncommitted fits."""
    return end_offset if epochs.latest >= 0 else high_watermark


def truncation_offset(diverging: tuple[int, int], epochs: Epochs, end_offset: int) -> int:
    """Where to truncate a log that diverges from its leader's; `diverging` is the leader's epoch and its end offset.

    If the epoch is not known here, everything after the last epoch before it goes, and the leader is asked again.
    """
    leader_epoch, leader_end = diverging
    epoch, end = epochs.end_offset_for(leader_epoch, end_offset)
    if epoch < 0:
        return min(leader_end, end_offset)
    if epoch != leader_epoch:
        return min(end, end_offset)
    return min(leader_end, end, end_offset)


def committed_offset(known: int, leader_high_watermark: int, end_offset: int) -> int:
    """A follower's high watermark after an answer: never back, never beyond its own log."""
    return max(known, min(leader_high_watermark, end_offset))


class Reset(NamedTuple):
    """How to go on when our log end offset is out of the leader's range."""

    offset: int
    whole: bool
    """Whether to truncate fully and start at the offset; else the log is truncated to it."""


def reset(end_offset: int, leader_start: int, leader_end: int) -> Reset:
    """Where to go on with a leader whose log ends before ours (after an unclean election) or starts after ours ends."""
    if leader_end < end_offset:
        return Reset(leader_end, whole=False)
    if leader_start > end_offset:
        return Reset(leader_start, whole=True)
    return Reset(end_offset, whole=False)


class Reaction(Enum):
    """What to do about a partition that the leader could not serve."""

    SOON = "one of us has yet to hear of a change: ask again soon"
    LATER = "ask again later"
    WAIT = "our epoch is over: wait for the metadata"
    RESET = "ask for the leader's offsets, and reset"
    RESET_LOCAL = "ask for what the leader has on its disk, and begin there"


_REACTIONS: Final = {
    NotLeaderOrFollower.code: Reaction.SOON,
    UnknownLeaderEpoch.code: Reaction.SOON,
    UnknownTopicId.code: Reaction.SOON,
    UnknownTopicOrPartition.code: Reaction.SOON,
    FencedLeaderEpoch.code: Reaction.WAIT,
    OffsetOutOfRange.code: Reaction.RESET,
    OffsetMovedToTieredStorage.code: Reaction.RESET_LOCAL,
}


def reaction(error_code: int) -> Reaction:
    """What to do about an error."""
    return _REACTIONS.get(error_code, Reaction.LATER)


def backoff_ms(reaction: Reaction, attempt: int, first_ms: int, max_ms: int) -> int:
    """How long to leave a partition alone after so many failed attempts in a row."""
    if reaction is Reaction.SOON:
        return int(min(first_ms << min(attempt - 1, 20), max_ms))
    return max_ms
