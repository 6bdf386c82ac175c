"""The group coordinator of one partition of `__consumer_offsets`: routes by group id and kind of group.

Deciding methods read durable state and return a `Transition`; `replay` is the only writer of durable state. Soft
state (classic groups' rebalances, parked requests, deadlines) is changed by deciding, and dies with the shard. Reading
methods return what they found.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

from kavka.coordinator import describing
from kavka.coordinator.classic.live import GroupState
from kavka.coordinator.classic.machine import ClassicGroups
from kavka.coordinator.classic.replies import join_refused
from kavka.coordinator.classic.state import ClassicGroup
from kavka.coordinator.classic.state import without_group as without_classic_group
from kavka.coordinator.consumer.change import GroupChange
from kavka.coordinator.consumer.classic_members import ClassicMembers
from kavka.coordinator.consumer.entries import without_group as without_consumer_group
from kavka.coordinator.consumer.machine import ConsumerGroups
from kavka.coordinator.consumer.state import LEFT, LEFT_SEAT, ConsumerGroup
from kavka.coordinator.consumer.validation import check_heartbeat
from kavka.coordinator.context import ShardContext
from kavka.coordinator.offsets import machine as offsets
from kavka.coordinator.offsets.fencing import (
    CheckPartition,
    check_classic_commit,
    check_classic_delete,
    check_classic_transaction,
    check_consumer_commit,
    check_consumer_fetch,
    check_consumer_transaction,
)
from kavka.coordinator.offsets.state import NO_PRODUCER
from kavka.coordinator.record import Record
from kavka.coordinator.requests import Client, Draft, Match
from kavka.coordinator.settings import CoordinatorSettings
from kavka.coordinator.state import Group, ShardState
from kavka.coordinator.timers import EXPIRE, HEARTBEAT, JOIN, SYNC, TimerKey
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.model.errors import (
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    InvalidSessionTimeout,
    KafkaError,
    NonEmptyGroup,
    NotCoordinator,
    UnknownMemberId,
)
from kavka.model.settings.values import Values
from kavka.model.transition import Answer, Divisible, Transition
from kavka.model.types import Uuid
from kavka.protocol.schemas.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kavka.protocol.schemas.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kavka.protocol.schemas.delete_groups import DeletableGroupResult
from kavka.protocol.schemas.describe_groups import DescribedGroup
from kavka.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupResponse
from kavka.protocol.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from kavka.protocol.schemas.list_groups import ListedGroup
from kavka.protocol.schemas.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kavka.protocol.schemas.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupResponse

_EXPIRE_KEY: Final = TimerKey(EXPIRE)
_CLASSIC_TIMERS: Final = frozenset((HEARTBEAT, JOIN, SYNC))
_EXPIRE_AT_ONCE: Final = 500
"""How many groups or tombstones one step of expiry makes, so that it never takes long."""


class GroupCoordinator:
    """The machine of one shard."""

    def __init__(self, values: Values, image: MetadataImage, *, new_id: Callable[[], Uuid], match: Match) -> None:
        self.state = ShardState()
        self._context = ShardContext(CoordinatorSettings(values), image, new_id, match)
        self._classic = ClassicGroups(self._context)
        self._consumers = ConsumerGroups(self._context, self.state, self._classic)
        self._classic_members = ClassicMembers(self._context, self._consumers)
        self._to_expire: list[str] = []

    # -- the shard's life -------------------------------------------------------------------------

    def replay(self, record: Record, offset: int, producer_id: int = NO_PRODUCER) -> None:
        """Take in a record of the log: while loading, and right after appending what was decided."""
        self.state.replay(record, offset, producer_id)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Take in a transaction marker of the log."""
        self.state.replay_end_transaction(producer_id, committed=committed)

    def on_loaded(self, now_ms: int) -> Transition[None]:
        """Begin to serve: everybody gets a full session to be heard of."""
        draft = Draft()
        for group_id, group in self.state.groups.items():
            if isinstance(group, ConsumerGroup):
                self._consumers.on_loaded(draft, group_id, group, now_ms)
            else:
                self._classic.on_loaded(draft, group_id, group, now_ms)
        check_at_ms = now_ms + self._context.settings.offsets_check_interval_ms
        draft.effects += self._context.deadlines.put(_EXPIRE_KEY, check_at_ms)
        return draft.done(None)

    def on_unloaded(self) -> tuple[Answer, ...]:
        """Stop serving: whoever waits must look for the new coordinator."""
        return tuple(Answer(token, NotCoordinator()) for token in self._classic.parked())

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta) -> Transition[None]:
        """Go by a later image of the cluster's metadata; what was committed for deleted topics is forgotten."""
        names = self._context.topics.move(image, delta)
        self._context.reconfigured(delta.configs)
        if names:
            self._consumers.topics_changed(names)
        gone = [(topic.name, topic_id) for topic_id, topic in delta.deleted_topics.items()]
        return Transition(None, Divisible(offsets.forget_topics(self.state.offsets, gone)))

    def on_settings(self, values: Values) -> None:
        """Go by other settings of the node."""
        self._context.configure(CoordinatorSettings(values))

    def on_timer(self, key: TimerKey, now_ms: int) -> Transition[Any]:
        """A timer has gone off."""
        over, effects = self._context.deadlines.fire(key, now_ms)
        if not over:
            return Transition(None, (), effects)
        if key == _EXPIRE_KEY:
            return self._expire(now_ms)
        if key.kind in _CLASSIC_TIMERS:
            draft = Draft()
            self._classic.on_timer(draft, key, now_ms)
            return draft.done(None)
        return self._consumers.on_timer(key, now_ms)

    # -- members ----------------------------------------------------------------------------------

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Transition[ConsumerGroupHeartbeatResponse]:
        """Join, stay in or leave a consumer group."""
        check_heartbeat(request, client.api_version, self._context.settings.assignors)
        if request.member_epoch in (LEFT, LEFT_SEAT):
            return self._consumers.leave(request, now_ms)
        return self._consumers.heartbeat(request, client, now_ms)

    def join_group(
        self, request: JoinGroupRequest, client: Client, token: Hashable, now_ms: int
    ) -> Transition[JoinGroupResponse]:
        """Become a member by the classic protocol; parked while others are waited for. Errors are in the reply."""
        settings, version = self._context.settings, client.api_version
        if not request.group_id:
            return Transition(join_refused(InvalidGroupId.code, request.member_id, version))
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            return Transition(join_refused(InvalidSessionTimeout.code, request.member_id, version))
        group = self.state.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and group.members:
            return self._classic_members.join(request, client, group, now_ms)
        draft = Draft()
        stored = group if isinstance(group, ClassicGroup) else None
        reply = self._classic.join(draft, request, client, token, stored, now_ms)
        if isinstance(group, ConsumerGroup) and draft.records:
            draft.records[:0] = without_consumer_group(request.group_id, group)
            self._consumers.forget(draft, request.group_id, (), group_too=True)
        return draft.done(reply)

    def sync_group(self, request: SyncGroupRequest, token: Hashable, now_ms: int) -> Transition[SyncGroupResponse]:
        """Ask for an assignment by the classic protocol; parked until the group's leader brings it."""
        group = self._named(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.sync(request, group, now_ms)
        if group is None:
            raise UnknownMemberId(f"there is no group {request.group_id}")
        live = self._classic.live(request.group_id, group)
        draft = Draft()
        return draft.done(self._classic.sync(draft, request, token, live, now_ms))

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Transition[HeartbeatResponse]:
        """Stay a member by the classic protocol."""
        group = self._named(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self._classic_members.heartbeat(request, group, now_ms)
        if group is None:
            raise UnknownMemberId(f"there is no group {request.group_id}")
        return self._classic.heartbeat(request, self._classic.live(request.group_id, group), now_ms)

    def leave_group(self, request: LeaveGroupRequest, client: Client, now_ms: int) -> Transition[LeaveGroupResponse]:
        """End memberships by the classic protocol."""
        group = self._named(request.group_id)
        members = request.members if client.api_version >= 3 else [MemberIdentity(member_id=request.member_id)]
        draft = Draft()
        if group is None:
            replies = [
                MemberResponse(
                    member_id=each.member_id,
                    group_instance_id=each.group_instance_id,
                    error_code=UnknownMemberId.code,
                )
                for each in members
            ]
        elif isinstance(group, ConsumerGroup):
            draft = change = GroupChange(self._context, request.group_id, group, now_ms)
            replies = self._classic_members.leave(change, members)
        else:
            replies = self._classic.leave(draft, members, self._classic.live(request.group_id, group), now_ms)
        if client.api_version >= 3:
            return draft.done(LeaveGroupResponse(error_code=0, members=replies))
        return draft.done(LeaveGroupResponse(error_code=replies[0].error_code))

    def _named(self, group_id: str) -> Group | None:
        if not group_id:
            raise InvalidGroupId("a group id is missing")
        return self.state.groups.get(group_id)

    # -- offsets ----------------------------------------------------------------------------------

    def commit_offsets(
        self, request: OffsetCommitRequest, client: Client, now_ms: int
    ) -> Transition[OffsetCommitResponse]:
        """Remember how far a group has read; topics carry their names, and from version 10 on their ids as well."""
        draft = Draft()
        check = self._check_commit(draft, request, client, now_ms)
        reply, records = offsets.commit(request, self._context.settings, check, now_ms)
        draft.records += records
        return draft.done(reply)

    def _check_commit(
        self, draft: Draft, request: OffsetCommitRequest, client: Client, now_ms: int
    ) -> CheckPartition | None:
        group = self.state.groups.get(request.group_id)
        if group is None:
            if request.generation_id_or_member_epoch < 0:
                return None
            if client.api_version >= 9:
                raise GroupIdNotFound(f"there is no group {request.group_id}")
            raise IllegalGeneration(f"there is no group {request.group_id}")
        if isinstance(group, ConsumerGroup):
            return check_consumer_commit(group, request, client.api_version)
        live = self._classic.peek(request.group_id, group)
        check_classic_commit(live, request)
        if live.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self._classic.rebalance.hear(draft, live, live.members[request.member_id], now_ms)
        return None

    def commit_transactional_offsets(
        self, request: OffsetCommitRequest, now_ms: int
    ) -> Transition[OffsetCommitResponse]:
        """Remember how far a group has read, for when the transaction that says so is committed."""
        group = self._named(request.group_id)
        check: CheckPartition | None = None
        if group is None:
            if request.generation_id_or_member_epoch >= 0:
                raise IllegalGeneration(f"there is no group {request.group_id}")
        elif isinstance(group, ConsumerGroup):
            check = check_consumer_transaction(group, request)
        else:
            check_classic_transaction(self._classic.peek(request.group_id, group), request)
        reply, records = offsets.commit(request, self._context.settings, check, now_ms)
        return Transition(reply, tuple(records))

    def fetch_offsets(self, request: OffsetFetchRequestGroup, *, stable: bool) -> OffsetFetchResponseGroup:
        """How far a group has read; `stable` refuses partitions that an open transaction commits for."""
        group = self.state.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            check_consumer_fetch(group, request)
        return offsets.fetch(self.state.offsets, request, stable=stable)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Transition[OffsetDeleteResponse]:
        """Forget offsets of topics that the group does not read."""
        group = self._named(request.group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {request.group_id}")
        if isinstance(group, ConsumerGroup):
            is_subscribed = offsets.consumer_ageing(group).is_subscribed
        else:
            live = self._classic.peek(request.group_id, group)
            check_classic_delete(live)
            is_subscribed = live.is_subscribed
        reply, records = offsets.delete(self.state.offsets, request, is_subscribed)
        return Transition(reply, tuple(records))

    # -- groups -----------------------------------------------------------------------------------

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
        """The groups of this shard that are in some states and of some kinds."""
        wanted_states, wanted_types = describing.filter_of(states), describing.filter_of(types)
        found = (
            describing.listed(id_, group if isinstance(group, ConsumerGroup) else self._classic.peek(id_, group))
            for id_, group in self.state.groups.items()
        )
        return [group for group in found if describing.is_wanted(group, wanted_states, wanted_types)]

    def describe_groups(self, group_ids: Iterable[str], api_version: int) -> list[DescribedGroup]:
        """Classic groups with their members."""
        found = []
        for id_ in group_ids:
            group = self.state.groups.get(id_)
            if isinstance(group, ClassicGroup):
                found.append(describing.described(self._classic.peek(id_, group)))
            else:
                why = f"Group {id_} not found." if group is None else f"Group {id_} is not a classic group."
                found.append(describing.not_described(id_, api_version, why))
        return found

    def describe_consumer_groups(self, group_ids: Iterable[str]) -> list[DescribedConsumerGroup]:
        """Consumer groups with their members."""
        found = []
        for id_ in group_ids:
            group = self.state.groups.get(id_)
            if isinstance(group, ConsumerGroup):
                default = self._context.settings.assignors[0]
                found.append(describing.described_consumer(id_, group, self._context.topics, default))
            else:
                why = f"Group {id_} not found." if group is None else f"Group {id_} is not a consumer group."
                found.append(describing.not_described_consumer(id_, why))
        return found

    def delete_groups(self, group_ids: Sequence[str]) -> Transition[list[DeletableGroupResult]]:
        """Delete empty groups, with their offsets."""
        draft = Draft()
        results = []
        for id_ in dict.fromkeys(group_ids):
            error_code = 0
            try:
                group = self.state.groups.get(id_)
                if group is None:
                    raise GroupIdNotFound(f"there is no group {id_}")
                if not self._is_empty(id_, group):
                    raise NonEmptyGroup(f"{id_} has members")
                draft.records += offsets.forget_group(self.state.offsets, id_)
                self._delete(draft, id_, group)
            except KafkaError as error:
                error_code = error.code
            results.append(DeletableGroupResult(group_id=id_, error_code=error_code))
        return draft.done(results)

    def _is_empty(self, group_id: str, group: Group) -> bool:
        if isinstance(group, ConsumerGroup):
            return not group.members
        return self._classic.peek(group_id, group).state is GroupState.EMPTY

    def _delete(self, draft: Draft, group_id: str, group: Group) -> None:
        if isinstance(group, ConsumerGroup):
            self._consumers.delete(draft, group_id, group)
        else:
            self._classic.retire(draft, group_id)
            draft.records.append(without_classic_group(group_id))

    def _expire(self, now_ms: int) -> Transition[None]:
        """Forget offsets that are too old, and empty groups without any; a part of the groups at a time."""
        draft = Draft()
        settings = self._context.settings
        if not self._to_expire:
            self._to_expire = list(self.state.groups)
        for _ in range(_EXPIRE_AT_ONCE):
            if not self._to_expire or len(draft.records) >= _EXPIRE_AT_ONCE:
                break
            id_ = self._to_expire.pop()
            group = self.state.groups.get(id_)
            if group is not None:
                self._expire_group(draft, id_, group, settings.offsets_retention_ms, now_ms)
        next_ms = now_ms if self._to_expire else now_ms + settings.offsets_check_interval_ms
        draft.effects += self._context.deadlines.put(_EXPIRE_KEY, next_ms)
        return Transition(None, Divisible(draft.records), tuple(draft.effects))

    def _expire_group(self, draft: Draft, group_id: str, group: Group, retention_ms: int, now_ms: int) -> None:
        if isinstance(group, ConsumerGroup):
            ageing: offsets.Ageing | None = offsets.consumer_ageing(group)
            may_go = not group.members
        else:
            live = self._classic.peek(group_id, group)
            ageing = offsets.classic_ageing(live)
            may_go = live.state is GroupState.EMPTY and not live.pending
        records, none_left = offsets.expire(self.state.offsets, group_id, ageing, retention_ms, now_ms)
        draft.records += records
        if none_left and may_go:
            self._delete(draft, group_id, group)
