"""Consumer groups (KIP-848) as a kind of group; their members may also use the classic protocol."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any

from kavka.coordinator.classic.kind import ClassicKind
from kavka.coordinator.consumer import describing, fencing
from kavka.coordinator.consumer.change import GroupChange
from kavka.coordinator.consumer.classic_members import ClassicMembers
from kavka.coordinator.consumer.entries import without_group
from kavka.coordinator.consumer.machine import MEMBER_TIMERS, ConsumerGroups
from kavka.coordinator.consumer.records import RECORDS
from kavka.coordinator.consumer.state import LEFT, LEFT_SEAT, ConsumerGroup, replay
from kavka.coordinator.consumer.validation import check_heartbeat
from kavka.coordinator.context import ShardContext
from kavka.coordinator.kind import GroupKind, Kinds
from kavka.coordinator.offsets.rules import Ageing, CheckPartition
from kavka.coordinator.requests import Client, Draft
from kavka.coordinator.state import ShardState
from kavka.coordinator.timers import TimerKey
from kavka.metadata.delta import MetadataDelta
from kavka.model.transition import Transition
from kavka.protocol.schemas.consumer_group_describe import DescribedGroup
from kavka.protocol.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kavka.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupResponse
from kavka.protocol.schemas.leave_group import MemberIdentity, MemberResponse
from kavka.protocol.schemas.list_groups import ListedGroup
from kavka.protocol.schemas.offset_commit import OffsetCommitRequest
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup
from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupResponse


class ConsumerKind(GroupKind[ConsumerGroup]):
    """The consumer groups of a shard."""

    name = "consumer"
    group = ConsumerGroup
    records = RECORDS
    timers = frozenset(MEMBER_TIMERS)
    replay = staticmethod(replay)

    def __init__(self, context: ShardContext, state: ShardState, kinds: Kinds) -> None:
        self._context = context
        self._state = state
        self._classic = kinds.get(ClassicKind).machine
        self._machine = ConsumerGroups(context, state, self._classic)
        self._classic_members = ClassicMembers(context, self._machine)

    # -- ConsumerGroupHeartbeat, ConsumerGroupDescribe ----------------------------------------------

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Transition[ConsumerGroupHeartbeatResponse]:
        """Join, stay in or leave a consumer group."""
        steady = self._machine.steady(request, client, now_ms)
        if steady is not None:  # nothing in it that could be wrong
            return steady
        check_heartbeat(request, client.api_version, self._context.settings.assignors)
        if request.member_epoch in (LEFT, LEFT_SEAT):
            return self._machine.leave(request, now_ms)
        return self._machine.heartbeat(request, client, now_ms)

    def describe(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """Consumer groups with their members."""
        found = []
        for id_ in group_ids:
            group = self._state.groups.get(id_)
            if isinstance(group, ConsumerGroup):
                default = self._context.settings.assignors[0]
                found.append(describing.described(id_, group, self._context.topics, default))
            else:
                why = f"Group {id_} not found." if group is None else f"Group {id_} is not a consumer group."
                found.append(describing.not_described(id_, why))
        return found

    # -- the shard's life -------------------------------------------------------------------------

    def on_loaded(self, draft: Draft, group_id: str, group: ConsumerGroup, now_ms: int) -> None:
        """Listen for the members of a group that was loaded."""
        self._machine.on_loaded(draft, group_id, group, now_ms)

    def on_timer(self, key: TimerKey, now_ms: int) -> Transition[Any]:
        """A deadline of a member has passed."""
        return self._machine.on_timer(key, now_ms)

    def on_metadata(self, draft: Draft, delta: MetadataDelta, topics: set[str]) -> None:
        """The groups that want topics that differ look at them again."""
        if topics:
            self._machine.topics_changed(topics)

    # -- groups -----------------------------------------------------------------------------------

    def listed(self, group_id: str, group: ConsumerGroup) -> ListedGroup:
        """A group as ListGroups shows it."""
        return describing.listed(group_id, group, self.name)

    def is_empty(self, group_id: str, group: ConsumerGroup) -> bool:
        """Whether a group has no members."""
        return not group.members

    def delete(self, draft: Draft, group_id: str, group: ConsumerGroup) -> None:
        """Write that an empty group is gone."""
        self._machine.delete(draft, group_id, group)

    def may_expire(self, group_id: str, group: ConsumerGroup) -> bool:
        """Whether a group is empty."""
        return not group.members

    # -- the classic protocol -----------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, client: Client, token: Hashable, group: ConsumerGroup, now_ms: int
    ) -> Transition[JoinGroupResponse]:
        """Become a member by the classic protocol; an empty group becomes a classic one."""
        if group.members:
            return self._classic_members.join(request, client, group, now_ms)
        draft = Draft()
        gone = without_group(request.group_id, group)
        reply = self._classic.join_instead(draft, request, client, token, gone, now_ms)
        if draft.records:
            self._machine.forget(draft, request.group_id, (), group_too=True)
        return draft.done(reply)

    def sync(
        self, request: SyncGroupRequest, token: Hashable, group: ConsumerGroup, now_ms: int
    ) -> Transition[SyncGroupResponse]:
        """Ask for an assignment by the classic protocol."""
        return self._classic_members.sync(request, group, now_ms)

    def heartbeat(self, request: HeartbeatRequest, group: ConsumerGroup, now_ms: int) -> Transition[HeartbeatResponse]:
        """Stay a member by the classic protocol."""
        return self._classic_members.heartbeat(request, group, now_ms)

    def leave(
        self, group_id: str, members: list[MemberIdentity], group: ConsumerGroup, now_ms: int
    ) -> Transition[list[MemberResponse]]:
        """End memberships by the classic protocol."""
        change = GroupChange(self._context, group_id, group, now_ms)
        return change.done(self._classic_members.leave(change, members))

    # -- offsets ----------------------------------------------------------------------------------

    def check_commit(
        self, draft: Draft, request: OffsetCommitRequest, client: Client, group: ConsumerGroup, now_ms: int
    ) -> CheckPartition | None:
        """Raise unless a member commits, or nobody for a group of nobody."""
        return fencing.check_commit(group, request, client.api_version)

    def check_transactional_commit(self, request: OffsetCommitRequest, group: ConsumerGroup) -> CheckPartition | None:
        """Raise unless a transaction commits for a member, or does not say for whom."""
        return fencing.check_transaction(group, request)

    def check_fetch(self, request: OffsetFetchRequestGroup, group: ConsumerGroup) -> None:
        """Raise unless a member asks, or somebody who does not say who."""
        fencing.check_fetch(group, request)

    def subscribed(self, group_id: str, group: ConsumerGroup) -> Callable[[str], bool]:
        """Whether some member wants a topic."""
        return partial(fencing.is_subscribed, group)

    def ageing(self, group_id: str, group: ConsumerGroup) -> Ageing | None:
        """How the group's offsets age."""
        return fencing.ageing_of(group)
