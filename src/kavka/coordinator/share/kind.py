"""Share groups (KIP-932) as a kind of group.

Members come and go by ShareGroupHeartbeat alone. What is to be done by the share coordinator is published
(`InitializeStates`) or returned (`DeleteStates`); whoever does it tells this kind how it went.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kavka.coordinator.context import ShardContext
from kavka.coordinator.kind import GroupKind, Kinds
from kavka.coordinator.requests import Client, Draft
from kavka.coordinator.share import describing, states
from kavka.coordinator.share.change import ShareChange
from kavka.coordinator.share.entries import without_group
from kavka.coordinator.share.records import RECORDS
from kavka.coordinator.share.settings import ShareGroupSettings, ShareSettings
from kavka.coordinator.share.state import LEFT, Member, ShareGroup, replay
from kavka.coordinator.share.states import DeleteStates, InitializeStates, PartitionSets
from kavka.coordinator.state import ShardState
from kavka.coordinator.timers import TimerKey
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import ConfigResource, ResourceType
from kavka.model.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    NonEmptyGroup,
    UnknownMemberId,
)
from kavka.model.settings.values import Values
from kavka.model.transition import Publish, Transition
from kavka.model.types import Uuid
from kavka.protocol.schemas.list_groups import ListedGroup
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup
from kavka.protocol.schemas.share_group_describe import DescribedGroup
from kavka.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

SESSION: Final = "share session"
"""The timer of a member that is silent."""


class ShareKind(GroupKind[ShareGroup]):
    """The share groups of a shard."""

    name = "share"
    group = ShareGroup
    records = RECORDS
    timers = frozenset((SESSION,))
    replay = staticmethod(replay)

    def __init__(self, context: ShardContext, state: ShardState, kinds: Kinds) -> None:
        self._context = context
        self._state = state
        self._settings = ShareSettings(context.settings.values)
        self._settled: set[str] = set()
        """Groups in which nothing is to be done until someone says something new."""
        self._begun_ms: dict[str, int] = {}
        """When states of a group were last begun to be initialized."""

    def settings_of(self, group_id: str) -> ShareGroupSettings:
        """The settings of one group, as they are now."""
        texts = self._context.topics.image.configs.of(ConfigResource(ResourceType.GROUP, group_id))
        return self._settings.of_group(texts)

    # -- ShareGroupHeartbeat, ShareGroupDescribe ----------------------------------------------------

    def share_group_heartbeat(
        self, request: ShareGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Transition[ShareGroupHeartbeatResponse]:
        """Join, stay in or leave a share group."""
        check_heartbeat(request)
        if request.member_epoch == LEFT:
            return self._leave(request, now_ms)
        joins = request.member_epoch == 0
        group = self._known(request.group_id, create=joins)
        self._check_room(group, request.member_id)
        before = self._seat(group, request, joins)
        if self._is_steady(group, before, request, client):
            settings = self.settings_of(request.group_id)
            effects = self._hear(request.group_id, before.id, now_ms + settings.session_timeout_ms)
            return Transition(_reply(before, settings), (), effects)
        return self._heartbeat(ShareChange(self._context, request.group_id, group, now_ms), before, request, client)

    def _heartbeat(
        self, change: ShareChange, before: Member, request: ShareGroupHeartbeatRequest, client: Client
    ) -> Transition[ShareGroupHeartbeatResponse]:
        group_id, names = request.group_id, request.subscribed_topic_names
        settings = self.settings_of(group_id)
        after = replace(
            before,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            topics=before.topics if names is None else frozenset(names),
            client_id=client.id,
            client_host=client.host,
        )
        pending = (
            bool(change.group.members) and change.group.assignment_epoch >= change.group.epoch and change.is_pending
        )
        change.put_member(after)
        changed = change.refresh(before.topics != after.topics or pending)
        change.assign(settings.assignment_interval_ms)
        moved = change.reconcile(after, changed)
        self._initialize(change)
        change.effects += self._hear(group_id, after.id, change.now_ms + settings.session_timeout_ms)
        tell = request.member_epoch == 0 or names is not None or moved.assigned != before.assigned
        return change.done(_reply(moved, settings, tell=tell))

    def _is_steady(
        self, group: ShareGroup | None, member: Member, request: ShareGroupHeartbeatRequest, client: Client
    ) -> bool:
        """Whether nobody has anything new to say: what nearly every heartbeat is like."""
        return (
            group is not None
            and request.group_id in self._settled
            and request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
            and request.subscribed_topic_names is None
            and request.rack_id is None
            and (client.id, client.host) == (member.client_id, member.client_host)
        )

    def _initialize(self, change: ShareChange) -> None:
        """Have missing states initialized; then a group may be settled."""
        id_, now_ms = change.group_id, change.now_ms
        begun_ms = self._begun_ms.get(id_)
        retry = begun_ms is None or now_ms - begun_ms >= self._settings.initialize_retry_ms
        wanted = states.begin(change, self._context.topics, retry=retry)
        if wanted is not None:
            self._begun_ms[id_] = now_ms
            change.effects.append(Publish(wanted))
        group = change.group
        if change.states.initializing or group.assignment_epoch < group.epoch or change.is_pending:
            self._settled.discard(id_)
        else:
            self._settled.add(id_)

    def describe(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """Share groups with their members."""
        found = []
        for id_ in group_ids:
            group = self._state.groups.get(id_)
            if isinstance(group, ShareGroup):
                found.append(describing.described(id_, group, self._context.topics))
            else:
                why = f"Group {id_} not found." if group is None else f"Group {id_} is not a share group."
                found.append(describing.not_described(id_, why))
        return found

    # -- members ----------------------------------------------------------------------------------

    def _known(self, group_id: str, *, create: bool = False) -> ShareGroup | None:
        """A share group, or None if one is to be made; raises GroupIdNotFound."""
        group = self._state.groups.get(group_id)
        if group is None and create:
            return None
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFound(f"there is no share group {group_id}")
        return group

    def _empty(self, group_id: str, *, create: bool = False) -> ShareGroup | None:
        group = self._known(group_id, create=create)
        if group is not None and group.members:
            raise NonEmptyGroup(f"{group_id} has members")
        return group

    def _check_room(self, group: ShareGroup | None, member_id: str) -> None:
        count = 0 if group is None else len(group.members)
        if group is not None and count >= self._settings.max_size and member_id not in group.members:
            raise GroupMaxSizeReached(f"the group has {count} members already")

    def _seat(self, group: ShareGroup | None, request: ShareGroupHeartbeatRequest, joins: bool) -> Member:
        member = None if group is None else group.members.get(request.member_id)
        if member is None:
            if not joins:
                raise UnknownMemberId(f"{request.member_id} is no member of {request.group_id}")
            return Member(request.member_id)
        epoch = request.member_epoch
        if epoch not in (0, member.epoch) and (epoch > member.epoch or epoch != member.previous_epoch):
            raise FencedMemberEpoch(f"{member.id} is at epoch {member.epoch}, not {epoch}, and must join anew")
        return member

    def _leave(self, request: ShareGroupHeartbeatRequest, now_ms: int) -> Transition[ShareGroupHeartbeatResponse]:
        group = self._known(request.group_id)
        if group is None or request.member_id not in group.members:
            raise UnknownMemberId(f"{request.member_id} is no member of {request.group_id}")
        change = ShareChange(self._context, request.group_id, group, now_ms)
        self._remove(change, request.member_id)
        reply = ShareGroupHeartbeatResponse(
            error_code=0,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=0,
        )
        return change.done(reply)

    def _remove(self, change: ShareChange, member_id: str) -> None:
        change.remove_member(member_id)
        self._settled.discard(change.group_id)
        change.effects += self._context.deadlines.drop(TimerKey(SESSION, change.group_id, member_id))

    def _hear(self, group_id: str, member_id: str, until_ms: int) -> tuple[Any, ...]:
        return self._context.deadlines.put(TimerKey(SESSION, group_id, member_id), until_ms)

    # -- the states of partitions ---------------------------------------------------------------------

    def initialized(self, group_id: str, done: PartitionSets, now_ms: int) -> Transition[None]:
        """The share coordinator has initialized states."""
        return self._change(group_id, now_ms, lambda change: states.initialized(change, self._context.topics, done))

    def not_initialized(self, group_id: str, failed: PartitionSets, now_ms: int) -> Transition[None]:
        """The share coordinator could not initialize states."""
        return self._change(group_id, now_ms, lambda change: states.not_initialized(change, failed))

    def initialized_partitions(self, group_id: str) -> PartitionSets:
        """The partitions of a group that have a state: what it is asked for when no topics are named."""
        group = self._state.groups.get(group_id)
        found = group.initialized if isinstance(group, ShareGroup) else {}
        return {id_: topic.partitions for id_, topic in found.items()}

    def alter_offsets(
        self, group_id: str, offsets: Mapping[str, Mapping[int, int]], now_ms: int
    ) -> Transition[InitializeStates]:
        """Have states begin anew at offsets, for a new group if need be; what the reply leaves out is not there."""
        change = ShareChange(self._context, group_id, self._empty(group_id, create=True), now_ms)
        wanted = states.restart(change, self._context.topics, offsets)
        self._settled.discard(group_id)
        self._begun_ms[group_id] = now_ms
        return change.done(wanted)

    def delete_offsets(
        self, group_id: str, topics: Sequence[str], now_ms: int
    ) -> Transition[tuple[DeleteStates, list[str]]]:
        """Have the states of topics deleted; the names of topics that have none come with it."""
        change = ShareChange(self._context, group_id, self._empty(group_id), now_ms)
        return change.done(states.delete_topics(change, self._context.topics, topics))

    def offsets_deleted(self, group_id: str, topic_ids: Iterable[Uuid], now_ms: int) -> Transition[None]:
        """The share coordinator has deleted the states of topics."""
        return self._change(group_id, now_ms, lambda change: states.deleted(change, topic_ids))

    def delete_states(
        self, group_ids: Sequence[str], now_ms: int
    ) -> Transition[dict[str, DeleteStates | NonEmptyGroup]]:
        """What DeleteGroups does first: have all states of groups deleted. Groups of other kinds are passed over."""
        draft = Draft()
        found: dict[str, DeleteStates | NonEmptyGroup] = {}
        for id_ in dict.fromkeys(group_ids):
            group = self._state.groups.get(id_)
            if not isinstance(group, ShareGroup):
                continue
            if group.members:
                found[id_] = NonEmptyGroup(f"{id_} has members")
                continue
            change = ShareChange(self._context, id_, group, now_ms)
            to_delete = states.delete_all(change, self._context.topics)
            draft.records += change.records
            if to_delete is not None:
                found[id_] = to_delete
        return draft.done(found)

    def _change(self, group_id: str, now_ms: int, step: Callable[[ShareChange], None]) -> Transition[None]:
        """Go on with a group, if it is still there."""
        group = self._state.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return Transition(None)
        change = ShareChange(self._context, group_id, group, now_ms)
        step(change)
        self._settled.discard(group_id)
        return change.done(None)

    # -- the shard's life -------------------------------------------------------------------------

    def on_loaded(self, draft: Draft, group_id: str, group: ShareGroup, now_ms: int) -> None:
        """Listen for the members of a group that was loaded; what it was waiting for may yet come."""
        timeout_ms = self.settings_of(group_id).session_timeout_ms
        for id_ in group.members:
            draft.effects += self._hear(group_id, id_, now_ms + timeout_ms)
        if group.states is not None and group.states.initializing:
            self._begun_ms[group_id] = now_ms

    def on_timer(self, key: TimerKey, now_ms: int) -> Transition[Any]:
        """A member was silent for too long."""
        group = self._state.groups.get(key.group)
        if not isinstance(group, ShareGroup) or key.member not in group.members:
            return Transition(None)
        change = ShareChange(self._context, key.group, group, now_ms)
        self._remove(change, key.member)
        return change.done(None)

    def on_metadata(self, draft: Draft, delta: MetadataDelta, topics: set[str]) -> None:
        """The groups that want topics that differ look at them again; the states of deleted ones are gone."""
        if not topics:
            return
        for group_id, group in self._state.groups.items():
            if not isinstance(group, ShareGroup):
                continue
            if not topics.isdisjoint(group.topics):
                self._settled.discard(group_id)
            if delta.deleted_topics and group.states is not None:
                change = ShareChange(self._context, group_id, group, 0)
                states.forget(change, delta.deleted_topics)
                draft.records += change.records

    def on_settings(self, values: Values) -> None:
        """The node's settings have changed."""
        self._settings = ShareSettings(values)

    # -- groups -----------------------------------------------------------------------------------

    def listed(self, group_id: str, group: ShareGroup) -> ListedGroup:
        """A group as ListGroups shows it."""
        return describing.listed(group_id, group, self.name)

    def is_empty(self, group_id: str, group: ShareGroup) -> bool:
        """Whether a group has no members."""
        return not group.members

    def delete(self, draft: Draft, group_id: str, group: ShareGroup) -> None:
        """Write that an empty group is gone; its states are, by `delete_states`."""
        draft.records += without_group(group_id, group)
        self._settled.discard(group_id)
        self._begun_ms.pop(group_id, None)
        self._context.forget(group_id)

    def check_fetch(self, request: OffsetFetchRequestGroup, group: ShareGroup) -> None:
        """Share groups commit no offsets."""
        raise GroupIdNotFound(f"{request.group_id} is a share group, which commits no offsets")


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Raise InvalidRequest for a request that no group could accept."""
    if not request.member_id.strip():
        raise InvalidRequest("a member id is missing")
    if not request.group_id.strip():
        raise InvalidRequest("a group id is missing")
    if request.rack_id is not None and not request.rack_id.strip():
        raise InvalidRequest("the rack id is empty")
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        raise InvalidRequest("a member that joins must send its subscribed topics")
    if request.member_epoch < LEFT:
        raise InvalidRequest(f"{request.member_epoch} is no member epoch")


def _reply(member: Member, settings: ShareGroupSettings, *, tell: bool = False) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        error_code=0,
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        assignment=describing.assignment(member.assigned) if tell else None,
    )
