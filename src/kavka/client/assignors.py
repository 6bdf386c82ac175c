"""The client-side assignors of classic groups. Pure: members and topics in, assignments out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from kavka.model.types import TopicPartition


class Subscriber(NamedTuple):
    """A member's subscription, and the partitions it owns."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1


Subscribers = Mapping[str, Subscriber]
"""Members by id."""
Counts = Mapping[str, int]
"""How many partitions each topic has; topics that are not there are left out."""
Assignment = dict[str, set[TopicPartition]]


def assign_range(members: Subscribers, counts: Counts) -> Assignment:
    """Of each topic a run of neighbouring partitions to each member, in the order of their ids."""
    found: Assignment = {id_: set() for id_ in members}
    for topic, count in counts.items():
        wanting = sorted(id_ for id_, member in members.items() if topic in member.topics)
        first = 0
        for number, id_ in enumerate(wanting):
            each = count // len(wanting) + (number < count % len(wanting))
            found[id_] |= {TopicPartition(topic, index) for index in range(first, first + each)}
            first += each
    return found


def assign_round_robin(members: Subscribers, counts: Counts) -> Assignment:
    """All partitions in turn to the members that want their topic, in the order of their ids."""
    found: Assignment = {id_: set() for id_ in members}
    order = sorted(members)
    number = 0
    for tp in _partitions(counts):
        wanting = [id_ for id_ in order if tp.topic in members[id_].topics]
        if not wanting:
            continue
        while tp.topic not in members[order[number % len(order)]].topics:
            number += 1
        found[order[number % len(order)]].add(tp)
        number += 1
    return found


def assign_sticky(members: Subscribers, counts: Counts) -> Assignment:
    """As evenly as can be, moving as little as can be."""
    found = _kept(members, counts)
    taken = {tp for owned in found.values() for tp in owned}
    order = sorted(members)
    for tp in _partitions(counts):
        wanting = [id_ for id_ in order if tp.topic in members[id_].topics]
        if tp not in taken and wanting:
            found[min(wanting, key=lambda id_: len(found[id_]))].add(tp)
    while (move := _worthwhile(found, members, order)) is not None:
        source, target, tp = move
        found[source].remove(tp)
        found[target].add(tp)
    return found


def assign_cooperative(members: Subscribers, counts: Counts) -> Assignment:
    """As the sticky one, but a partition that moves is assigned to nobody until its owner has revoked it."""
    found = assign_sticky(members, counts)
    owners = {tp: id_ for id_, owned in _kept(members, counts).items() for tp in owned}
    return {id_: {tp for tp in given if owners.get(tp, id_) == id_} for id_, given in found.items()}


ASSIGNORS: Final[Mapping[str, Callable[[Subscribers, Counts], Assignment]]] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    "sticky": assign_sticky,
    "cooperative-sticky": assign_cooperative,
}
"""By the names that all clients know them by."""
COOPERATIVE: Final = frozenset({"cooperative-sticky"})
"""Those whose members keep their partitions while they join."""


def _partitions(counts: Counts) -> Iterable[TopicPartition]:
    return (TopicPartition(topic, index) for topic in sorted(counts) for index in range(counts[topic]))


def _kept(members: Subscribers, counts: Counts) -> Assignment:
    """What members had and may keep; of two who claim one partition the one of the later generation."""
    claims: dict[TopicPartition, tuple[int, str]] = {}
    for id_, member in members.items():
        for tp in member.owned:
            if tp.topic in member.topics and tp.partition < counts.get(tp.topic, 0):
                claims[tp] = max(claims.get(tp, (-2, "")), (member.generation, id_))
    found: Assignment = {id_: set() for id_ in members}
    for tp, (_, id_) in claims.items():
        found[id_].add(tp)
    return found


def _worthwhile(found: Assignment, members: Subscribers, order: list[str]) -> tuple[str, str, TopicPartition] | None:
    """A partition whose move to a member with at least two fewer makes things more even."""
    by_load = sorted(order, key=lambda id_: len(found[id_]))
    for source in reversed(by_load):
        for target in by_load:
            if len(found[source]) - len(found[target]) < 2:
                break
            movable = sorted(tp for tp in found[source] if tp.topic in members[target].topics)
            if movable:
                return source, target, movable[-1]
    return None
