"""What the log remembers of a consumer group (KIP-848), and what follows from that.

`apply` is the only writer. Members and assignments are values: whoever holds one can rely on it not to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple

from kavka.coordinator.assignors.spec import Partitions
from kavka.coordinator.consumer.records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    CurrentAssignmentTopic,
)
from kavka.coordinator.record import Record
from kavka.model.types import Uuid

LEFT: Final = -1
"""The epoch of a member that has left."""
LEFT_SEAT: Final = -2
"""The epoch of a static member that has left and keeps its seat."""
FIRST_EPOCH: Final = 1
"""The epochs of a group that has no record of them."""

Assigned = Mapping[Uuid, Mapping[int, int]]
"""Partitions by topic, each with the epoch since which its owner has it."""

NOTHING_ASSIGNED: Final[Assigned] = {}
NO_PARTITIONS: Final[Partitions] = {}


class MemberState(IntEnum):
    """How far a member is on its way to the target assignment, by the code in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


_STATES: Final = {int(state): state for state in MemberState}


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a consumer group; `classic` is what it said when it uses the classic protocol."""

    id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    assigned: Assigned = field(default_factory=dict)
    revoking: Assigned = field(default_factory=dict)
    classic: ClassicMemberMetadata | None = None

    @property
    def protocols(self) -> tuple[str, ...]:
        """The names of the classic protocols that the member supports."""
        return () if self.classic is None else tuple(protocol.name for protocol in self.classic.supported_protocols)

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has all that it shall have at an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def assigned_since(self, topic_id: Uuid, partition: int) -> int | None:
        """Since which epoch the member has a partition, or has had it if it is giving it back."""
        for assigned in (self.assigned, self.revoking):
            epoch = assigned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


class ResolvedRegex(NamedTuple):
    """The topics that a pattern matched in an image of the metadata."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


@dataclass(slots=True)
class ConsumerGroup:
    """A consumer group. The first part is what records say; the second is kept in step with it."""

    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp_ms: int = 0
    members: dict[str, Member] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    resolved: dict[str, ResolvedRegex] = field(default_factory=dict)
    has_partition_metadata: bool = False

    static: dict[str, str] = field(default_factory=dict)
    owners: dict[tuple[Uuid, int], str] = field(default_factory=dict)
    topics_by_name: dict[str, int] = field(default_factory=dict)
    topics_by_regex: dict[str, int] = field(default_factory=dict)
    regexes: dict[str, int] = field(default_factory=dict)
    assignors: dict[str, int] = field(default_factory=dict)
    classic_protocols: dict[str, int] = field(default_factory=dict)
    classic_count: int = 0

    def copy(self) -> ConsumerGroup:
        """Another one that can be changed without changing this one."""
        return ConsumerGroup(
            self.epoch,
            self.metadata_hash,
            self.assignment_epoch,
            self.assignment_timestamp_ms,
            self.members.copy(),
            self.targets.copy(),
            self.resolved.copy(),
            self.has_partition_metadata,
            self.static.copy(),
            self.owners.copy(),
            self.topics_by_name.copy(),
            self.topics_by_regex.copy(),
            self.regexes.copy(),
            self.assignors.copy(),
            self.classic_protocols.copy(),
            self.classic_count,
        )

    # -- questions --------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """The group's state as it is shown."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def topics(self) -> set[str]:
        """The names of all topics that some member wants, of whatever existence."""
        return {*self.topics_by_name, *self.topics_by_regex}

    @property
    def preferred_assignor(self) -> str | None:
        """The assignor that most members ask for; of equals the first by name."""
        return min(self.assignors, key=lambda name: (-self.assignors[name], name), default=None)

    def static_member(self, instance_id: str | None) -> Member | None:
        """Who sits on a static seat."""
        id_ = None if instance_id is None else self.static.get(instance_id)
        return None if id_ is None else self.members.get(id_)

    def topics_of(self, member: Member) -> frozenset[str]:
        """The topics that a member wants; a pattern that is not resolved yet counts as matching none."""
        found = self.resolved.get(member.regex) if member.regex else None
        return member.topics if found is None else member.topics | found.topics

    def waits_for_others(self, member: Member) -> bool:
        """Whether someone else still has a partition that the member shall have."""
        for topic_id, partitions in self.targets.get(member.id, NO_PARTITIONS).items():
            mine = member.assigned.get(topic_id, {})
            if any(each not in mine and (topic_id, each) in self.owners for each in partitions):
                return True
        return False

    # -- records ----------------------------------------------------------------------------------

    def apply(self, key: Any, value: Any) -> None:
        """Take in a record of this group, except for the end of the group."""
        match key:
            case ConsumerGroupMetadataKey():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case ConsumerGroupMemberMetadataKey(member_id=id_):
                self._put(id_, None if value is None else with_metadata(self.members.get(id_) or Member(id_), value))
            case ConsumerGroupTargetAssignmentMemberKey(member_id=id_):
                if value is None:
                    self.targets.pop(id_, None)
                else:
                    self.targets[id_] = {
                        topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
                    }
            case ConsumerGroupTargetAssignmentMetadataKey():
                self.assignment_epoch = -1 if value is None else value.assignment_epoch
                self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp
            case ConsumerGroupCurrentMemberAssignmentKey(member_id=id_):
                self._assign(id_, value)
            case ConsumerGroupRegularExpressionKey(regular_expression=regex):
                self._resolve(regex, value)
            case ConsumerGroupPartitionMetadataKey():
                self.has_partition_metadata = value is not None

    def _assign(self, id_: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        member = self.members.get(id_)
        if value is not None:
            self._put(id_, with_assignment(member or Member(id_), value))
        elif member is not None:
            self._put(id_, replace(member, epoch=LEFT, previous_epoch=LEFT, assigned={}, revoking={}))

    def _resolve(self, regex: str, value: Any) -> None:
        before = self.resolved.pop(regex, None)
        if before is not None:
            _count(self.topics_by_regex, before.topics, -1)
        if value is not None:
            self.resolved[regex] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            _count(self.topics_by_regex, value.topics, 1)

    def _put(self, id_: str, member: Member | None) -> None:
        before = self.members.get(id_)
        if before is not None:
            self._forget(before)
        if member is None:
            self.members.pop(id_, None)
            self.targets.pop(id_, None)
            return
        self.members[id_] = member
        _count(self.topics_by_name, member.topics, 1)
        _count(self.regexes, (member.regex,) if member.regex else (), 1)
        _count(self.assignors, () if member.assignor is None else (member.assignor,), 1)
        _count(self.classic_protocols, member.protocols, 1)
        self.classic_count += member.classic is not None
        if member.instance_id is not None:
            self.static[member.instance_id] = id_
        for assigned in (member.assigned, member.revoking):
            for topic_id, partitions in assigned.items():
                for partition in partitions:
                    self.owners[topic_id, partition] = id_

    def _forget(self, member: Member) -> None:
        _count(self.topics_by_name, member.topics, -1)
        _count(self.regexes, (member.regex,) if member.regex else (), -1)
        _count(self.assignors, () if member.assignor is None else (member.assignor,), -1)
        _count(self.classic_protocols, member.protocols, -1)
        self.classic_count -= member.classic is not None
        if member.instance_id is not None and self.static.get(member.instance_id) == member.id:
            del self.static[member.instance_id]
        for assigned in (member.assigned, member.revoking):
            for topic_id, partitions in assigned.items():
                for partition in partitions:
                    # In a log that was cut short by compaction someone else may have come first.
                    if self.owners.get((topic_id, partition)) == member.id:
                        del self.owners[topic_id, partition]


def replay(groups: dict[str, Any], record: Record) -> None:
    """Take in a record of a group; the first one makes it, whatever kind it was of, and tombstones make none."""
    key, value, _ = record
    group = groups.get(key.group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return
        group = groups[key.group_id] = ConsumerGroup()
    if value is None and isinstance(key, ConsumerGroupMetadataKey):
        del groups[key.group_id]
    else:
        group.apply(key, value)


def with_metadata(member: Member, value: ConsumerGroupMemberMetadataValue) -> Member:
    """A member after the record of what it said of itself."""
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=frozenset(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def with_assignment(member: Member, value: ConsumerGroupCurrentMemberAssignmentValue) -> Member:
    """A member after the record of what it has."""
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=_STATES.get(value.state, MemberState.UNKNOWN),
        assigned=_read_assigned(value.assigned_partitions, value.member_epoch),
        revoking=_read_assigned(value.partitions_pending_revocation, value.member_epoch),
    )


def _read_assigned(written: Iterable[CurrentAssignmentTopic], epoch: int) -> Assigned:
    """Partitions with their epochs; records of older versions have none, and the member's own stands for them."""
    found = {}
    for topic in written:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(epoch, 0)] * len(topic.partitions)
        found[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return found


def _count(counts: dict[str, int], keys: Iterable[str], step: int) -> None:
    for key in keys:
        number = counts.get(key, 0) + step
        if number:
            counts[key] = number
        else:
            del counts[key]
