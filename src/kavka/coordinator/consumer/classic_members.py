"""Members of consumer groups that use the classic protocol: what a group has while it migrates.

They join, sync and heartbeat as in a classic group, but nobody waits for anybody: a join answers at once with the
member's epoch as the generation, and the assignment of a sync is the coordinator's own.
"""

from __future__ import annotations

from dataclasses import replace

from kavka.coordinator.classic.embedded import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    read_subscription,
    version_of,
    write_assignment,
)
from kavka.coordinator.classic.replies import join_refused, sync_refused
from kavka.coordinator.consumer.change import GroupChange
from kavka.coordinator.consumer.machine import ConsumerGroups
from kavka.coordinator.consumer.migration import can_downgrade_by, classic_metadata
from kavka.coordinator.consumer.records import ClassicMemberMetadata
from kavka.coordinator.consumer.state import ConsumerGroup, Member, MemberState
from kavka.coordinator.context import ShardContext
from kavka.coordinator.requests import Client
from kavka.coordinator.timers import REJOIN, RESYNC, SESSION, TimerKey
from kavka.model.errors import (
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MalformedMessage,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownServerError,
)
from kavka.model.transition import Effect, Transition
from kavka.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupResponse
from kavka.protocol.schemas.leave_group import MemberIdentity, MemberResponse
from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicMembers:
    """The classic protocol in the consumer groups of a shard."""

    def __init__(self, context: ShardContext, consumers: ConsumerGroups) -> None:
        self._context = context
        self._consumers = consumers

    # -- JoinGroup --------------------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, client: Client, group: ConsumerGroup, now_ms: int
    ) -> Transition[JoinGroupResponse]:
        """Become, or stay, a member of a consumer group that is not empty."""
        version = client.api_version
        id_ = request.member_id or str(self._context.new_id())
        try:
            self._check_join(request, group, id_)
            if not request.member_id and request.group_instance_id is None and version >= 4:  # KIP-394
                return Transition(join_refused(MemberIdRequired.code, id_, version))
            return self._join(request, client, group, id_, now_ms)
        except KafkaError as error:
            return Transition(join_refused(error.code, "", version))

    def _check_join(self, request: JoinGroupRequest, group: ConsumerGroup, id_: str) -> None:
        if not self._context.settings.may_migrate:
            raise InconsistentGroupProtocol(f"{request.group_id} is a consumer group, and migration is disabled")
        self._consumers.check_room(group, id_)
        names = [protocol.name for protocol in request.protocols]
        if request.protocol_type != PROTOCOL_TYPE or not any(
            group.classic_protocols.get(name, 0) == group.classic_count for name in names
        ):
            raise InconsistentGroupProtocol(f"no member of {request.group_id} knows {', '.join(names)}")

    def _join(
        self, request: JoinGroupRequest, client: Client, group: ConsumerGroup, id_: str, now_ms: int
    ) -> Transition[JoinGroupResponse]:
        subscription = _read(request)
        seated = group.static_member(request.group_instance_id)
        change = GroupChange(self._context, request.group_id, group, now_ms)
        before = self._seat(change, request, id_)
        after = _told(before, request, client, subscription)
        change.put_member(after)
        changed = self._consumers.subscribe(change, before, after, client)
        moved = after
        downgrades = seated is not None and can_downgrade_by(group, seated, self._context.settings)
        owned = [
            (topic_id, topic.partitions)
            for topic in subscription.owned_partitions
            if (topic_id := self._context.topics.id_of(topic.topic)) is not None
        ]
        if downgrades:
            stale = _is_stale(change.group, id_)
            if not stale:
                moved = change.reconcile(after, owned, changed)
            downgrades = self._consumers.downgrade(change, group, change.group, group.epoch, rebalance=stale)
        if not downgrades:
            change.assign()
            moved = change.reconcile(after, owned, changed)
            self._settle(change, id_, request.session_timeout_ms, moved.rebalance_timeout_ms)
        return change.done(_accepted(moved, request.protocols[0].name))

    def _seat(self, change: GroupChange, request: JoinGroupRequest, id_: str) -> Member:
        instance_id = request.group_instance_id
        if instance_id is None:
            return change.group.members.get(id_) or Member(id_)
        seated = change.group.static_member(instance_id)
        if not request.member_id:
            return Member(id_) if seated is None else change.take_seat(seated, id_)
        return _check_member(change.group, id_, instance_id)

    def _settle(self, change: GroupChange, id_: str, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        deadlines, group_id = self._context.deadlines, change.group_id
        self._consumers.mark_checked(group_id)
        self._consumers.hear(change, id_, session_timeout_ms)
        change.effects += deadlines.drop(TimerKey(REJOIN, group_id, id_))
        change.effects += deadlines.put(TimerKey(RESYNC, group_id, id_), change.now_ms + max(rebalance_timeout_ms, 0))

    # -- SyncGroup, Heartbeat, LeaveGroup ---------------------------------------------------------

    def sync(self, request: SyncGroupRequest, group: ConsumerGroup, now_ms: int) -> Transition[SyncGroupResponse]:
        """Ask for the assignment of this epoch."""
        member, classic = _check_classic(group, request.member_id, request.group_instance_id, request.generation_id)
        protocol = classic.supported_protocols[0]
        if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol.name):
            raise InconsistentGroupProtocol(f"{member.id} joined with {protocol.name}")
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            effects = self._wait_for_join(request.group_id, member, now_ms)
            return Transition(sync_refused(RebalanceInProgress.code), (), effects)
        assigned = self._context.topics.named(member.assigned)
        reply = SyncGroupResponse(
            error_code=0,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(assigned, version_of(protocol.metadata)),
        )
        effects = self._context.deadlines.drop(TimerKey(RESYNC, request.group_id, member.id))
        return Transition(reply, (), effects + self._hear(request.group_id, member.id, classic, now_ms))

    def heartbeat(self, request: HeartbeatRequest, group: ConsumerGroup, now_ms: int) -> Transition[HeartbeatResponse]:
        """Stay a member; says when it must join again, to give something back or to get something."""
        member, classic = _check_classic(group, request.member_id, request.group_instance_id, request.generation_id)
        effects = self._hear(request.group_id, member.id, classic, now_ms)
        error_code = 0
        if (
            member.epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member))
        ):
            error_code = RebalanceInProgress.code
            effects += self._wait_for_join(request.group_id, member, now_ms)
        return Transition(HeartbeatResponse(error_code=error_code), (), effects)

    def leave(self, change: GroupChange, members: list[MemberIdentity]) -> list[MemberResponse]:
        """End memberships; an instance id without a member id names whoever has the seat."""
        replies, leaving = [], {}
        for each in members:
            error_code = 0
            try:
                member = _leaving(change.group, each)
                leaving[member.id] = member
            except KafkaError as error:
                error_code = error.code
            replies.append(
                MemberResponse(
                    member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error_code
                )
            )
        self._consumers.fence(change, list(leaving.values()))
        return replies

    def _hear(self, group_id: str, member_id: str, classic: ClassicMemberMetadata, now_ms: int) -> tuple[Effect, ...]:
        key = TimerKey(SESSION, group_id, member_id)
        return self._context.deadlines.put(key, now_ms + classic.session_timeout_ms)

    def _wait_for_join(self, group_id: str, member: Member, now_ms: int) -> tuple[Effect, ...]:
        key = TimerKey(REJOIN, group_id, member.id)
        if key in self._context.deadlines:
            return ()
        return self._context.deadlines.put(key, now_ms + max(member.rebalance_timeout_ms, 0))


def _read(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(request.protocols[0].metadata)
    except MalformedMessage as error:
        raise UnknownServerError(f"the subscription cannot be read: {error}") from None


def _is_stale(group: ConsumerGroup, joins: str) -> bool:
    """Whether members are still on their way: then they cannot just be told the target as their assignment."""
    epoch = group.assignment_epoch
    return epoch < group.epoch or any(
        not member.is_reconciled_to(epoch) for id_, member in group.members.items() if id_ != joins
    )


def _told(
    member: Member, request: JoinGroupRequest, client: Client, subscription: ConsumerProtocolSubscription
) -> Member:
    protocols = [(protocol.name, protocol.metadata) for protocol in request.protocols]
    rebalance_timeout_ms = request.rebalance_timeout_ms if client.api_version else request.session_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=client.id,
        client_host=client.host,
        classic=classic_metadata(request.session_timeout_ms, protocols),
    )


def _accepted(member: Member, protocol: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=0,
        generation_id=member.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
        leader="",
        member_id=member.id,
        members=[],
    )


def _check_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"{member_id} is no member of the group")
        return member
    seated = group.static_member(instance_id)
    if seated is None:
        raise UnknownMemberId(f"no member has the instance id {instance_id}")
    if seated.id != member_id:
        raise FencedInstanceId(f"{member_id} is fenced: {seated.id} has the instance id {instance_id}")
    return seated


def _check_classic(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[Member, ClassicMemberMetadata]:
    member = _check_member(group, member_id, instance_id)
    if member.classic is None:
        raise UnknownMemberId(f"{member_id} does not use the classic protocol")
    if member.epoch != generation:
        raise IllegalGeneration(f"{member_id} is at epoch {member.epoch}, not {generation}")
    return member, member.classic


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> Member:
    if identity.group_instance_id is not None and not identity.member_id:
        seated = group.static_member(identity.group_instance_id)
        if seated is None:
            raise UnknownMemberId(f"no member has the instance id {identity.group_instance_id}")
        return seated
    return _check_member(group, identity.member_id, identity.group_instance_id)
