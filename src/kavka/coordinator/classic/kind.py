"""Classic groups as a kind of group; a simple one, which only holds offsets, is one of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from kavka.coordinator.classic import describing, fencing
from kavka.coordinator.classic.live import GroupState
from kavka.coordinator.classic.machine import ClassicGroups
from kavka.coordinator.classic.records import RECORDS
from kavka.coordinator.classic.state import ClassicGroup, replay, without_group
from kavka.coordinator.context import ShardContext
from kavka.coordinator.kind import GroupKind, Kinds
from kavka.coordinator.offsets.rules import Ageing, CheckPartition
from kavka.coordinator.requests import Client, Draft
from kavka.coordinator.state import ShardState
from kavka.coordinator.timers import HEARTBEAT, JOIN, SYNC, TimerKey
from kavka.model.transition import Transition
from kavka.protocol.schemas.describe_groups import DescribedGroup
from kavka.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupResponse
from kavka.protocol.schemas.leave_group import MemberIdentity, MemberResponse
from kavka.protocol.schemas.list_groups import ListedGroup
from kavka.protocol.schemas.offset_commit import OffsetCommitRequest
from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicKind(GroupKind[ClassicGroup]):
    """The classic groups of a shard."""

    name = "classic"
    group = ClassicGroup
    records = RECORDS
    timers = frozenset((HEARTBEAT, JOIN, SYNC))
    replay = staticmethod(replay)

    def __init__(self, context: ShardContext, state: ShardState, kinds: Kinds) -> None:
        self.machine = ClassicGroups(context)
        self._state = state

    # -- the shard's life -------------------------------------------------------------------------

    def on_loaded(self, draft: Draft, group_id: str, group: ClassicGroup, now_ms: int) -> None:
        """Listen for the members of a group that was loaded."""
        self.machine.on_loaded(draft, group_id, group, now_ms)

    def on_timer(self, key: TimerKey, now_ms: int) -> Transition[None]:
        """A deadline of a group has passed."""
        draft = Draft()
        self.machine.on_timer(draft, key, now_ms)
        return draft.done(None)

    def parked(self) -> Iterable[Hashable]:
        """The tokens of all requests that wait."""
        return self.machine.parked()

    # -- groups -----------------------------------------------------------------------------------

    def listed(self, group_id: str, group: ClassicGroup) -> ListedGroup:
        """A group as ListGroups shows it."""
        return describing.listed(self.machine.peek(group_id, group), self.name)

    def describe(self, group_ids: Iterable[str], api_version: int) -> list[DescribedGroup]:
        """Classic groups with their members."""
        found = []
        for id_ in group_ids:
            group = self._state.groups.get(id_)
            if isinstance(group, ClassicGroup):
                found.append(describing.described(self.machine.peek(id_, group)))
            else:
                why = f"Group {id_} not found." if group is None else f"Group {id_} is not a classic group."
                found.append(describing.not_described(id_, api_version, why))
        return found

    def is_empty(self, group_id: str, group: ClassicGroup) -> bool:
        """Whether a group has no members."""
        return self.machine.peek(group_id, group).state is GroupState.EMPTY

    def delete(self, draft: Draft, group_id: str, group: ClassicGroup) -> None:
        """Write that an empty group is gone."""
        self.machine.retire(draft, group_id)
        draft.records.append(without_group(group_id))

    def may_expire(self, group_id: str, group: ClassicGroup) -> bool:
        """Whether a group is empty, and nobody is about to join."""
        live = self.machine.peek(group_id, group)
        return live.state is GroupState.EMPTY and not live.pending

    # -- the classic protocol -----------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, client: Client, token: Hashable, group: ClassicGroup | None, now_ms: int
    ) -> Transition[JoinGroupResponse]:
        """Become a member; who joins a group that is not there makes it."""
        draft = Draft()
        return draft.done(self.machine.join(draft, request, client, token, group, now_ms))

    def sync(
        self, request: SyncGroupRequest, token: Hashable, group: ClassicGroup, now_ms: int
    ) -> Transition[SyncGroupResponse]:
        """Ask for an assignment; parked until the group's leader brings it."""
        draft = Draft()
        live = self.machine.live(request.group_id, group)
        return draft.done(self.machine.sync(draft, request, token, live, now_ms))

    def heartbeat(self, request: HeartbeatRequest, group: ClassicGroup, now_ms: int) -> Transition[HeartbeatResponse]:
        """Stay a member."""
        return self.machine.heartbeat(request, self.machine.live(request.group_id, group), now_ms)

    def leave(
        self, group_id: str, members: list[MemberIdentity], group: ClassicGroup, now_ms: int
    ) -> Transition[list[MemberResponse]]:
        """End memberships."""
        draft = Draft()
        return draft.done(self.machine.leave(draft, members, self.machine.live(group_id, group), now_ms))

    # -- offsets ----------------------------------------------------------------------------------

    def check_commit(
        self, draft: Draft, request: OffsetCommitRequest, client: Client, group: ClassicGroup, now_ms: int
    ) -> CheckPartition | None:
        """Raise unless a member commits, or nobody for a group of nobody; a member that commits is heard of."""
        live = self.machine.peek(request.group_id, group)
        fencing.check_commit(live, request)
        if live.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self.machine.rebalance.hear(draft, live, live.members[request.member_id], now_ms)
        return None

    def check_transactional_commit(self, request: OffsetCommitRequest, group: ClassicGroup) -> CheckPartition | None:
        """Raise unless a transaction commits for a member, or does not say for whom."""
        fencing.check_transaction(self.machine.peek(request.group_id, group), request)
        return None

    def subscribed(self, group_id: str, group: ClassicGroup) -> Callable[[str], bool]:
        """Whether the group reads a topic, as far as one can know."""
        live = self.machine.peek(group_id, group)
        fencing.check_delete(live)
        return live.is_subscribed

    def ageing(self, group_id: str, group: ClassicGroup) -> Ageing | None:
        """How the group's offsets age."""
        return fencing.ageing_of(self.machine.peek(group_id, group))
