"""Where the replicas of a cluster should lie: spread evenly by size, load and number, over racks, with few moves.

Pure: what there is goes in, and what would be moved comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kavka.cli.output import CommandError
from kavka.cli.placement import Moves
from kavka.client import TopicPartition

TOLERANCE: Final = 0.1
"""How far a broker may be from the average and still count as balanced."""

Racks = Mapping[int, str | None]
"""The brokers that may hold replicas, and the rack of each."""


@dataclass(frozen=True, slots=True)
class Held:
    """A partition: who has it, the preferred leader first, how large it is and how fast it grows."""

    tp: TopicPartition
    replicas: tuple[int, ...]
    size_bytes: int = 0
    bytes_per_second: float = 0.0


class Balance:
    """A plan in the making."""

    def __init__(self, partitions: Iterable[Held], racks: Racks) -> None:
        self._racks = racks
        self._partitions = {held.tp: held for held in partitions}
        self.replicas = {tp: list(held.replicas) for tp, held in self._partitions.items()}
        held = self._partitions.values()
        copies = {tp: len(one.replicas) for tp, one in self._partitions.items()}
        size = sum(one.size_bytes * copies[one.tp] for one in held) or 1
        load = sum(one.bytes_per_second * copies[one.tp] for one in held) or 1
        count = sum(copies.values()) or 1
        self.weights = {
            one.tp: one.size_bytes / size + one.bytes_per_second / load + 1 / count for one in self._partitions.values()
        }
        self.loads: dict[int, float] = dict.fromkeys(racks, 0.0)
        for tp, brokers in self.replicas.items():
            for broker in brokers:
                if broker in self.loads:
                    self.loads[broker] += self.weights[tp]

    @property
    def moves(self) -> Moves:
        """The partitions whose replicas, or their order, changed."""
        return {
            tp: (held.replicas, self.replicas[tp])
            for tp, held in self._partitions.items()
            if list(held.replicas) != self.replicas[tp]
        }

    def drain(self) -> None:
        """Take every replica away from brokers that may hold none; raises CommandError if there is no room."""
        for tp, brokers in sorted(self.replicas.items(), key=lambda item: -self.weights[item[0]]):
            for position, broker in enumerate(brokers):
                if broker not in self._racks:
                    self._replace(tp, position, self._best(tp, position))

    def _best(self, tp: TopicPartition, position: int) -> int:
        brokers = self.replicas[tp]
        free = [broker for broker in self._racks if broker not in brokers]
        if not free:
            raise CommandError(f"{tp} has {len(brokers)} replicas, which {len(self._racks)} nodes cannot hold")
        return min(free, key=lambda broker: (self._crowding(tp, position, broker), self.loads[broker], broker))

    def _crowding(self, tp: TopicPartition, position: int, broker: int) -> int:
        """How many of a partition's other replicas would be in the same rack; 0 where brokers tell none."""
        rack = self._racks[broker]
        others = (one for index, one in enumerate(self.replicas[tp]) if index != position)
        return 0 if rack is None else sum(self._racks.get(other) == rack for other in others)

    def _replace(self, tp: TopicPartition, position: int, broker: int) -> None:
        before, self.replicas[tp][position] = self.replicas[tp][position], broker
        if before in self.loads:
            self.loads[before] -= self.weights[tp]
        self.loads[broker] += self.weights[tp]

    @property
    def unevenness(self) -> float:
        """How far the broker farthest from the average is away from it, as a share of that."""
        average = sum(self.loads.values()) / max(len(self.loads), 1)
        return max((abs(load - average) for load in self.loads.values()), default=0.0) / (average or 1)

    def level(self) -> None:
        """Move replicas from the fullest brokers to the emptiest until they are about alike, or no move helps."""
        for _ in range(10 * len(self.weights)):
            fullest = sorted(self.loads, key=lambda broker: -self.loads[broker])
            even = self.unevenness <= TOLERANCE / 2
            if even or not any(self._relieve(source, target) for source in fullest for target in reversed(fullest)):
                return

    def _relieve(self, source: int, target: int) -> bool:
        """Move the replica from one broker to another that brings the two closest together; whether there is one."""
        gap = self.loads[source] - self.loads[target]
        best: tuple[float, TopicPartition, int] | None = None
        for tp, brokers in self.replicas.items():
            weight = self.weights[tp]
            if source not in brokers or target in brokers or not 0 < weight < gap * 0.999:
                continue
            position = brokers.index(source)
            if self._crowding(tp, position, target) > self._crowding(tp, position, source):
                continue
            found = abs(gap - 2 * weight), tp, position
            best = found if best is None or found < best else best
        if best is None or best[0] >= gap:
            return False
        self._replace(best[1], best[2], target)
        return True

    def spread_leaders(self) -> None:
        """Let every broker be the preferred leader of about as many partitions."""
        led = Counter(brokers[0] for brokers in self.replicas.values() if brokers)
        changed = True
        while changed:
            changed = False
            for brokers in self.replicas.values():
                fewest = min(brokers, key=lambda broker: led[broker], default=None)
                if fewest is not None and led[brokers[0]] - led[fewest] > 1:
                    led[brokers[0]] -= 1
                    led[fewest] += 1
                    brokers.remove(fewest)
                    brokers.insert(0, fewest)
                    changed = True


def balanced(partitions: Sequence[Held], racks: Racks, leaving: Collection[int] = ()) -> Balance:
    """A plan in which the brokers that leave hold nothing, and the others about the same; raises CommandError."""
    balance = Balance(partitions, {broker: rack for broker, rack in racks.items() if broker not in leaving})
    balance.drain()
    balance.level()
    balance.spread_leaders()
    return balance
