"""What a kind of group says about its offsets: for whom they may be committed, and how they age."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kavka.coordinator.offsets.state import CommittedOffset
from kavka.model.types import Uuid

CheckPartition = Callable[[str, Uuid, int], None]
"""Raises unless a member may commit for a partition."""


class Ageing(NamedTuple):
    """How the offsets of a group age: from when, and which topics do not because they are read."""

    since: Callable[[CommittedOffset], int]
    is_subscribed: Callable[[str], bool]


def commit_time(found: CommittedOffset) -> int:
    """Offsets that age from when they were committed."""
    return found.commit_timestamp_ms
