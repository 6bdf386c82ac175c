"""Where the replicas of new partitions go: striped over racks, and over the brokers of each rack.

Rules: no broker twice in a partition; the first replica on a broker that is not fenced; racks take turns, then the
brokers of a rack; brokers that are not fenced before fenced ones; the next partition starts one rack and one broker
further. Chance decides only where the first partition starts, and reshuffles once every broker has had a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from kavka.model.errors import InvalidReplicationFactor

T = TypeVar("T")

Draw = Callable[[int, int], int]
"""A whole number by chance: `draw(low, high)` is at least low and at most high."""


class UsableBroker(NamedTuple):
    """A broker that may be given replicas."""

    id: int
    rack: str | None
    fenced: bool


def place(brokers: Iterable[UsableBroker], partitions: int, replicas: int, draw: Draw) -> list[tuple[int, ...]]:
    """The replicas of each new partition, leader first; raises InvalidReplicationFactor if they cannot be placed."""
    usable = list(brokers)
    if replicas <= 0:
        raise InvalidReplicationFactor(f"replication factor {replicas} is not positive")
    if not any(not broker.fenced for broker in usable):
        raise InvalidReplicationFactor("all brokers are fenced or have only cordoned log directories")
    if replicas > len(usable):
        raise InvalidReplicationFactor(
            f"replication factor {replicas} is larger than the number of usable brokers, {len(usable)}"
        )
    if len(usable) == 1:
        return [(usable[0].id,)] * partitions
    stripes = _Stripes(usable, draw)
    return [stripes.next(replicas) for _ in range(partitions)]


class _Ring:
    """Brokers that are handed out in a circle; each round starts one further."""

    __slots__ = ("_brokers", "_given", "_round", "_start")

    def __init__(self, brokers: Iterable[int], draw: Draw) -> None:
        self._brokers = sorted(brokers)
        self._start = draw(0, len(self._brokers) - 1) if self._brokers else 0
        self._given = 0
        self._round = 0

    def next(self, round_: int) -> int | None:
        """A broker that was not given out yet in this round."""
        size = len(self._brokers)
        if not size:
            return None
        if round_ != self._round:
            self._round, self._given, self._start = round_, 0, (self._start + 1) % size
        if self._given == size:
            return None
        self._given += 1
        return self._brokers[(self._start + self._given - 1) % size]

    def shuffle(self, draw: Draw) -> None:
        """Put the brokers in another order."""
        _shuffle(self._brokers, draw)


class _Stripes:
    """The racks, taken in turn."""

    def __init__(self, brokers: list[UsableBroker], draw: Draw) -> None:
        names = sorted({broker.rack for broker in brokers}, key=lambda rack: (rack is not None, rack or ""))
        self._racks = [
            (
                _Ring((broker.id for broker in brokers if broker.rack == name and not broker.fenced), draw),
                _Ring((broker.id for broker in brokers if broker.rack == name and broker.fenced), draw),
            )
            for name in names
        ]
        self._unfenced = sum(not broker.fenced for broker in brokers)
        self._first = draw(0, len(self._racks) - 1)
        self._round = 0
        self._draw = draw

    def next(self, replicas: int) -> tuple[int, ...]:
        """The replicas of one more partition."""
        racks = self._racks
        if self._round == self._unfenced and self._unfenced > 1:
            self._reshuffle()
        at = self._first % len(racks)
        leader_rack = at
        while (leader := racks[leader_rack][0].next(self._round)) is None:
            leader_rack = (leader_rack + 1) % len(racks)
        chosen = [leader]
        passed_leader = False
        while len(chosen) < replicas:
            # The rack that gave the leader is passed over once: its turn is spent.
            if at == leader_rack and not passed_leader:
                passed_leader = True
            else:
                unfenced, fenced = racks[at]
                broker = unfenced.next(self._round)
                if broker is None:
                    broker = fenced.next(self._round)
                if broker is not None:
                    chosen.append(broker)
            at = (at + 1) % len(racks)
        self._round += 1
        self._first = (self._first + 1) % len(racks)
        return tuple(chosen)

    def _reshuffle(self) -> None:
        _shuffle(self._racks, self._draw)
        for unfenced, fenced in self._racks:
            unfenced.shuffle(self._draw)
            fenced.shuffle(self._draw)
        self._round = 0


def _shuffle(items: list[T], draw: Draw) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = draw(0, last)
        items[last], items[other] = items[other], items[last]
