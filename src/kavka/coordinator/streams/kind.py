"""Streams groups (KIP-1071) as a kind of group."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any

from kavka.coordinator.classic.kind import ClassicKind
from kavka.coordinator.classic.replies import join_refused
from kavka.coordinator.context import ShardContext
from kavka.coordinator.kind import GroupKind, Kinds
from kavka.coordinator.offsets.rules import Ageing, CheckPartition
from kavka.coordinator.requests import Client, Draft
from kavka.coordinator.state import ShardState
from kavka.coordinator.streams import describing, fencing
from kavka.coordinator.streams.entries import without_group
from kavka.coordinator.streams.machine import (
    ASSIGNMENT,
    FIRST_ASSIGNMENT,
    REVOCATION,
    SESSION,
    StreamsGroups,
    StreamsHeartbeat,
)
from kavka.coordinator.streams.records import RECORDS
from kavka.coordinator.streams.state import LEFT, StreamsGroup, replay
from kavka.coordinator.streams.validation import check_heartbeat
from kavka.coordinator.timers import TimerKey
from kavka.metadata.delta import MetadataDelta
from kavka.model.errors import InconsistentGroupProtocol
from kavka.model.settings.values import Values
from kavka.model.transition import Transition
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupResponse
from kavka.protocol.schemas.list_groups import ListedGroup
from kavka.protocol.schemas.offset_commit import OffsetCommitRequest
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup
from kavka.protocol.schemas.streams_group_describe import DescribedGroup
from kavka.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest


class StreamsKind(GroupKind[StreamsGroup]):
    """The streams groups of a shard."""

    name = "streams"
    group = StreamsGroup
    records = RECORDS
    timers = frozenset((SESSION, REVOCATION, FIRST_ASSIGNMENT, ASSIGNMENT))
    replay = staticmethod(replay)

    def __init__(self, context: ShardContext, state: ShardState, kinds: Kinds) -> None:
        self._state = state
        self._classic = kinds.get(ClassicKind).machine
        self._machine = StreamsGroups(context, state, self._classic)

    # -- StreamsGroupHeartbeat, StreamsGroupDescribe ------------------------------------------------

    def streams_group_heartbeat(
        self, request: StreamsGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Transition[StreamsHeartbeat]:
        """Join, stay in or leave a streams group."""
        check_heartbeat(request)
        if request.member_epoch == LEFT:
            return self._machine.leave(request, now_ms)
        return self._machine.heartbeat(request, client, now_ms)

    def describe(self, group_ids: Iterable[str]) -> list[DescribedGroup]:
        """Streams groups with their topologies and members."""
        found = []
        for id_ in group_ids:
            group = self._state.groups.get(id_)
            if isinstance(group, StreamsGroup):
                configured = self._machine.configured(id_)
                found.append(describing.described(id_, group, None if configured is None else configured.topology))
            else:
                why = f"Group {id_} not found." if group is None else f"Group {id_} is not a streams group."
                found.append(describing.not_described(id_, why))
        return found

    # -- the shard's life -------------------------------------------------------------------------

    def on_loaded(self, draft: Draft, group_id: str, group: StreamsGroup, now_ms: int) -> None:
        """Listen for the members of a group that was loaded."""
        self._machine.on_loaded(draft, group_id, group, now_ms)

    def on_timer(self, key: TimerKey, now_ms: int) -> Transition[Any]:
        """A deadline of a group has passed."""
        return self._machine.on_timer(key, now_ms)

    def on_metadata(self, draft: Draft, delta: MetadataDelta, topics: set[str]) -> None:
        """The groups that want topics that differ look at them again."""
        if topics:
            self._machine.topics_changed(topics)

    def on_settings(self, values: Values) -> None:
        """The node's settings have changed."""
        self._machine.configure(values)

    # -- groups -----------------------------------------------------------------------------------

    def listed(self, group_id: str, group: StreamsGroup) -> ListedGroup:
        """A group as ListGroups shows it."""
        return describing.listed(group_id, group, self.name)

    def is_empty(self, group_id: str, group: StreamsGroup) -> bool:
        """Whether a group has no members."""
        return not group.members

    def delete(self, draft: Draft, group_id: str, group: StreamsGroup) -> None:
        """Write that an empty group is gone."""
        draft.records += without_group(group_id, group)
        self._machine.forget(draft, group_id, group)

    def may_expire(self, group_id: str, group: StreamsGroup) -> bool:
        """Whether a group is empty."""
        return not group.members

    # -- the classic protocol -----------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, client: Client, token: Hashable, group: StreamsGroup, now_ms: int
    ) -> Transition[JoinGroupResponse]:
        """Become a member by the classic protocol: only of an empty group, which becomes a classic one."""
        if group.members:
            return Transition(join_refused(InconsistentGroupProtocol.code, "", client.api_version))
        draft = Draft()
        gone = without_group(request.group_id, group)
        reply = self._classic.join_instead(draft, request, client, token, gone, now_ms)
        if draft.records:
            self._machine.forget(draft, request.group_id, group)
        return draft.done(reply)

    # -- offsets ----------------------------------------------------------------------------------

    def check_commit(
        self, draft: Draft, request: OffsetCommitRequest, client: Client, group: StreamsGroup, now_ms: int
    ) -> CheckPartition | None:
        """Raise unless a member commits, or nobody for a group of nobody."""
        return fencing.check_commit(group, request, client.api_version)

    def check_transactional_commit(self, request: OffsetCommitRequest, group: StreamsGroup) -> CheckPartition | None:
        """Raise unless a transaction commits for a member, or does not say for whom."""
        return fencing.check_transaction(group, request)

    def check_fetch(self, request: OffsetFetchRequestGroup, group: StreamsGroup) -> None:
        """Raise unless a member asks, or somebody who does not say who."""
        fencing.check_fetch(group, request)

    def subscribed(self, group_id: str, group: StreamsGroup) -> Callable[[str], bool]:
        """Whether the group reads a topic."""
        return partial(fencing.is_subscribed, group)

    def ageing(self, group_id: str, group: StreamsGroup) -> Ageing | None:
        """How the group's offsets age."""
        return fencing.ageing_of(group)
