"""What an assignor is given and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import NamedTuple

from kavka.model.types import Uuid

Partitions = Mapping[Uuid, frozenset[int]]
"""Partitions by topic; a topic without any is not there."""


class MemberSpec(NamedTuple):
    """A member as assignors see it: the topics it wants (all of them are there), and what it shall have so far."""

    topics: Set[Uuid]
    assigned: Partitions
    instance_id: str | None = None


Assign = Callable[[Mapping[str, MemberSpec], Mapping[Uuid, int]], dict[str, Partitions]]
"""From members by id and partition counts by topic to the partitions of every member."""
