"""What the log remembers of a streams group (KIP-1071), and what follows from that.

`apply` is the only writer. Members and assignments are values: whoever holds one can rely on it not to change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from kavka.coordinator.record import Record
from kavka.coordinator.streams.records import (
    Endpoint,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
    TaskIds,
)
from kavka.coordinator.streams.tasks import NONE_HELD, HeldTasks, TaskSets, TasksSince, read_tasks
from kavka.coordinator.streams.topology import StreamsTopology

LEFT: Final = -1
"""The epoch of a member that has left."""
LEFT_SEAT: Final = -2
"""The epoch of a static member that has left; there are none yet."""
FIRST_EPOCH: Final = 1
"""The epochs of a group that has no record of them."""
NOT_VALIDATED: Final = -1

Task = tuple[str, int]


class MemberState(IntEnum):
    """How far a member is on its way to the target assignment, by the code in records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


_STATES: Final = {int(state): state for state in MemberState}


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a streams group: a thread of a process."""

    id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: HeldTasks = NONE_HELD
    revoking: HeldTasks = NONE_HELD

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has all that it shall have at an epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    def active_since(self, subtopology_id: str, partition: int) -> int | None:
        """Since which epoch the member has an active task, or has had it if it is giving it back."""
        for held in (self.assigned, self.revoking):
            epoch = held.active.get(subtopology_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


@dataclass(slots=True)
class StreamsGroup:
    """A streams group. The first part is what records say; the second is kept in step with it."""

    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    validated_topology_epoch: int = NOT_VALIDATED
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp_ms: int = 0
    topology: StreamsTopology | None = None
    members: dict[str, Member] = field(default_factory=dict)
    targets: dict[str, TaskSets] = field(default_factory=dict)

    active: dict[Task, str] = field(default_factory=dict)
    """The members that have active tasks, or are giving them back."""
    replicas: dict[Task, frozenset[str]] = field(default_factory=dict)
    """The members that stand by for tasks or warm up, or are giving that up."""

    def copy(self) -> StreamsGroup:
        """Another one that can be changed without changing this one."""
        return replace(
            self,
            members=self.members.copy(),
            targets=self.targets.copy(),
            active=self.active.copy(),
            replicas=self.replicas.copy(),
        )

    # -- questions --------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """The group's state as it is shown."""
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def topics(self) -> set[str]:
        """The names of all topics that the topology reads, or writes state to."""
        return set() if self.topology is None else self.topology.required

    def process_of_active(self, task: Task) -> str | None:
        """The process that has an active task."""
        return self._process(self.active.get(task))

    def processes_of_replicas(self, task: Task) -> set[str | None]:
        """The processes that stand by for a task, or warm up."""
        return {self._process(id_) for id_ in self.replicas.get(task, ())}

    def _process(self, member_id: str | None) -> str | None:
        member = None if member_id is None else self.members.get(member_id)
        return None if member is None else member.process_id

    # -- records ----------------------------------------------------------------------------------

    def apply(self, key: Any, value: Any) -> None:
        """Take in a record of this group, except for the end of the group."""
        match key:
            case StreamsGroupMetadataKey():
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
                self.validated_topology_epoch = value.validated_topology_epoch
                self.assignment_configs = {config.key: config.value for config in value.last_assignment_configs or ()}
            case StreamsGroupMemberMetadataKey(member_id=id_):
                self._put(id_, None if value is None else with_metadata(self.members.get(id_) or Member(id_), value))
            case StreamsGroupTargetAssignmentMetadataKey():
                self.assignment_epoch = -1 if value is None else value.assignment_epoch
                self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp
            case StreamsGroupTargetAssignmentMemberKey(member_id=id_):
                if value is None:
                    self.targets.pop(id_, None)
                else:
                    self.targets[id_] = TaskSets(
                        read_tasks(value.active_tasks), read_tasks(value.standby_tasks), read_tasks(value.warmup_tasks)
                    )
            case StreamsGroupCurrentMemberAssignmentKey(member_id=id_):
                self._assign(id_, value)
            case StreamsGroupTopologyKey():
                self.topology = None if value is None else StreamsTopology(value)

    def _assign(self, id_: str, value: StreamsGroupCurrentMemberAssignmentValue | None) -> None:
        member = self.members.get(id_)
        if value is not None:
            self._put(id_, with_assignment(member or Member(id_), value))
        elif member is not None:
            self._put(id_, replace(member, epoch=LEFT, previous_epoch=LEFT, assigned=NONE_HELD, revoking=NONE_HELD))

    def _put(self, id_: str, member: Member | None) -> None:
        before = self.members.get(id_)
        if before is not None:
            self._release(before)
        if member is None:
            self.members.pop(id_, None)
            self.targets.pop(id_, None)
            return
        self.members[id_] = member
        for held in (member.assigned, member.revoking):
            self.active |= dict.fromkeys(tasks_in(held.active), id_)
            for task in (*tasks_in(held.standby), *tasks_in(held.warmup)):
                self.replicas[task] = self.replicas.get(task, frozenset()) | {id_}

    def _release(self, member: Member) -> None:
        for held in (member.assigned, member.revoking):
            for task in tasks_in(held.active):
                # In a log that was cut short by compaction someone else may have come first.
                if self.active.get(task) == member.id:
                    del self.active[task]
            for task in (*tasks_in(held.standby), *tasks_in(held.warmup)):
                rest = self.replicas.pop(task, frozenset()) - {member.id}
                if rest:
                    self.replicas[task] = rest


def replay(groups: dict[str, Any], record: Record) -> None:
    """Take in a record of a group; the first one makes it, whatever kind it was of, and tombstones make none."""
    key, value, _ = record
    group = groups.get(key.group_id)
    if not isinstance(group, StreamsGroup):
        if value is None:
            return
        group = groups[key.group_id] = StreamsGroup()
    if value is None and isinstance(key, StreamsGroupMetadataKey):
        del groups[key.group_id]
    else:
        group.apply(key, value)


def with_metadata(member: Member, value: StreamsGroupMemberMetadataValue) -> Member:
    """A member after the record of what it said of itself."""
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=value.user_endpoint,
        client_tags={tag.key: tag.value for tag in value.client_tags},
    )


def with_assignment(member: Member, value: StreamsGroupCurrentMemberAssignmentValue) -> Member:
    """A member after the record of what it has."""
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=_STATES.get(value.state, MemberState.UNKNOWN),
        assigned=HeldTasks(
            _read_since(value.active_tasks, value.member_epoch),
            read_tasks(value.standby_tasks),
            read_tasks(value.warmup_tasks),
        ),
        revoking=HeldTasks(
            _read_since(value.active_tasks_pending_revocation, value.member_epoch),
            read_tasks(value.standby_tasks_pending_revocation),
            read_tasks(value.warmup_tasks_pending_revocation),
        ),
    )


def tasks_in(tasks: Mapping[str, Iterable[int]]) -> list[Task]:
    """Tasks one by one."""
    return [(id_, partition) for id_, partitions in tasks.items() for partition in partitions]


def _read_since(written: Iterable[TaskIds], epoch: int) -> TasksSince:
    """Tasks with their epochs; a record without any stands for the member's own."""
    found = {}
    for task_ids in written:
        epochs = task_ids.assignment_epochs
        if epochs is None or len(epochs) != len(task_ids.partitions):
            epochs = [epoch] * len(task_ids.partitions)
        found[task_ids.subtopology_id] = dict(zip(task_ids.partitions, epochs, strict=True))
    return found
