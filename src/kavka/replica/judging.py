"""What takes long to judge in a Produce request, judged before anything of it is appended: in parts, if it is much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.kernels.layout import ATTRIBUTES_LOW_BYTE, Topic
from kavka.records.validate import Validation
from kavka.replica.manager import ReplicaManager

CODEC: Final = 0x07
AT_ONCE_BYTES: Final = 2 << 20
"""So much of a request is decompressed when it comes: about 10 ms of the slowest codec."""
PART_BYTES: Final = 1 << 20
"""So much before others have their turn."""
LARGE_BYTES: Final = 4 << 20
"""In a request of this size, what is not compressed counts as well: it may be 600,000 records, or 5 ms."""

Sent = Sequence[tuple[Topic, Sequence[tuple[int, memoryview | None]]]]
"""By topic: partitions and their records."""
RequestIndex = tuple[int, int]
"""Number of a topic and of its partition in a request."""


class Judging:
    """What is found about batches, by their places in a request."""

    __slots__ = ("_left", "found")

    def __init__(self, found: dict[RequestIndex, Validation]) -> None:
        self.found = found
        self._left = list(found.values())

    def run(self, budget: int) -> bool:
        """Go on for about so many decompressed bytes; whether all is known."""
        while self._left:
            budget = self._left[-1].run(budget)
            if not self._left[-1].done:
                return False
            self._left.pop()
            if budget <= 0 and self._left:
                return False
        return True


def judge(sent: Sent, replicas: ReplicaManager, now_ms: int, version: int, large: bool) -> Judging | None:
    """What there is to judge, of partitions that this node leads, before anything is appended; None if there is not."""
    found: dict[RequestIndex, Validation] | None = None
    for number, (topic, partitions) in enumerate(sent):
        for row, (index, data) in enumerate(partitions):
            if data is None or len(data) <= ATTRIBUTES_LOW_BYTE:
                continue
            if not large and not data[ATTRIBUTES_LOW_BYTE] & CODEC:
                continue
            partition = replicas.held(topic, index)
            if partition is not None and partition.leads:
                found = found or {}
                found[number, row] = Validation(data, partition.rules.produce, now_ms, version)
    return Judging(found) if found else None
