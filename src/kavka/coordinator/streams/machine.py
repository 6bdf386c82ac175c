"""Streams groups (KIP-1071): StreamsGroupHeartbeat, and members that go or are silent for too long.

Deciding methods change only soft state (`_live`, deadlines), and only once nothing can fail any more; what the log
shall remember they return as records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kavka.coordinator.classic.live import GroupState
from kavka.coordinator.classic.machine import ClassicGroups
from kavka.coordinator.classic.state import ClassicGroup
from kavka.coordinator.classic.state import without_group as without_classic_group
from kavka.coordinator.context import ShardContext
from kavka.coordinator.requests import Client, Draft
from kavka.coordinator.state import ShardState
from kavka.coordinator.streams import describing
from kavka.coordinator.streams.assigning import Assigning
from kavka.coordinator.streams.change import Configured, StreamsChange
from kavka.coordinator.streams.records import Endpoint
from kavka.coordinator.streams.settings import StreamsGroupSettings, StreamsSettings
from kavka.coordinator.streams.state import Member, MemberState, StreamsGroup
from kavka.coordinator.streams.tasks import NO_TASKS, TaskSets, is_within, read_tasks
from kavka.coordinator.streams.topology import ConfiguredInternalTopic, StreamsStatus, StreamsTopology
from kavka.coordinator.streams.validation import check_tasks
from kavka.coordinator.timers import TimerKey
from kavka.coordinator.untold import Untold
from kavka.metadata.image import ConfigResource, ResourceType
from kavka.model.errors import FencedMemberEpoch, GroupIdNotFound, GroupMaxSizeReached, KafkaError, UnknownMemberId
from kavka.model.settings.values import Values
from kavka.model.transition import Transition
from kavka.protocol.schema import replace as replace_field
from kavka.protocol.schemas import streams_group_heartbeat as schema
from kavka.protocol.schemas.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

SESSION: Final = "streams session"
"""A member is silent."""
REVOCATION: Final = "streams revocation"
"""A member does not give tasks back."""
FIRST_ASSIGNMENT: Final = "streams first assignment"
"""Those who join an empty group have had their time to gather."""
ASSIGNMENT: Final = "streams assignment"
"""The next bit of a large assignment is due, at once."""


class StreamsHeartbeat(NamedTuple):
    """The answer to a heartbeat, and the internal topics that it is still without."""

    response: StreamsGroupHeartbeatResponse
    missing: Sequence[ConfiguredInternalTopic] = ()


@dataclass(slots=True)
class LiveStreams:
    """What no log remembers of a group."""

    configured: Configured | None = None
    assigning: Assigning | None = None
    endpoint_epoch: int = 0
    shutdown_by: str | None = None
    """The member that wants all others to stop as well."""


class StreamsGroups:
    """The streams groups of a shard."""

    def __init__(self, context: ShardContext, state: ShardState, classic: ClassicGroups) -> None:
        self._context = context
        self._state = state
        self._classic = classic
        self._settings = StreamsSettings(context.settings.values)
        self._live: dict[str, LiveStreams] = {}
        self._untold = Untold()
        self._revoking: dict[TimerKey, int] = {}
        """The epochs at which members that must give tasks back are stuck."""

    def settings_of(self, group_id: str) -> StreamsGroupSettings:
        """The settings of one group, as they are now."""
        texts = self._context.topics.image.configs.of(ConfigResource(ResourceType.GROUP, group_id))
        return self._settings.of_group(texts)

    def configure(self, values: Values) -> None:
        """The node's settings have changed."""
        self._settings = StreamsSettings(values)

    def configured(self, group_id: str) -> Configured | None:
        """A group's topology with the topics as they are, as far as that was looked at."""
        live = self._live.get(group_id)
        return None if live is None else live.configured

    # -- the heartbeat ----------------------------------------------------------------------------

    def heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Transition[StreamsHeartbeat]:
        """Join, or stay a member and go on with what is to be given back or taken."""
        joins = request.member_epoch == 0
        change = self._open(request.group_id, joins, now_ms)
        is_new = request.group_id not in self._state.groups or bool(change.records)
        was_empty = not change.group.members
        before = self._seat(change.group, request, joins)
        after = _told(before, request, client)
        changed = change.put_member(after)
        topology = change.take_topology(request.topology)
        configured = self.configured(request.group_id) or Configured(self._context, topology)
        if configured.topology.is_ready:
            for named in (request.active_tasks, request.standby_tasks, request.warmup_tasks):
                check_tasks(configured.topology.subtopologies, named)
        settings = self.settings_of(request.group_id)
        change.refresh(configured, settings.assignment_configs, changed=changed)
        target, delayed = self._target(change, after, configured, settings, was_empty)
        moved = change.reconcile(after, target, _owned(request))
        # Nothing fails from here on.
        statuses = [*_stale(after, topology), *delayed, *_troubles(configured)]
        live = self._live.setdefault(request.group_id, LiveStreams())
        live.configured = configured
        self._settle(change, after, moved, settings, was_empty)
        # As in Kafka nothing is kept of endpoints for a group that is made by this very request.
        reply = self._reply(change, request, before, moved, replace(live) if is_new else live, statuses)
        if is_new:
            reply = replace_field(reply, endpoint_information_epoch=0)
        return change.done(StreamsHeartbeat(reply, configured.topology.missing))

    def _open(self, group_id: str, joins: bool, now_ms: int) -> StreamsChange:
        """The group as a streams group; who joins a classic one that is empty makes it one."""
        stored = self._state.groups.get(group_id)
        if isinstance(stored, StreamsGroup):
            if joins and len(stored.members) >= self._settings.max_size:
                raise GroupMaxSizeReached(f"the group has {len(stored.members)} members already")
            return StreamsChange(self._context, group_id, stored, now_ms)
        if stored is None and not joins:
            raise GroupIdNotFound(f"Streams group {group_id} not found.")
        change = StreamsChange(self._context, group_id, None, now_ms)
        if stored is not None:
            is_empty = isinstance(stored, ClassicGroup) and self._is_empty(group_id, stored)
            if not joins or not is_empty:
                raise GroupIdNotFound(f"Group {group_id} is not a streams group.")
            change.records.append(without_classic_group(group_id))
        return change

    def _is_empty(self, group_id: str, stored: ClassicGroup) -> bool:
        return self._classic.peek(group_id, stored).state is GroupState.EMPTY

    def _seat(self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, joins: bool) -> Member:
        """The member that makes a request, which may be new; raises when it may not be who it says."""
        member = group.members.get(request.member_id)
        if member is None:
            if not joins:
                raise UnknownMemberId(f"Member {request.member_id} is not a member of group {request.group_id}.")
            return Member(request.member_id)
        if request.member_epoch in (0, member.epoch):
            return member
        owned = _owned(request)
        if (
            member.epoch > request.member_epoch == member.previous_epoch
            and owned is not None
            and all(map(is_within, owned, member.assigned.sets))
        ):
            return member  # our answer was lost
        raise FencedMemberEpoch(
            f"{member.id} is at epoch {member.epoch}, not {request.member_epoch}: "
            "it must abandon all its tasks and join anew"
        )

    def _target(
        self,
        change: StreamsChange,
        member: Member,
        configured: Configured,
        settings: StreamsGroupSettings,
        was_empty: bool,
    ) -> tuple[TaskSets, list[schema.Status]]:
        """What a member shall have, and why that is not the last word."""
        group_id = change.group_id
        gathering = TimerKey(FIRST_ASSIGNMENT, group_id) in self._context.deadlines
        if gathering or (was_empty and settings.initial_rebalance_delay_ms > 0):
            why = "Assignment delayed due to the configured initial rebalance delay."
            return NO_TASKS, [_status(StreamsStatus.ASSIGNMENT_DELAYED, why)]
        delayed = []
        if not change.is_assigned:
            if change.is_too_early(settings.assignment_interval_ms):
                why = "Assignment delayed due to the configured assignment interval."
                delayed.append(_status(StreamsStatus.ASSIGNMENT_DELAYED, why))
            else:
                change.assign(configured.topology)
            if change.is_left:
                why = "Assignment delayed because it is large, and worked out bit by bit."
                delayed.append(_status(StreamsStatus.ASSIGNMENT_DELAYED, why))
        return change.group.targets.get(member.id, NO_TASKS), delayed

    def _reply(
        self,
        change: StreamsChange,
        request: StreamsGroupHeartbeatRequest,
        before: Member,
        moved: Member,
        live: LiveStreams,
        statuses: list[schema.Status],
    ) -> StreamsGroupHeartbeatResponse:
        news = request.member_epoch == 0 or moved.assigned != before.assigned
        has = describing.said_to_have(moved.assigned, request)
        lacks = request.active_tasks is not None and not has
        told = self._untold.is_to_be_told(
            change.group_id, moved.id, request.member_epoch, news=news, has=has, lacks=lacks
        )
        if news and moved.user_endpoint is not None:
            live.endpoint_epoch += 1
        if request.shutdown_application and live.shutdown_by is None:
            live.shutdown_by = moved.id
        if live.shutdown_by is not None:
            why = (
                f"Streams group member {live.shutdown_by} encountered a fatal error "
                "and requested a shutdown for the entire application."
            )
            statuses.append(_status(StreamsStatus.SHUTDOWN_APPLICATION, why))
        tasks: dict[str, list[schema.TaskIds]] = {}
        if news or told:
            active, standby, warmup = map(describing.task_ids, moved.assigned)
            tasks = {"active_tasks": active, "standby_tasks": standby, "warmup_tasks": warmup}
        endpoints = None
        if live.endpoint_epoch != request.endpoint_information_epoch:
            endpoints = self._endpoints(change.group, moved)
        return _response(
            moved,
            self.settings_of(change.group_id).heartbeat_interval_ms,
            statuses,
            endpoint_information_epoch=live.endpoint_epoch,
            partitions_by_user_endpoint=endpoints,
            **tasks,
        )

    def _endpoints(self, group: StreamsGroup, moved: Member) -> list[schema.EndpointToPartitions]:
        assert group.topology is not None
        members = [*(each for id_, each in group.members.items() if id_ != moved.id), moved]
        return describing.endpoints(members, group.topology, self._context.topics.count_of)

    # -- soft state -------------------------------------------------------------------------------

    def _settle(
        self, change: StreamsChange, before: Member, moved: Member, settings: StreamsGroupSettings, was_empty: bool
    ) -> None:
        """The soft state after a heartbeat."""
        deadlines, group_id, now_ms = self._context.deadlines, change.group_id, change.now_ms
        if isinstance(self._state.groups.get(group_id), ClassicGroup):
            self._classic.retire(change, group_id)
        gathering = TimerKey(FIRST_ASSIGNMENT, group_id)
        if was_empty and settings.initial_rebalance_delay_ms > 0 and gathering not in deadlines:
            change.effects += deadlines.put(gathering, now_ms + settings.initial_rebalance_delay_ms)
        self._go_on_assigning(change)
        session = TimerKey(SESSION, group_id, moved.id)
        change.effects += deadlines.put(session, now_ms + settings.session_timeout_ms)
        if moved != before:
            key = TimerKey(REVOCATION, group_id, moved.id)
            self._revoking.pop(key, None)
            change.effects += deadlines.drop(key)
            self._await_revocation(change, group_id, moved, now_ms)

    def _await_revocation(self, draft: Draft, group_id: str, member: Member, now_ms: int) -> None:
        if member.state is MemberState.UNREVOKED_TASKS:
            key = TimerKey(REVOCATION, group_id, member.id)
            self._revoking[key] = member.epoch
            draft.effects += self._context.deadlines.put(key, now_ms + max(member.rebalance_timeout_ms, 0))

    def on_loaded(self, draft: Draft, group_id: str, group: StreamsGroup, now_ms: int) -> None:
        """Listen for the members of a group that was loaded."""
        timeout_ms = self.settings_of(group_id).session_timeout_ms
        for member in group.members.values():
            key = TimerKey(SESSION, group_id, member.id)
            draft.effects += self._context.deadlines.put(key, now_ms + timeout_ms)
            self._await_revocation(draft, group_id, member, now_ms)

    def topics_changed(self, names: set[str]) -> None:
        """Topics differ: the groups that want them look at them again."""
        for group_id, live in self._live.items():
            group = self._state.groups.get(group_id)
            if not isinstance(group, StreamsGroup) or not names.isdisjoint(group.topics):
                live.configured = None

    def forget(self, draft: Draft, group_id: str, group: StreamsGroup) -> None:
        """A group is gone: nothing is waited for any more."""
        for id_ in group.members:
            self._forget_member(draft, group_id, id_)
        for kind in (FIRST_ASSIGNMENT, ASSIGNMENT):
            draft.effects += self._context.deadlines.drop(TimerKey(kind, group_id))
        self._live.pop(group_id, None)
        self._context.forget(group_id)

    def _forget_member(self, draft: Draft, group_id: str, member_id: str) -> None:
        self._untold.forget(group_id, member_id)
        for kind in (SESSION, REVOCATION):
            key = TimerKey(kind, group_id, member_id)
            self._revoking.pop(key, None)
            draft.effects += self._context.deadlines.drop(key)

    # -- leaving ----------------------------------------------------------------------------------

    def leave(self, request: StreamsGroupHeartbeatRequest, now_ms: int) -> Transition[StreamsHeartbeat]:
        """End a membership."""
        group = self._state.groups.get(request.group_id)
        if not isinstance(group, StreamsGroup):
            raise GroupIdNotFound(f"Group {request.group_id} not found.")
        member = group.members.get(request.member_id)
        if member is None:
            raise UnknownMemberId(f"Member {request.member_id} is not a member of group {request.group_id}.")
        change = StreamsChange(self._context, request.group_id, group, now_ms)
        self._fence(change, member.id)
        if request.shutdown_application and change.group.members:
            live = self._live.setdefault(request.group_id, LiveStreams())
            live.shutdown_by = live.shutdown_by or member.id
        left = Member(member.id, request.member_epoch)
        return change.done(StreamsHeartbeat(_response(left, 0, [], endpoint_information_epoch=0)))

    def _fence(self, change: StreamsChange, member_id: str) -> None:
        change.remove_member(member_id)
        self._forget_member(change, change.group_id, member_id)
        live = self._live.get(change.group_id)
        if live is not None and not change.group.members:
            live.shutdown_by = None

    def on_timer(self, key: TimerKey, now_ms: int) -> Transition[Any]:
        """A deadline of a member has passed, or that of those who gather."""
        stuck_at = self._revoking.pop(key, None)
        group = self._state.groups.get(key.group)
        if not isinstance(group, StreamsGroup):
            return Transition(None)
        change = StreamsChange(self._context, key.group, group, now_ms)
        if key.kind in (FIRST_ASSIGNMENT, ASSIGNMENT):
            self._assign(change, key.kind)
            self._go_on_assigning(change)
        else:
            member = group.members.get(key.member)
            if member is not None and (key.kind == SESSION or member.epoch == stuck_at):
                self._fence(change, member.id)
        return change.done(None)

    def _assign(self, change: StreamsChange, kind: str) -> None:
        """Work out the assignment that those who gathered waited for, or the next bit of a large one."""
        group, live = change.group, self._live.setdefault(change.group_id, LiveStreams())
        if not group.members or group.topology is None or change.is_assigned:
            live.assigning = None
            return
        try:
            configured = live.configured or Configured(self._context, group.topology)
        except KafkaError:
            return  # the topics differ since, and each member hears what is wrong with its next heartbeat
        if kind == FIRST_ASSIGNMENT:
            change.assign(configured.topology)
            return
        if live.assigning is None or live.assigning.epoch != group.epoch:
            live.assigning = Assigning(group, configured.topology)
        targets = live.assigning.go_on()
        change.is_left = targets is None
        if targets is not None:
            live.assigning = None
            change.take_targets(targets)

    def _go_on_assigning(self, change: StreamsChange) -> None:
        if change.is_left:
            change.effects += self._context.deadlines.put(TimerKey(ASSIGNMENT, change.group_id), change.now_ms)


def _told(member: Member, request: StreamsGroupHeartbeatRequest, client: Client) -> Member:
    """The member after what it says of itself; what a request leaves out stays as it was."""
    endpoint, tags = request.user_endpoint, request.client_tags
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=client.id,
        client_host=client.host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        client_tags=member.client_tags if tags is None else {tag.key: tag.value for tag in tags},
        user_endpoint=member.user_endpoint if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port),
    )


def _owned(request: StreamsGroupHeartbeatRequest) -> TaskSets | None:
    """The tasks that a member says it has; None unless it says all."""
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return TaskSets(read_tasks(active), read_tasks(standby), read_tasks(warmup))


def _status(status: StreamsStatus, detail: str) -> schema.Status:
    return schema.Status(status_code=status, status_detail=detail)


def _stale(member: Member, topology: StreamsTopology) -> list[schema.Status]:
    if member.topology_epoch >= topology.epoch:
        return []
    why = f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {topology.epoch}."
    return [_status(StreamsStatus.STALE_TOPOLOGY, why)]


def _troubles(configured: Configured) -> list[schema.Status]:
    trouble = configured.topology.trouble
    return [] if trouble is None else [_status(trouble.status, trouble.detail)]


def _response(
    member: Member, interval_ms: int, statuses: list[schema.Status], **values: Any
) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        error_code=0,
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=interval_ms,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=statuses,
        **values,
    )
