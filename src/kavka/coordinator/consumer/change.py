"""A decision about one consumer group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kavka.coordinator.assignors import ASSIGNORS
from kavka.coordinator.assignors.spec import MemberSpec, Partitions
from kavka.coordinator.change import GroupDraft
from kavka.coordinator.consumer.entries import (
    current_entry,
    epoch_entry,
    member_entry,
    regex_entry,
    target_entry,
    target_epoch_entry,
    without_member,
    without_partition_metadata,
    without_regex,
)
from kavka.coordinator.consumer.reconcile import Owned, Reconciliation
from kavka.coordinator.consumer.state import NO_PARTITIONS, ConsumerGroup, Member, ResolvedRegex
from kavka.coordinator.context import ShardContext
from kavka.coordinator.requests import Client
from kavka.coordinator.settings import REGEX_REFRESH_MIN_INTERVAL_MS
from kavka.model.errors import InvalidRegularExpression
from kavka.model.types import Uuid


class GroupChange(GroupDraft[ConsumerGroup]):
    """The draft of a decision, and the group as it would leave it."""

    __slots__ = ("_context",)

    def __init__(self, context: ShardContext, group_id: str, group: ConsumerGroup | None, now_ms: int) -> None:
        super().__init__(group_id, ConsumerGroup() if group is None else group, now_ms, new=group is None)
        self._context = context

    # -- members ----------------------------------------------------------------------------------

    def put_member(self, member: Member) -> None:
        """Write what a member says of itself, if that is news."""
        if self.group.members.get(member.id) != member:
            self.write([member_entry(self.group_id, member)])

    def take_seat(self, seated: Member, member_id: str) -> Member:
        """Give the seat of a static member to another id, with all that belongs to it."""
        target = self.group.targets.get(seated.id, NO_PARTITIONS)
        member = replace(seated, id=member_id, epoch=0, previous_epoch=0)
        self.write(without_member(self.group_id, seated.id))
        self.write(
            [
                member_entry(self.group_id, member),
                target_entry(self.group_id, member_id, target),
                current_entry(self.group_id, member),
            ]
        )
        return member

    def remove_members(self, members: Iterable[Member]) -> None:
        """Take members out, with the patterns that nobody else asks for, and say so by the next epoch."""
        members = list(members)
        for member in members:
            self.write(without_member(self.group_id, member.id))
        for regex in sorted({member.regex for member in members}):
            self.drop_regex(regex)
        self.next_epoch()

    def drop_regex(self, regex: str) -> None:
        """Forget a pattern that nobody asks for."""
        if regex in self.group.resolved and regex not in self.group.regexes:
            self.write([without_regex(self.group_id, regex)])

    def is_new(self, regex: str, client: Client) -> bool:
        """Whether a pattern that a member has just brought has yet to be matched; raises InvalidRegularExpression."""
        if not regex or regex in self.group.resolved:
            return False
        self._context.match(regex, client._replace(sees=None))  # for what is wrong with it, not for its topics
        return True

    def resolve(self, client: Client) -> bool:
        """Match the patterns that were not matched yet, and all of them from time to time; whether topics differ."""
        changed = False
        for regex in self._unresolved():
            try:
                topics = self._context.match(regex, client)
            except InvalidRegularExpression:
                topics = frozenset()
            known = self.group.resolved.get(regex)
            changed |= topics != (frozenset() if known is None else known.topics)
            found = ResolvedRegex(topics, self._context.topics.version, self.now_ms)
            self.write([regex_entry(self.group_id, regex, found)])
        return changed

    def _unresolved(self) -> list[str]:
        if needs_refresh(self._context, self.group, self.now_ms):
            return sorted(self.group.regexes)
        return sorted(self.group.regexes.keys() - self.group.resolved.keys())

    # -- epochs -----------------------------------------------------------------------------------

    def metadata_hash(self) -> int:
        """What stands for the topics of the group as they are now."""
        return self._context.topics.hash_of(self.group.topics)

    def next_epoch(self) -> None:
        """The group changed in what its assignment depends on."""
        self.write([epoch_entry(self.group_id, self.group.epoch + 1, self.metadata_hash())])

    def refresh(self, changed: bool) -> None:
        """Go to the next epoch if the group changed, or the topics did."""
        if changed or self.metadata_hash() != self.group.metadata_hash:
            self.next_epoch()
        if self.group.has_partition_metadata:
            self.write([without_partition_metadata(self.group_id)])

    # -- assignment -------------------------------------------------------------------------------

    def assign(self) -> None:
        """Work out the target assignment of this epoch, unless it is there, or the last one is too young."""
        if self.is_assigned or self.is_too_early(self._context.of_group(self.group_id).assignment_interval_ms):
            return
        self.put_targets(self._targets(), target_entry)
        self.write([target_epoch_entry(self.group_id, self.group.epoch, self.now_ms)])

    def _targets(self) -> dict[str, Partitions]:
        group, topics, offered = self.group, self._context.topics, self._context.settings.assignors
        ids: dict[frozenset[str], set[Uuid]] = {}
        specs = {}
        for id_, member in group.members.items():
            names = group.topics_of(member)
            wanted = ids.get(names)
            if wanted is None:
                wanted = ids[names] = topics.ids_of(names)
            specs[id_] = MemberSpec(wanted, group.targets.get(id_, NO_PARTITIONS), member.instance_id)
        preferred = group.preferred_assignor
        assign = ASSIGNORS[preferred if preferred in offered else offered[0]]
        return assign(specs, topics.partition_counts(set().union(*ids.values())))

    def reconcile(self, member: Member, owned: Owned | None, subscription_changed: bool) -> Member:
        """Move a member towards its target, as far as that goes now."""
        group = self.group
        if not subscription_changed and member.is_reconciled_to(group.assignment_epoch):
            return member
        step = Reconciliation(
            group.assignment_epoch,
            group.targets.get(member.id, NO_PARTITIONS),
            self._context.topics.ids_of(group.topics_of(member)),
            group.owners,
            owned,
            subscription_changed,
        )
        moved = step.step(member)
        if moved != member:
            self.records.append(current_entry(self.group_id, moved))
        return moved


def change_of_patterns_due(context: ShardContext, group: ConsumerGroup, now_ms: int) -> bool:
    """Whether a heartbeat has to match patterns: one is new, or all are to be matched anew."""
    if not group.regexes:
        return False
    return not group.regexes.keys() <= group.resolved.keys() or needs_refresh(context, group, now_ms)


def needs_refresh(context: ShardContext, group: ConsumerGroup, now_ms: int) -> bool:
    """Whether the patterns of a group are to be matched anew: topics were created, or it is long ago."""
    if not group.resolved:
        return False
    last_ms = max(found.timestamp_ms for found in group.resolved.values())
    if now_ms <= last_ms + REGEX_REFRESH_MIN_INTERVAL_MS:
        return False
    oldest = min(found.version for found in group.resolved.values())
    return oldest < context.topics.new_at or now_ms > last_ms + context.settings.regex_refresh_interval_ms
