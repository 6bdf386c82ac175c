"""A decision about one share group."""

from __future__ import annotations

from dataclasses import replace

from kavka.coordinator.assignors.simple import assign_simply
from kavka.coordinator.assignors.spec import MemberSpec
from kavka.coordinator.change import GroupDraft
from kavka.coordinator.context import ShardContext
from kavka.coordinator.share.entries import (
    current_entry,
    epoch_entry,
    member_entry,
    states_entry,
    target_entry,
    target_epoch_entry,
    without_member,
)
from kavka.coordinator.share.state import NO_PARTITIONS, NO_STATES, Member, ShareGroup, StatePartitionMetadata
from kavka.model.types import Uuid


class ShareChange(GroupDraft[ShareGroup]):
    """The draft of a decision, and the group as it would leave it."""

    __slots__ = ("_context",)

    def __init__(self, context: ShardContext, group_id: str, group: ShareGroup | None, now_ms: int) -> None:
        super().__init__(group_id, ShareGroup() if group is None else group, now_ms, new=group is None)
        self._context = context

    # -- members and epochs -----------------------------------------------------------------------

    def put_member(self, member: Member) -> None:
        """Write what a member says of itself, if that is news."""
        if self.group.members.get(member.id) != member:
            self.write([member_entry(self.group_id, member)])

    def remove_member(self, member_id: str) -> None:
        """Take a member out, and say so by the next epoch."""
        self.write(without_member(self.group_id, member_id))
        self._next_epoch()

    def refresh(self, changed: bool) -> bool:
        """Go to the next epoch if the group changed, or its topics did; whether that is so."""
        changed = changed or self._context.topics.hash_of(self.group.topics) != self.group.metadata_hash
        if changed:
            self._next_epoch()
        return changed

    def _next_epoch(self) -> None:
        metadata_hash = self._context.topics.hash_of(self.group.topics)
        self.write([epoch_entry(self.group_id, self.group.epoch + 1, metadata_hash)])

    # -- assignment -------------------------------------------------------------------------------

    @property
    def is_pending(self) -> bool:
        """Whether partitions could be assigned, since their state is initialized, and are not."""
        group = self.group
        wanted = group.topics
        assigned: dict[Uuid, set[int]] = {}
        for target in group.targets.values():
            for topic_id, partitions in target.items():
                assigned.setdefault(topic_id, set()).update(partitions)
        return any(
            states.name in wanted and assigned.get(topic_id, set()) != states.partitions
            for topic_id, states in group.initialized.items()
        )

    def assign(self, interval_ms: int) -> None:
        """Work out the target assignment of this epoch, unless it is there, or the last one is too young."""
        group = self.group
        if self.is_assigned or self.is_too_early(interval_ms):
            return
        topics = self._context.topics
        specs = {
            id_: MemberSpec(topics.ids_of(member.topics), group.targets.get(id_, NO_PARTITIONS))
            for id_, member in group.members.items()
        }
        assignable = {topic_id: states.partitions for topic_id, states in group.initialized.items()}
        self.put_targets(assign_simply(specs, assignable), target_entry)
        self.write([target_epoch_entry(self.group_id, group.epoch, self.now_ms)])

    def reconcile(self, member: Member, changed: bool) -> Member:
        """Give a member what it shall have, at once: share partitions may have several members at any time."""
        group = self.group
        if not changed and member.epoch == group.assignment_epoch:
            return member
        wanted = self._context.topics.ids_of(member.topics)
        target = group.targets.get(member.id, NO_PARTITIONS)
        moved = replace(member, assigned={id_: found for id_, found in target.items() if id_ in wanted})
        if member.epoch != group.assignment_epoch:
            moved = replace(moved, epoch=group.assignment_epoch, previous_epoch=member.epoch)
        if moved != member:
            self.write([current_entry(self.group_id, moved)])
        return moved

    # -- states -----------------------------------------------------------------------------------

    @property
    def states(self) -> StatePartitionMetadata:
        """How far the states of the group's partitions are."""
        return self.group.states or NO_STATES

    def put_states(self, states: StatePartitionMetadata) -> None:
        """Write how far they are now."""
        self.write([states_entry(self.group_id, states)])
