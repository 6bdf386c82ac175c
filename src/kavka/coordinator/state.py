"""What one partition of `__consumer_offsets` remembers; `replay` is the only writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kavka.coordinator.classic.state import SIMPLE
from kavka.coordinator.offsets.records import LegacyOffsetCommitKey, OffsetCommitKey
from kavka.coordinator.offsets.state import NO_PRODUCER, OffsetsState, PartitionId, read_offset
from kavka.coordinator.record import Record

GroupsById = dict[str, Any]
"""GroupsById of whatever kind, by id: `kind.Kinds` knows which is of which."""
Replay = Callable[[GroupsById, Record], None]
"""Takes in a record of a group."""

_OFFSET_KEYS: Final = (OffsetCommitKey, LegacyOffsetCommitKey)


@dataclass(slots=True)
class ShardState:
    """The groups of a shard, of whatever kind, and their offsets."""

    replays: Mapping[type[Any], Replay] = field(compare=False, repr=False)
    """Who takes in the records of groups, by the class of their keys."""
    groups: GroupsById = field(default_factory=dict)
    offsets: OffsetsState = field(default_factory=OffsetsState)

    def replay(self, record: Record, offset: int, producer_id: int = NO_PRODUCER) -> None:
        """Take in a record that lies at an offset of the log, written in a producer's transaction or in none.

        A log that was compacted may have lost records between two that are left, so nothing here insists on an order.
        """
        key, value, _ = record
        if isinstance(key, _OFFSET_KEYS):
            self._replay_offset(key, value, offset, producer_id)
        else:
            self.replays[type(key)](self.groups, record)

    def _replay_offset(
        self, key: OffsetCommitKey | LegacyOffsetCommitKey, value: Any, offset: int, producer_id: int
    ) -> None:
        place = PartitionId(key.group, key.topic, key.partition)
        if value is None:
            self.offsets.apply(place, None, producer_id)
            return
        # Who commits without being in a group makes one that only holds offsets.
        self.groups.setdefault(key.group, SIMPLE)
        self.offsets.apply(place, read_offset(value, offset), producer_id)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Take in the marker that ends a producer's transaction."""
        self.offsets.end_transaction(producer_id, committed=committed)
