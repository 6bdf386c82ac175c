"""Classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Deciding methods change only soft state (`LiveGroup`, deadlines); what the log shall remember they return as records.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from kavka.coordinator.classic.live import GroupState, LiveGroup, LiveMember, ParkedRequest, Protocols
from kavka.coordinator.classic.rebalance import Rebalance
from kavka.coordinator.classic.records import GroupMetadataValue
from kavka.coordinator.classic.replies import join_accepted, join_refused, sync_accepted, sync_refused
from kavka.coordinator.classic.state import ClassicGroup, group_entry
from kavka.coordinator.context import ShardContext
from kavka.coordinator.record import Record
from kavka.coordinator.requests import Client, Draft
from kavka.coordinator.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from kavka.coordinator.timers import HEARTBEAT, JOIN, SYNC, TimerKey
from kavka.model.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownServerError,
)
from kavka.model.transition import PARKED, Parked, Transition
from kavka.model.types import Uuid
from kavka.protocol.schema import replace
from kavka.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupResponse
from kavka.protocol.schemas.leave_group import MemberIdentity, MemberResponse
from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicGroups:
    """The classic groups of a shard; which groups are classic is for the caller to know."""

    def __init__(self, context: ShardContext) -> None:
        self._context = context
        self._live: dict[str, LiveGroup] = {}
        self.rebalance = Rebalance(context)

    # -- soft state -------------------------------------------------------------------------------

    def live(self, group_id: str, stored: ClassicGroup) -> LiveGroup:
        """A group as it lives; it starts as its record left it."""
        group = self._live.get(group_id)
        if group is None:
            group = self._live[group_id] = LiveGroup.of(group_id, stored)
        return group

    def peek(self, group_id: str, stored: ClassicGroup) -> LiveGroup:
        """A group as it lives, to look at only."""
        return self._live.get(group_id) or LiveGroup.of(group_id, stored)

    def adopt(self, draft: Draft, group: LiveGroup, now_ms: int) -> None:
        """A group that is classic from now on; its members' sessions begin."""
        self._live[group.id] = group
        for member in group.members.values():
            self.rebalance.hear(draft, group, member, now_ms)

    def retire(self, draft: Draft, group_id: str) -> None:
        """A group that is classic no more: who waits is told to join again, no timer goes off any more."""
        group = self._live.pop(group_id, None)
        if group is None:
            return
        for id_, waiting in group.joining.items():
            draft.answer(waiting.token, join_refused(RebalanceInProgress.code, id_, waiting.api_version))
        for waiting in group.syncing.values():
            draft.answer(waiting.token, sync_refused(RebalanceInProgress.code))
        deadlines = self._context.deadlines
        draft.effects += deadlines.drop(TimerKey(JOIN, group_id)) + deadlines.drop(TimerKey(SYNC, group_id))
        for id_ in (*group.members, *group.pending):
            self.rebalance.forget(draft, group, id_)

    def on_loaded(self, draft: Draft, group_id: str, stored: ClassicGroup, now_ms: int) -> None:
        """Listen for the members of a group that was loaded; one that grew too large must gather anew."""
        if stored.metadata is not None and stored.metadata.members:
            group = self.live(group_id, stored)
            self.adopt(draft, group, now_ms)
            if len(group.members) > self._context.settings.classic_max_size:
                self.rebalance.prepare(draft, group, now_ms)

    def on_timer(self, draft: Draft, key: TimerKey, now_ms: int) -> None:
        """A deadline of a group has passed."""
        group = self._live.get(key.group)
        if group is None:
            return
        if key.kind == HEARTBEAT:
            self.rebalance.silent(draft, group, key.member, now_ms)
        elif key.kind == JOIN:
            self.rebalance.time_to_join_is_over(draft, group, now_ms)
        elif key.kind == SYNC:
            self.rebalance.time_to_sync_is_over(draft, group, now_ms)

    def parked(self) -> list[Hashable]:
        """The tokens of all requests that wait."""
        return [
            waiting.token
            for group in self._live.values()
            for waiting in (*group.joining.values(), *group.syncing.values())
        ]

    # -- JoinGroup --------------------------------------------------------------------------------

    def join(
        self,
        draft: Draft,
        request: JoinGroupRequest,
        client: Client,
        token: Hashable,
        stored: ClassicGroup | None,
        now_ms: int,
    ) -> JoinGroupResponse | Parked:
        """Become, or stay, a member; `stored` is None for a group that is not there yet."""
        id_, version = request.member_id, client.api_version
        if stored is None and id_:
            return join_refused(UnknownMemberId.code, id_, version)
        if stored is None:
            group = LiveGroup(request.group_id, state_since_ms=now_ms)
        else:
            group = self.live(request.group_id, stored)
        if not self._has_room(group, id_):
            group.remove(id_)
            self.rebalance.forget(draft, group, id_)
            return join_refused(GroupMaxSizeReached.code, "", version)
        if not group.supports(request.protocol_type, (protocol.name for protocol in request.protocols)):
            return join_refused(InconsistentGroupProtocol.code, id_, version)
        if stored is None:
            self._live[group.id] = group
            draft.records.append(group_entry(group.id, _nobody_yet(now_ms)))
        asked = _Asked(request, client, token)
        return self._join_again(draft, group, asked, now_ms) if id_ else self._join_new(draft, group, asked, now_ms)

    def join_instead(
        self,
        draft: Draft,
        request: JoinGroupRequest,
        client: Client,
        token: Hashable,
        gone: Iterable[Record],
        now_ms: int,
    ) -> JoinGroupResponse | Parked:
        """Join an empty group of another kind, which is `gone` and becomes a classic one unless the join is refused."""
        reply = self.join(draft, request, client, token, None, now_ms)
        if draft.records:
            draft.records[:0] = gone
        return reply

    def _has_room(self, group: LiveGroup, member_id: str) -> bool:
        room = self._context.settings.classic_max_size
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            # Those who wait are counted, so that a group that is too large loses those who come last.
            return member_id in group.joining or len(group.joining) < room
        return member_id in group.members or len(group.members) < room

    def _join_new(self, draft: Draft, group: LiveGroup, asked: _Asked, now_ms: int) -> JoinGroupResponse | Parked:
        request, client = asked.request, asked.client
        instance_id = request.group_instance_id
        new_id = f"{client.id if instance_id is None else instance_id}-{hyphenated(self._context.new_id())}"
        if instance_id is None and client.api_version >= 4:  # KIP-394
            group.pending.add(new_id)
            key = TimerKey(HEARTBEAT, group.id, new_id)
            draft.effects += self._context.deadlines.put(key, now_ms + request.session_timeout_ms)
            return join_refused(MemberIdRequired.code, new_id, client.api_version)
        seated = None if instance_id is None else group.static.get(instance_id)
        if seated is not None:
            return self._take_seat(draft, group, asked, seated, new_id, now_ms)
        return self._add(draft, group, asked, new_id, now_ms)

    def _join_again(self, draft: Draft, group: LiveGroup, asked: _Asked, now_ms: int) -> JoinGroupResponse | Parked:
        request, version, id_ = asked.request, asked.client.api_version, asked.request.member_id
        if id_ in group.pending:
            if request.group_instance_id is not None:  # ids are handed out to dynamic members only
                return join_refused(UnknownServerError.code, id_, version)
            return self._add(draft, group, asked, id_, now_ms)
        try:
            member = group.check_member(id_, request.group_instance_id)
        except KafkaError as error:
            return join_refused(error.code, id_, version)
        same = member.protocols == asked.protocols
        if group.state is GroupState.COMPLETING_REBALANCE and same:
            # It may have missed the answer to its join.
            return join_accepted(group, id_, group.for_leader() if id_ == group.leader else [])
        if group.state is GroupState.STABLE and same and id_ != group.leader:
            return join_accepted(group, id_, [])
        group.update(member, asked.protocols, asked.rebalance_timeout_ms, request.session_timeout_ms)
        self._park(draft, group, id_, asked)
        self.rebalance.prepare_or_complete(draft, group, now_ms)
        return PARKED

    def _add(self, draft: Draft, group: LiveGroup, asked: _Asked, member_id: str, now_ms: int) -> Parked:
        request = asked.request
        member = LiveMember(
            id=member_id,
            instance_id=request.group_instance_id,
            client_id=asked.client.id,
            client_host=asked.client.host,
            rebalance_timeout_ms=asked.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=asked.protocols,
            is_new=True,
        )
        group.grown = group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY
        group.add(member, request.protocol_type)
        self._park(draft, group, member_id, asked)
        self.rebalance.hear(draft, group, member, now_ms, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.rebalance.prepare_or_complete(draft, group, now_ms)
        return PARKED

    def _take_seat(
        self, draft: Draft, group: LiveGroup, asked: _Asked, old_id: str, new_id: str, now_ms: int
    ) -> JoinGroupResponse | Parked:
        """A static member is back under a new id (KIP-345); its former self, if it waits somewhere, is fenced."""
        request, leader = asked.request, group.leader
        joins, syncs = group.joining.pop(old_id, None), group.syncing.pop(old_id, None)
        if joins is not None:
            draft.answer(joins.token, join_refused(FencedInstanceId.code, old_id, joins.api_version))
        if syncs is not None:
            draft.answer(syncs.token, sync_refused(FencedInstanceId.code))
        self.rebalance.forget(draft, group, old_id)
        member = group.replace(old_id, new_id)
        group.update(member, asked.protocols, asked.rebalance_timeout_ms, request.session_timeout_ms)
        self.rebalance.hear(draft, group, member, now_ms)
        if group.state is GroupState.STABLE and group.elect_protocol() == group.protocol:
            assignments = {each.id: each.assignment for each in group.members.values()}
            draft.records.append(group_entry(group.id, group.stored(assignments)))
            if asked.client.api_version < 9:
                # Told who led before, it does not take itself for the leader and assigns nothing.
                return join_accepted(group, new_id, [], leader=leader)
            leads = group.leader == new_id
            return join_accepted(group, new_id, group.for_leader() if leads else [], skip_assignment=leads)
        self._park(draft, group, new_id, asked)
        self.rebalance.prepare_or_complete(draft, group, now_ms)
        return PARKED

    def _park(self, draft: Draft, group: LiveGroup, member_id: str, asked: _Asked) -> None:
        before = group.joining.get(member_id)
        if before is not None:  # the member tried again, and nobody reads the answer to its first try
            draft.answer(before.token, join_refused(RebalanceInProgress.code, member_id, before.api_version))
        group.joining[member_id] = ParkedRequest(asked.token, asked.client.api_version)

    # -- SyncGroup, Heartbeat, LeaveGroup -----------------------------------------------------------

    def sync(
        self, draft: Draft, request: SyncGroupRequest, token: Hashable, group: LiveGroup, now_ms: int
    ) -> SyncGroupResponse | Parked:
        """Ask for the assignment of this generation; the leader brings it along."""
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise IllegalGeneration(f"{group.id} is at generation {group.generation}, not {request.generation_id}")
        if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol):
            raise InconsistentGroupProtocol(f"{group.id} uses {group.protocol} of type {group.protocol_type}")
        if group.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress(f"{group.id} is gathering its members")
        self.rebalance.synced(draft, group, member.id)
        if group.state is GroupState.STABLE:
            return sync_accepted(group, member.assignment)
        before = group.syncing.pop(member.id, None)
        if before is not None:
            draft.answer(before.token, sync_refused(RebalanceInProgress.code))
        if member.id != group.leader:
            group.syncing[member.id] = ParkedRequest(token, 0)
            return PARKED
        assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
        self.rebalance.assign(draft, group, assignments, now_ms)
        self.rebalance.hear(draft, group, member, now_ms)
        return sync_accepted(group, member.assignment)

    def heartbeat(self, request: HeartbeatRequest, group: LiveGroup, now_ms: int) -> Transition[HeartbeatResponse]:
        """Stay a member; says when a rebalance is under way."""
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise IllegalGeneration(f"{group.id} is at generation {group.generation}, not {request.generation_id}")
        key = TimerKey(HEARTBEAT, group.id, member.id)
        effects = self._context.deadlines.put(key, now_ms + member.session_timeout_ms)
        error_code = RebalanceInProgress.code if group.state is GroupState.PREPARING_REBALANCE else 0
        return Transition(HeartbeatResponse(error_code=error_code), (), effects)

    def leave(self, draft: Draft, members: list[MemberIdentity], group: LiveGroup, now_ms: int) -> list[MemberResponse]:
        """End memberships; an instance id without a member id names whoever has the seat."""
        replies = [self._leave(draft, each, group) for each in members]
        if any(not reply.error_code for reply in replies) and group.state is not GroupState.EMPTY:
            self.rebalance.prepare_or_complete(draft, group, now_ms)
        return replies

    def _leave(self, draft: Draft, member: MemberIdentity, group: LiveGroup) -> MemberResponse:
        id_, instance_id = member.member_id, member.group_instance_id
        reply = MemberResponse(member_id=id_, group_instance_id=instance_id, error_code=0)
        leaving = id_ or (group.static.get(instance_id, "") if instance_id is not None else "")
        try:
            if leaving not in group.pending:
                group.check_member(leaving, instance_id)
        except KafkaError as error:
            return replace(reply, error_code=error.code)
        self.rebalance.dismiss(draft, group, leaving)
        return reply


class _Asked:
    """A JoinGroup request, and who waits for its answer."""

    __slots__ = ("client", "protocols", "rebalance_timeout_ms", "request", "token")

    def __init__(self, request: JoinGroupRequest, client: Client, token: Hashable) -> None:
        self.request = request
        self.client = client
        self.token = token
        self.protocols: Protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
        # Version 0 knows one timeout only.
        self.rebalance_timeout_ms = request.rebalance_timeout_ms if client.api_version else request.session_timeout_ms


def hyphenated(id_: Uuid) -> str:
    """An id in the form that classic member ids end with."""
    text = id_.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _nobody_yet(now_ms: int) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=now_ms, members=[]
    )


def _differs(said: str | None, is_: str | None) -> bool:
    return said is not None and is_ is not None and said != is_
