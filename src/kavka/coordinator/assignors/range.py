"""The range assignor: of each topic, every subscriber gets one run of neighbouring partitions.

Topics with as many partitions and the same subscribers are cut alike, so that a member has the same partitions of
each: what joins of topics need. Static members come first, in the order of their instance ids, which outlive restarts.
"""

from __future__ import annotations

from collections.abc import Mapping

from kavka.coordinator.assignors.spec import MemberSpec, Partitions
from kavka.model.types import Uuid


def assign_ranges(members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]) -> dict[str, Partitions]:
    """Cut each topic into runs, in the order of the members; the first ones get what is left over."""
    order = sorted(members, key=lambda id_: _rank(id_, members[id_]))
    subscribers: dict[Uuid, list[str]] = {}
    for id_ in order:
        for topic_id in members[id_].topics:
            subscribers.setdefault(topic_id, []).append(id_)
    assigned: dict[str, dict[Uuid, frozenset[int]]] = {id_: {} for id_ in members}
    for topic_id, ids in subscribers.items():
        size, longer = divmod(counts[topic_id], len(ids))
        start = 0
        for number, id_ in enumerate(ids):
            stop = start + size + (number < longer)
            if start < stop:
                assigned[id_][topic_id] = frozenset(range(start, stop))
            start = stop
    return dict(assigned)


def _rank(id_: str, member: MemberSpec) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or id_
