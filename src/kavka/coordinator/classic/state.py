"""What the log remembers of a classic group: its last record."""

from __future__ import annotations

from dataclasses import dataclass

from kavka.coordinator.classic.records import GroupMetadataKey, GroupMetadataValue
from kavka.coordinator.record import Record


@dataclass(frozen=True, slots=True)
class ClassicGroup:
    """A classic group; without a record it is a simple one, which only holds offsets."""

    metadata: GroupMetadataValue | None = None


SIMPLE = ClassicGroup()

VALUE_VERSION = 3
"""The version that Kafka writes, so that older brokers can still read it."""


def group_entry(group_id: str, value: GroupMetadataValue) -> Record:
    """All of a group."""
    return Record(GroupMetadataKey(group=group_id), value, VALUE_VERSION)


def without_group(group_id: str) -> Record:
    """A group is gone."""
    return Record(GroupMetadataKey(group=group_id))
