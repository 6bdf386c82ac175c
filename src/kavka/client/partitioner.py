"""Which partition a record goes to: by the hash of its key as Java clients do, or sticky without a key."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from kavka.model.murmur2 import murmur2


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition that every Kafka client with the default partitioner chooses for the key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


class StickyPartitioner:
    """Keeps records without a key on one partition until a batch's worth is there, then moves on (KIP-794)."""

    __slots__ = ("_batch_bytes", "_choose", "_current")

    def __init__(self, batch_bytes: int, choose: Callable[[Sequence[int]], int] = random.choice) -> None:
        self._batch_bytes = max(1, batch_bytes)
        self._choose = choose
        self._current: dict[str, tuple[int, int]] = {}

    def partition(self, topic: str, size: int, available: Sequence[int]) -> int:
        """The partition for a record of `size` bytes, out of those that have a leader."""
        chosen, produced = self._current.get(topic, (-1, 0))
        if chosen < 0 or produced >= self._batch_bytes or chosen not in available:
            chosen, produced = self._choose(available), 0
        self._current[topic] = (chosen, produced + size)
        return chosen
