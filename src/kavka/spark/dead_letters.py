"""Records that could not be read go to a topic of their own, as they were, with the reason in more headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.client import Pool, Producer
from kavka.model.pipelines import DEAD_LETTER_REASON
from kavka.model.types import TopicPartition

REASON: Final = DEAD_LETTER_REASON
TOPIC: Final = "kavka.topic"
PARTITION: Final = "kavka.partition"
OFFSET: Final = "kavka.offset"
PLACE: Final = (TOPIC, PARTITION, OFFSET)


class DeadLetter(NamedTuple):
    """A record that could not be read, and why."""

    topic_partition: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    reason: str
    original: Sequence[tuple[str, bytes | None]] = ()
    """The headers that the record has."""

    def headers(self) -> list[tuple[str, bytes | None]]:
        """The record's own, then where it comes from and why it is here; one that was a dead letter keeps its place."""
        topic, partition = self.topic_partition
        place: list[tuple[str, bytes | None]] = [
            (TOPIC, topic.encode()),
            (PARTITION, str(partition).encode()),
            (OFFSET, str(self.offset).encode()),
        ]
        names = [name for name, _ in self.original]
        if all(name in names for name in PLACE):
            place = [header for header in self.original if header[0] in PLACE]
        own = [header for header in self.original if header[0] not in (REASON, *PLACE)]
        return [*own, (REASON, self.reason.encode()), *place]


async def send(pool: Pool, topic: str, letters: Sequence[DeadLetter]) -> None:
    """Write dead letters and wait until they are acknowledged; a task that runs twice writes them twice."""
    async with Producer(pool) as producer:
        for letter in letters:
            await producer.send(
                topic, letter.value, key=letter.key, timestamp=letter.timestamp_ms, headers=letter.headers()
            )
