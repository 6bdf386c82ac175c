"""The simple assignor of share groups: every partition to as many members as it takes for all members to have some.

Among members that want the same topics all partitions are shared out at once; else each topic by itself, among those
who want it. A partition has as many members as there are members per partition, rounded up; the members have equally
many partitions but for one; and members keep what they have as far as that goes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kavka.coordinator.assignors.spec import MemberSpec, Partitions
from kavka.model.types import Uuid

Place = tuple[Uuid, int]


def assign_simply(
    members: Mapping[str, MemberSpec], assignable: Mapping[Uuid, Collection[int]]
) -> dict[str, Partitions]:
    """Share out the partitions that can be assigned, which may be none of a topic."""
    order = sorted(members)
    held: dict[str, set[Place]] = {id_: set() for id_ in order}
    for topics, wanting in _shares(members, order):
        places = [(topic, each) for topic in sorted(topics) for each in sorted(assignable.get(topic, ()))]
        if places:
            for id_, mine in _Share(members, wanting, places).run().items():
                held[id_] |= mine
    return {id_: _by_topic(held[id_]) for id_ in members}


def _shares(members: Mapping[str, MemberSpec], order: list[str]) -> list[tuple[set[Uuid], list[str]]]:
    """Topics that are shared out together, and among whom."""
    wanted = [frozenset(members[id_].topics) for id_ in order]
    if len(set(wanted)) <= 1:
        return [(set(wanted[0]), order)] if wanted else []
    topics = sorted(set().union(*wanted))
    return [({topic}, [id_ for id_ in order if topic in members[id_].topics]) for topic in topics]


class _Share:
    """Partitions, and the members that share them."""

    def __init__(self, members: Mapping[str, MemberSpec], order: list[str], places: list[Place]) -> None:
        self._order = order
        self._sharing = -(-len(order) // len(places))
        known = set(places)
        self._holders: dict[Place, set[str]] = {place: set() for place in places}
        self._held: dict[str, set[Place]] = {}
        for id_ in order:
            mine = {(topic, each) for topic, found in members[id_].assigned.items() for each in found}
            self._held[id_] = mine & known
            for place in self._held[id_]:
                self._holders[place].add(id_)
        self._due = self._dues(self._sharing * len(places))

    def _dues(self, total: int) -> dict[str, int]:
        """How many each member is due; of those that are due one more, who has so many already comes first."""
        count = len(self._order)
        even, more = divmod(total, count)
        spread = {id_: -(-total * (at + 1) // count) + (-total * at // count) for at, id_ in enumerate(self._order)}
        favoured = sorted(self._order, key=lambda id_: (len(self._held[id_]) <= even, spread[id_] == even))[:more]
        return dict.fromkeys(self._order, even) | dict.fromkeys(favoured, even + 1)

    def run(self) -> dict[str, set[Place]]:
        """What each member gets."""
        for id_ in self._order:
            while len(self._held[id_]) > self._due[id_]:
                self._take(id_, max(self._held[id_], key=lambda place: (len(self._holders[place]), place)))
        for place, holders in self._holders.items():
            while len(holders) > self._sharing:
                self._take(max(holders, key=lambda id_: (len(self._held[id_]), id_)), place)
        unfilled = [id_ for id_ in self._order if len(self._held[id_]) < self._due[id_]]
        # Who has nobody comes first, and who lacks most is asked first: then nobody is left out.
        for place in sorted(self._holders, key=lambda place: (len(self._holders[place]), place)):
            holders = self._holders[place]
            able = sorted(
                (id_ for id_ in unfilled if id_ not in holders),
                key=lambda id_: (len(self._held[id_]) - self._due[id_], id_),
            )
            for id_ in able[: self._sharing - len(holders)]:
                self._held[id_].add(place)
                holders.add(id_)
            unfilled = [id_ for id_ in unfilled if len(self._held[id_]) < self._due[id_]]
        self._fill()
        return self._held

    def _fill(self) -> None:
        """Who was due may hold the rest already: then another takes it who has as few."""
        for place, holders in self._holders.items():
            while len(holders) < self._sharing:
                id_ = min((id_ for id_ in self._order if id_ not in holders), key=lambda id_: len(self._held[id_]))
                self._held[id_].add(place)
                holders.add(id_)

    def _take(self, id_: str, place: Place) -> None:
        self._held[id_].remove(place)
        self._holders[place].remove(id_)


def _by_topic(places: set[Place]) -> Partitions:
    found: dict[Uuid, set[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, set()).add(partition)
    return {topic: frozenset(partitions) for topic, partitions in sorted(found.items())}
