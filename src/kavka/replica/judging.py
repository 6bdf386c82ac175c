"""What takes long to judge in a Produce request, judged before anything of it is appended: in parts, if it is much."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from kavka.kernels.layout import ATTRIBUTES_LOW_BYTE, CODEC_MASK, Topic
from kavka.model.errors import KafkaError
from kavka.records.framing import KnownSchemas, Refused, SchemaRules, Unknown
from kavka.records.validate import Validation
from kavka.replica.manager import ReplicaManager

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


class Schemas(Protocol):
    """Who knows which schemas are registered."""

    def known(self, topic: str, rules: SchemaRules, /) -> KnownSchemas:
        """What is known of those of a topic by now."""

    def ask(self, unknown: Unknown, done: Callable[[Refused | KafkaError], None], /) -> None:
        """Find out about more, and call back later."""


class Judging:
    """What is found about batches, by their places in a request."""

    __slots__ = ("_left", "found")

    def __init__(self, found: dict[RequestIndex, Validation]) -> None:
        self.found = found
        self._left = list(found.values())

    @property
    def unknown(self) -> Unknown | None:
        """The schemas that have to be known before it can go on."""
        return self._left[-1].unknown if self._left else None

    def told(self, found: Refused | KafkaError) -> None:
        """Go on with what was found about them."""
        self._left[-1].told(found)

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


def judge(
    sent: Sent,
    replicas: ReplicaManager,
    now_ms: int,
    version: int,
    large: bool,
    schemas: Callable[[], Schemas | None] | None = None,
) -> Judging | None:
    """What there is to judge, of partitions that this node leads, before anything is appended; None if there is not."""
    found: dict[RequestIndex, Validation] | None = None
    every = large or replicas.checks_schemas
    for number, (topic, partitions) in enumerate(sent):
        for row, (index, data) in enumerate(partitions):
            if data is None or len(data) <= ATTRIBUTES_LOW_BYTE:
                continue
            if not every and not data[ATTRIBUTES_LOW_BYTE] & CODEC_MASK:
                continue
            partition = replicas.held(topic, index)
            if partition is None or not partition.leads:
                continue
            rules, known = partition.rules.produce, None
            if rules.schemas is not None:
                registry = schemas() if schemas is not None else None
                if registry is None:
                    continue  # it is refused when it is appended
                known = registry.known(partition.topic_partition.topic, rules.schemas)
            elif not large and not data[ATTRIBUTES_LOW_BYTE] & CODEC_MASK:
                continue
            found = found or {}
            found[number, row] = Validation(data, rules, now_ms, version, known)
    return Judging(found) if found else None
