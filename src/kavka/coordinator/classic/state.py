"""What the log remembers of a classic group: its last record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kavka.coordinator.classic.records import GroupMetadataKey, GroupMetadataValue
from kavka.coordinator.record import Record


@dataclass(frozen=True, slots=True)
class ClassicGroup:
    """A classic group; without a record it is a simple one, which only holds offsets."""

    metadata: GroupMetadataValue | None = None


SIMPLE = ClassicGroup()


def replay(groups: dict[str, Any], record: Record) -> None:
    """Take in the record of a group; one that has become a group of another kind is not touched by a tombstone."""
    group_id = record.key.group
    if record.value is not None:
        groups[group_id] = ClassicGroup(record.value)
    elif isinstance(groups.get(group_id), ClassicGroup):
        del groups[group_id]


VALUE_VERSION = 3
"""The version that Kafka writes, so that older brokers can still read it."""


def group_entry(group_id: str, value: GroupMetadataValue) -> Record:
    """All of a group."""
    return Record(GroupMetadataKey(group=group_id), value, VALUE_VERSION)


def without_group(group_id: str) -> Record:
    """A group is gone."""
    return Record(GroupMetadataKey(group=group_id))
