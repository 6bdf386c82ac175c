"""A decision about one group that is made in several steps, each of which sees what those before it did."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from kavka.coordinator.record import Record
from kavka.coordinator.requests import Draft


class Changing(Protocol):
    """A group with epochs and targets, which can be tried out."""

    epoch: int
    assignment_epoch: int
    assignment_timestamp_ms: int
    targets: dict[str, Any]

    def copy(self: C) -> C:
        """Another one that can be changed without changing this one."""

    def apply(self, key: Any, value: Any) -> None:
        """Take in a record."""


C = TypeVar("C", bound="Changing")
T = TypeVar("T")


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

    @property
    def is_assigned(self) -> bool:
        """Whether there is a target assignment of this epoch."""
        return self.group.assignment_epoch >= self.group.epoch

    def is_too_early(self, interval_ms: int) -> bool:
        """Whether the last target assignment is too young for another."""
        last_ms = self.group.assignment_timestamp_ms
        return bool(last_ms and interval_ms) and self.now_ms < last_ms + interval_ms

    def put_targets(self, found: Mapping[str, T], entry: Callable[[str, str, T], Record]) -> None:
        """Write what members shall have, of those for whom it is something else than before."""
        before = self.group.targets
        self.write([entry(self.group_id, id_, target) for id_, target in found.items() if before.get(id_) != target])
