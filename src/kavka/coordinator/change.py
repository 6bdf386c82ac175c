"""A decision about one group that is made in several steps, each of which sees what those before it did."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from kavka.coordinator.record import Record
from kavka.coordinator.requests import Draft


class Changing(Protocol):
    """A group that can be tried out."""

    def copy(self: C) -> C:
        """Another one that can be changed without changing this one."""

    def apply(self, key: Any, value: Any) -> None:
        """Take in a record."""


C = TypeVar("C", bound="Changing")


class GroupDraft(Draft, Generic[C]):
    """The draft of a decision, and the group as it would leave it: records are applied to a copy as they are made."""

    __slots__ = ("_is_copy", "group", "group_id", "now_ms")

    def __init__(self, group_id: str, group: C, now_ms: int, *, new: bool) -> None:
        """A `new` group is nobody else's and needs no copy."""
        super().__init__()
        self._is_copy = new
        self.group = group
        self.group_id = group_id
        self.now_ms = now_ms

    def write(self, records: Iterable[Record]) -> None:
        """Add records, and apply them."""
        for record in records:
            if not self._is_copy:
                self.group = self.group.copy()
                self._is_copy = True
            self.group.apply(record.key, record.value)
            self.records.append(record)
