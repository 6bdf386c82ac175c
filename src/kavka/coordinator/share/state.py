"""What the log remembers of a share group: `replay` is its only writer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from kavka.coordinator.assignors.spec import Partitions
from kavka.coordinator.record import Record
from kavka.coordinator.share.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
from kavka.model.types import Uuid

LEFT: Final = -1
NO_PARTITIONS: Final[Partitions] = {}


@dataclass(frozen=True, slots=True)
class Member:
    """A member: what it said of itself, and what it has."""

    id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Partitions = field(default_factory=dict)


class TopicStates(NamedTuple):
    """Partitions of a topic whose share state is being initialized, or is."""

    name: str
    partitions: frozenset[int]


StatesByTopic = Mapping[Uuid, TopicStates]


class StatePartitionMetadata(NamedTuple):
    """How far the share coordinator is with the states of the group's partitions."""

    initializing: StatesByTopic
    initialized: StatesByTopic
    deleting: Mapping[Uuid, str]
    """Topics by name whose states are being deleted."""


NO_STATES: Final = StatePartitionMetadata({}, {}, {})


@dataclass(slots=True)
class ShareGroup:
    """A share group."""

    epoch: int = 1
    """Kafka counts from 1: the first member brings a group to epoch 2."""
    metadata_hash: int = 0
    assignment_epoch: int = 1
    assignment_timestamp_ms: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    states: StatePartitionMetadata | None = None

    def copy(self) -> ShareGroup:
        """Another one that can be changed without changing this one."""
        return replace(self, members=self.members.copy(), targets=self.targets.copy())

    @property
    def state(self) -> str:
        """The group's state as it is shown."""
        return "Stable" if self.members else "Empty"

    @property
    def topics(self) -> frozenset[str]:
        """The names of all topics that some member wants."""
        return frozenset().union(*(member.topics for member in self.members.values()))

    @property
    def initialized(self) -> StatesByTopic:
        """The partitions that can be assigned."""
        return {} if self.states is None else self.states.initialized

    def apply(self, key: Any, value: Any) -> None:
        """Take in a record of this group, except for the end of the group."""
        match key:
            case ShareGroupMetadataKey():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ShareGroupMemberMetadataKey(member_id=id_):
                self._member(id_, value)
            case ShareGroupTargetAssignmentMetadataKey():
                self.assignment_epoch = 0 if value is None else value.assignment_epoch
                self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp
            case ShareGroupTargetAssignmentMemberKey(member_id=id_):
                if value is None:
                    self.targets.pop(id_, None)
                else:
                    self.targets[id_] = _read_partitions(value.topic_partitions)
            case ShareGroupCurrentMemberAssignmentKey(member_id=id_):
                self._assign(id_, value)
            case ShareGroupStatePartitionMetadataKey():
                self.states = None if value is None else _read_states(value)

    def _member(self, id_: str, value: Any) -> None:
        if value is None:
            self.members.pop(id_, None)
            self.targets.pop(id_, None)
            return
        self.members[id_] = replace(
            self.members.get(id_) or Member(id_),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )

    def _assign(self, id_: str, value: Any) -> None:
        member = self.members.get(id_)
        if value is not None:
            self.members[id_] = replace(
                member or Member(id_),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                assigned=_read_partitions(value.assigned_partitions),
            )
        elif member is not None:
            self.members[id_] = replace(member, epoch=LEFT, previous_epoch=LEFT, assigned={})


def replay(groups: dict[str, Any], record: Record) -> None:
    """Take in a record of a group; the first one makes it, whatever kind it was of, and tombstones make none."""
    key, value, _ = record
    group = groups.get(key.group_id)
    if not isinstance(group, ShareGroup):
        if value is None:
            return
        group = groups[key.group_id] = ShareGroup()
    if value is None and isinstance(key, ShareGroupMetadataKey):
        del groups[key.group_id]
    else:
        group.apply(key, value)


def _read_partitions(written: Iterable[Any]) -> Partitions:
    return {topic.topic_id: frozenset(topic.partitions) for topic in written}


def _read_states(value: Any) -> StatePartitionMetadata:
    return StatePartitionMetadata(
        {
            topic.topic_id: TopicStates(topic.topic_name, frozenset(topic.partitions))
            for topic in value.initializing_topics
        },
        {
            topic.topic_id: TopicStates(topic.topic_name, frozenset(topic.partitions))
            for topic in value.initialized_topics
        },
        {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )
