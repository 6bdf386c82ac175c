"""What members of a share group saw and said, and what of it cannot be.

Kafka's rules: an acquisition is not remembered, so a new leader delivers what was acquired and not answered as if it
had never been; everything that was answered holds for good.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

Where = tuple[int, int]
"""Partition and offset."""


class Delivery(NamedTuple):
    """A record that a member got."""

    where: Where
    member: str
    deliveries: int
    at: float


class Said(NamedTuple):
    """What a member said of a record: whether that was answered as written is True, False or None for not known."""

    where: Where
    member: str
    how: str
    deliveries: int
    at: float
    """When it was answered."""
    holds: bool | None


class ShareHistory:
    """Collects events; `faults` says what of them cannot be."""

    def __init__(self, limit: int, stale_seconds: float) -> None:
        self.deliveries: list[Delivery] = []
        self.said: list[Said] = []
        self.disruptions: list[float] = []
        """When leaders may have changed."""
        self._limit = limit
        self._stale_seconds = stale_seconds

    def faults(self, produced: Iterable[Where]) -> list[str]:
        """Everything that must not have happened."""
        by_record: defaultdict[Where, list[Delivery]] = defaultdict(list)
        for one in self.deliveries:
            by_record[one.where].append(one)
        found = [f"{one} is over the limit" for one in self.deliveries if one.deliveries > self._limit]
        for where, deliveries in by_record.items():
            found += self._held_twice(where, deliveries)
            if len(deliveries) > self._limit + len(self.disruptions):
                found.append(f"{where} was delivered {len(deliveries)} times")
        found += self._after_accepting(by_record)
        found += self._never_done(by_record, produced)
        return found

    def _held_twice(self, where: Where, deliveries: list[Delivery]) -> list[str]:
        """Two members with the same count had the record at once, unless its leader had forgotten the first."""
        found = []
        first: dict[int, Delivery] = {}
        for one in sorted(deliveries, key=lambda each: each.at):
            before = first.setdefault(one.deliveries, one)
            between = (at for at in self.disruptions if before.at - self._stale_seconds <= at <= one.at)
            if before is not one and not any(between):
                found.append(f"{where} was held twice: {before} and {one}")
        return found

    def _after_accepting(self, by_record: dict[Where, list[Delivery]]) -> list[str]:
        found = []
        for said in self.said:
            if said.how == "accept" and said.holds:
                for one in by_record[said.where]:
                    later = one.at - said.at
                    if later > 0 and (one.deliveries > said.deliveries or later > self._stale_seconds):
                        found.append(f"{one} came after {said}")
        return found

    def _never_done(self, by_record: dict[Where, list[Delivery]], produced: Iterable[Where]) -> list[str]:
        """Everybody is done: each record was accepted or rejected, or delivered as often as it may be."""
        done = {said.where for said in self.said if said.how != "release" and said.holds is not False}
        spent = {where for where, some in by_record.items() if max(one.deliveries for one in some) >= self._limit}
        lost = [where for where in produced if where not in done and where not in spent]
        return [
            f"{where} was lost: {by_record[where]} {[one for one in self.said if one.where == where]}" for where in lost
        ]
