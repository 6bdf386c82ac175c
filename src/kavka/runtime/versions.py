"""What the version of a request says about transactions (KIP-890)."""

from __future__ import annotations

from typing import Final, NamedTuple

ABORTABLE_SINCE: Final = 11
ADDS_SINCE: Final = 12
"""The versions of Produce from which clients know TRANSACTION_ABORTABLE, and leave adding partitions to the broker."""
OFFSETS_ABORTABLE_SINCE: Final = 4
OFFSETS_ADD_SINCE: Final = 5
"""The same for TxnOffsetCommit."""


class Knows(NamedTuple):
    """What the version of a request says about its client."""

    abortable: bool
    adds: bool


def knows_produce(version: int) -> Knows:
    """What a producer of a version of Produce knows."""
    return Knows(version >= ABORTABLE_SINCE, version >= ADDS_SINCE)


def knows_offsets(version: int) -> Knows:
    """What a producer of a version of TxnOffsetCommit knows."""
    return Knows(version >= OFFSETS_ABORTABLE_SINCE, version >= OFFSETS_ADD_SINCE)
