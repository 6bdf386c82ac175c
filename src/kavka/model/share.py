"""Share partitions: how they are named, and the states of their records (KIP-932)."""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.model.types import Uuid

AVAILABLE: Final = 0
ACQUIRED: Final = 1
ACKNOWLEDGED: Final = 2
ARCHIVING: Final = 3
"""KIP-1191's: about to be archived, once its dead letter is written."""
ARCHIVED: Final = 4

NO_START_OFFSET: Final = -1
"""A share partition that was never fetched from: where it starts is for the group's settings to say."""


class StateBatch(NamedTuple):
    """Records in one state."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class DeadLetterProducer(NamedTuple):
    """The idempotent producer of a share partition's dead letters, and where it writes."""

    producer_id: int
    """-1: the next batch takes another id."""
    sequence: int
    """Of the batch whose records are about to be archived; if none are, of the next one."""
    topic_id: Uuid
    partition: int
    number: int = 0
    """Grows with each write of it: one with a lower number comes late."""


class SharePartitionKey(NamedTuple):
    """One group's view of one partition."""

    group_id: str
    topic_id: Uuid
    partition: int

    def __str__(self) -> str:
        """As FindCoordinator names it, and as its hash finds its shard."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"

    @classmethod
    def parse(cls, text: str) -> SharePartitionKey:
        """Read such a name, from its end, for a group's id may have colons; raises ValueError."""
        group_id, topic_id, partition = text.rsplit(":", 2)
        if not group_id.strip():
            raise ValueError("the group's id is empty")
        if not (partition.isascii() and partition.removeprefix("-").isdecimal()):
            raise ValueError(f"{partition!r} is not a partition")
        return cls(group_id, Uuid.parse(topic_id), int(partition))
