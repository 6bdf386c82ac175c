"""The group coordinator of one partition of `__consumer_offsets`: routes by group id and kind of group.

Deciding methods read durable state and return a `Transition`; `replay` is the only writer of durable state. Soft
state (classic groups' rebalances, parked requests, deadlines) is changed by deciding, and dies with the shard. Reading
methods return what they found.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final

from kavka.coordinator.classic.kind import ClassicKind
from kavka.coordinator.classic.replies import join_refused
from kavka.coordinator.context import ShardContext
from kavka.coordinator.kind import Kinds, unknown_members
from kavka.coordinator.kinds import KINDS, KindClass, state_of
from kavka.coordinator.listing import filter_of, is_wanted
from kavka.coordinator.offsets import machine as offsets
from kavka.coordinator.offsets.rules import CheckPartition
from kavka.coordinator.offsets.state import NO_PRODUCER
from kavka.coordinator.record import Record
from kavka.coordinator.requests import Client, Draft, Match
from kavka.coordinator.settings import CoordinatorSettings
from kavka.coordinator.timers import EXPIRE, TimerKey
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
from kavka.model.transition import Answer, Divisible, Parked, Transition
from kavka.model.types import Uuid
from kavka.protocol.schemas.delete_groups import DeletableGroupResult
from kavka.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupResponse
from kavka.protocol.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kavka.protocol.schemas.list_groups import ListedGroup
from kavka.protocol.schemas.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kavka.protocol.schemas.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupResponse

_EXPIRE_KEY: Final = TimerKey(EXPIRE)
_EXPIRE_AT_ONCE: Final = 500
"""How many groups or tombstones one step of expiry makes, so that it never takes long."""


class GroupCoordinator:
    """The machine of one shard."""

    def __init__(
        self,
        values: Values,
        image: MetadataImage,
        *,
        new_id: Callable[[], Uuid],
        match: Match,
        kinds: Sequence[KindClass] = KINDS,
    ) -> None:
        self.state = state_of(kinds)
        self._context = ShardContext(CoordinatorSettings(values), image, new_id, match)
        self._kinds = Kinds(kinds, self._context, self.state)
        self._classic = self._kinds.get(ClassicKind)
        self._to_expire: list[str] = []
        self.kind = self._kinds.get
        """A kind of group, for the requests that are for it alone."""

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
            self._kinds.of(group).on_loaded(draft, group_id, group, now_ms)
        check_at_ms = now_ms + self._context.settings.offsets_check_interval_ms
        draft.effects += self._context.deadlines.put(_EXPIRE_KEY, check_at_ms)
        return draft.done(None)

    def on_unloaded(self) -> tuple[Answer, ...]:
        """Stop serving: whoever waits must look for the new coordinator."""
        return tuple(Answer(token, NotCoordinator()) for kind in self._kinds for token in kind.parked())

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta) -> Transition[None]:
        """Go by a later image of the cluster's metadata; what was committed for deleted topics is forgotten."""
        names = self._context.topics.move(image, delta)
        self._context.reconfigured(delta.configs)
        draft = Draft()
        for kind in self._kinds:
            kind.on_metadata(draft, delta, names)
        gone = [(topic.name, topic_id) for topic_id, topic in delta.deleted_topics.items()]
        draft.records += offsets.forget_topics(self.state.offsets, gone)
        return Transition(None, Divisible(draft.records), tuple(draft.effects))

    def on_settings(self, values: Values) -> None:
        """Go by other settings of the node."""
        self._context.configure(CoordinatorSettings(values))
        for kind in self._kinds:
            kind.on_settings(values)

    def on_timer(self, key: TimerKey, now_ms: int) -> Transition[Any]:
        """A timer has gone off."""
        over, effects = self._context.deadlines.fire(key, now_ms)
        if not over:
            return Transition(None, (), effects)
        if key == _EXPIRE_KEY:
            return self._expire(now_ms)
        return self._kinds.of_timer(key).on_timer(key, now_ms)

    # -- the classic protocol -----------------------------------------------------------------------

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
        if group is None:
            return self._classic.join(request, client, token, None, now_ms)
        return self._kinds.of(group).join(request, client, token, group, now_ms)

    def sync_group(self, request: SyncGroupRequest, token: Hashable, now_ms: int) -> Transition[SyncGroupResponse]:
        """Ask for an assignment by the classic protocol; parked until the group's leader brings it."""
        group = self._named(request.group_id)
        if group is None:
            raise UnknownMemberId(f"there is no group {request.group_id}")
        return self._kinds.of(group).sync(request, token, group, now_ms)

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> Transition[HeartbeatResponse]:
        """Stay a member by the classic protocol."""
        group = self._named(request.group_id)
        if group is None:
            raise UnknownMemberId(f"there is no group {request.group_id}")
        return self._kinds.of(group).heartbeat(request, group, now_ms)

    def leave_group(self, request: LeaveGroupRequest, client: Client, now_ms: int) -> Transition[LeaveGroupResponse]:
        """End memberships by the classic protocol."""
        group = self._named(request.group_id)
        members = request.members if client.api_version >= 3 else [MemberIdentity(member_id=request.member_id)]
        if group is None:
            found = Transition(unknown_members(members))
        else:
            found = self._kinds.of(group).leave(request.group_id, members, group, now_ms)
        rows = found.reply
        assert not isinstance(rows, Parked)
        if client.api_version >= 3:
            reply = LeaveGroupResponse(error_code=0, members=rows)
        else:
            reply = LeaveGroupResponse(error_code=rows[0].error_code)
        return Transition(reply, found.records, found.effects)

    def _named(self, group_id: str) -> Any | None:
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
        return self._kinds.of(group).check_commit(draft, request, client, group, now_ms)

    def commit_transactional_offsets(
        self, request: OffsetCommitRequest, now_ms: int
    ) -> Transition[OffsetCommitResponse]:
        """Remember how far a group has read, for when the transaction that says so is committed."""
        group = self._named(request.group_id)
        check: CheckPartition | None = None
        if group is None:
            if request.generation_id_or_member_epoch >= 0:
                raise IllegalGeneration(f"there is no group {request.group_id}")
        else:
            check = self._kinds.of(group).check_transactional_commit(request, group)
        reply, records = offsets.commit(request, self._context.settings, check, now_ms)
        return Transition(reply, tuple(records))

    def fetch_offsets(self, request: OffsetFetchRequestGroup, *, stable: bool) -> OffsetFetchResponseGroup:
        """How far a group has read; `stable` refuses partitions that an open transaction commits for."""
        group = self.state.groups.get(request.group_id)
        if group is not None:
            self._kinds.of(group).check_fetch(request, group)
        return offsets.fetch(self.state.offsets, request, stable=stable)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Transition[OffsetDeleteResponse]:
        """Forget offsets of topics that the group does not read."""
        group = self._named(request.group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no group {request.group_id}")
        is_subscribed = self._kinds.of(group).subscribed(request.group_id, group)
        reply, records = offsets.delete(self.state.offsets, request, is_subscribed)
        return Transition(reply, tuple(records))

    # -- groups -----------------------------------------------------------------------------------

    def list_groups(
        self, ids: Iterable[str], states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[ListedGroup]:
        """Those of these groups that are there, in some states and of some kinds."""
        wanted_states, wanted_types = filter_of(states), filter_of(types)
        known = self.state.groups
        found = (self._kinds.of(known[id_]).listed(id_, known[id_]) for id_ in ids if id_ in known)
        return [group for group in found if is_wanted(group, wanted_states, wanted_types)]

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
                kind = self._kinds.of(group)
                if not kind.is_empty(id_, group):
                    raise NonEmptyGroup(f"{id_} has members")
                draft.records += offsets.forget_group(self.state.offsets, id_)
                kind.delete(draft, id_, group)
            except KafkaError as error:
                error_code = error.code
            results.append(DeletableGroupResult(group_id=id_, error_code=error_code))
        return draft.done(results)

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

    def _expire_group(self, draft: Draft, group_id: str, group: Any, retention_ms: int, now_ms: int) -> None:
        kind = self._kinds.of(group)
        ageing = kind.ageing(group_id, group)
        records, none_left = offsets.expire(self.state.offsets, group_id, ageing, retention_ms, now_ms)
        draft.records += records
        if none_left and kind.may_expire(group_id, group):
            kind.delete(draft, group_id, group)
