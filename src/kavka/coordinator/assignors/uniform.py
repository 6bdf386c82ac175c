"""The uniform assignor: as many partitions for everyone as can be, and as few moves as that allows.

When all members want the same topics, a member's share is a matter of counting. When they do not, partitions go to
the subscriber that has least, and then move from those that have most to those that have least, topic by topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from heapq import heapify, heappop, heappush
from typing import Final

from kavka.coordinator.assignors.spec import MemberSpec, Partitions
from kavka.model.types import Uuid

_MAX_ROUNDS: Final = 16
"""How often all topics are looked at: overlapping subscriptions come closer to balance with every round, slowly."""

Held = dict[Uuid, set[int]]


def assign_uniformly(members: Mapping[str, MemberSpec], counts: Mapping[Uuid, int]) -> dict[str, Partitions]:
    """Share the partitions out evenly, leaving with each member as much as possible of what it has."""
    if not members:
        return {}
    order = sorted(members)
    wanted = members[order[0]].topics
    alike = all(members[id_].topics == wanted for id_ in order)
    held = _kept(members, order, counts)
    if alike:
        _share_alike(held, order, wanted, counts)
    else:
        _Balance(members, order, counts, held).run()
    return {id_: {topic_id: frozenset(found) for topic_id, found in held[id_].items() if found} for id_ in members}


def _kept(members: Mapping[str, MemberSpec], order: list[str], counts: Mapping[Uuid, int]) -> dict[str, Held]:
    """What each member has of the topics that it still wants; of two that claim a partition the first has it."""
    taken: dict[Uuid, set[int]] = {}
    held: dict[str, Held] = {}
    for id_ in order:
        member = members[id_]
        mine: Held = {}
        for topic_id, partitions in member.assigned.items():
            if topic_id in member.topics:
                gone = taken.setdefault(topic_id, set())
                mine[topic_id] = {each for each in partitions if each < counts[topic_id] and each not in gone}
                gone |= mine[topic_id]
        held[id_] = mine
    return held


def _unassigned(held: dict[str, Held], topic_id: Uuid, count: int) -> list[int]:
    taken: set[int] = set()
    for mine in held.values():
        taken |= mine.get(topic_id, set())
    return [partition for partition in range(count) if partition not in taken]


# -- the same topics for all --------------------------------------------------------------------


def _share_alike(held: dict[str, Held], order: list[str], topics: Set[Uuid], counts: Mapping[Uuid, int]) -> None:
    wanted = sorted(topics)
    share, extra = divmod(sum(counts[topic_id] for topic_id in wanted), len(order))
    sizes = {id_: sum(map(len, held[id_].values())) for id_ in order}
    # Those who have more than a plain share keep one more than others, while there is one more to have.
    quota: dict[str, int] = {}
    for id_ in sorted(order, key=lambda id_: (-sizes[id_], id_)):
        quota[id_] = share + (extra > 0)
        extra -= extra > 0
    for id_ in order:
        _shrink(held[id_], sizes[id_] - quota[id_])
    free = [(topic_id, each) for topic_id in wanted for each in _unassigned(held, topic_id, counts[topic_id])]
    remaining = iter(free)
    for id_ in order:
        for _ in range(quota[id_] - sum(map(len, held[id_].values()))):
            topic_id, partition = next(remaining)
            held[id_].setdefault(topic_id, set()).add(partition)


def _shrink(mine: Held, surplus: int) -> None:
    """Take partitions away, always from the topic that the member has most of."""
    for _ in range(surplus):
        topic_id = max(mine, key=lambda id_: (len(mine[id_]), id_))
        mine[topic_id].remove(max(mine[topic_id]))


# -- different topics -------------------------------------------------------------------------------


class _Balance:
    """Loads of members who want different topics."""

    def __init__(
        self, members: Mapping[str, MemberSpec], order: list[str], counts: Mapping[Uuid, int], held: dict[str, Held]
    ) -> None:
        self._counts = counts
        self._held = held
        self._load = {id_: sum(map(len, held[id_].values())) for id_ in order}
        subscribers: dict[Uuid, list[str]] = {}
        for id_ in order:
            for topic_id in members[id_].topics:
                subscribers.setdefault(topic_id, []).append(id_)
        self._subscribers = subscribers
        # Where a subscriber must take most comes first: the rest can be evened out afterwards.
        self._topics = sorted(subscribers, key=lambda id_: (-counts[id_] / len(subscribers[id_]), id_))

    def run(self) -> None:
        """Give out what nobody has, then even out."""
        for topic_id in self._topics:
            self._give_out(topic_id)
        shared = [topic_id for topic_id in self._topics if len(self._subscribers[topic_id]) > 1]
        for _ in range(_MAX_ROUNDS):
            if not sum([self._even_out(topic_id) for topic_id in shared]):
                return

    def _give_out(self, topic_id: Uuid) -> None:
        free = _unassigned(self._held, topic_id, self._counts[topic_id])
        if not free:
            return
        least = [(self._load[id_], id_) for id_ in self._subscribers[topic_id]]
        heapify(least)
        for partition in free:
            load, id_ = heappop(least)
            self._held[id_].setdefault(topic_id, set()).add(partition)
            self._load[id_] = load + 1
            heappush(least, (load + 1, id_))

    def _even_out(self, topic_id: Uuid) -> int:
        """Move partitions of a topic from the most to the least loaded while that helps; how many were moved."""
        load = self._load
        subscribers = self._subscribers[topic_id]
        least = [(load[id_], id_) for id_ in subscribers]
        most = [(-load[id_], id_) for id_ in subscribers if self._held[id_].get(topic_id)]
        heapify(least)
        heapify(most)
        moved = 0
        while most:
            giver, taker = most[0][1], least[0][1]
            if -most[0][0] != load[giver]:  # loads in the heaps are stale once their members gave or took
                heappop(most)
                if self._held[giver].get(topic_id):
                    heappush(most, (-load[giver], giver))
                continue
            if least[0][0] != load[taker]:
                heappop(least)
                heappush(least, (load[taker], taker))
                continue
            if load[giver] - load[taker] <= 1:
                break
            partition = max(self._held[giver][topic_id])
            self._held[giver][topic_id].remove(partition)
            self._held[taker].setdefault(topic_id, set()).add(partition)
            load[giver] -= 1
            load[taker] += 1
            moved += 1
            if not self._held[giver][topic_id]:
                heappop(most)
        return moved
