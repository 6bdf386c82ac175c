"""A kind of group: everything in which the groups of one kind differ from those of another.

The coordinator of a shard asks the kind of a group and knows none by name. What a kind leaves out is what Kafka answers
for a group that has no such thing: no classic protocol, no committed offsets. The requests of a kind's own APIs are
methods of the kind itself, which handlers ask by way of `runtime.groups`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, ClassVar, Generic, TypeVar

from kavka.coordinator.classic.replies import join_refused
from kavka.coordinator.context import ShardContext
from kavka.coordinator.offsets.rules import Ageing, CheckPartition
from kavka.coordinator.record import Record, RecordClasses
from kavka.coordinator.requests import Client, Draft
from kavka.coordinator.state import GroupsById, ShardState
from kavka.coordinator.timers import TimerKey
from kavka.metadata.delta import MetadataDelta
from kavka.model.errors import GroupIdNotFound, InconsistentGroupProtocol, UnknownMemberId
from kavka.model.settings.values import Values
from kavka.model.transition import Transition
from kavka.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupResponse
from kavka.protocol.schemas.leave_group import MemberIdentity, MemberResponse
from kavka.protocol.schemas.list_groups import ListedGroup
from kavka.protocol.schemas.offset_commit import OffsetCommitRequest
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup
from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupResponse

G = TypeVar("G")
K = TypeVar("K", bound="GroupKind[Any]")


class GroupKind(ABC, Generic[G]):
    """The groups of one kind in one shard; `G` is what the log remembers of one of them.

    Deciding methods read durable state and change soft state at most; what the log shall remember they put into a draft
    or return.
    """

    name: ClassVar[str]
    """As ListGroups shows it, in small letters."""
    group: ClassVar[type[Any]]
    """The class of the groups."""
    records: ClassVar[tuple[RecordClasses, ...]]
    """The records of `__consumer_offsets` that are about such groups."""
    timers: ClassVar[frozenset[str]] = frozenset()
    """The kinds of timers that it sets; no other kind of group has timers of that name."""

    @abstractmethod
    def __init__(self, context: ShardContext, state: ShardState, kinds: Kinds) -> None:
        """`kinds` has those that are listed before this one."""

    @staticmethod
    @abstractmethod
    def replay(groups: GroupsById, record: Record) -> None:
        """Take in one of the records: the only writer of the kind's groups. Nothing may insist on an order."""

    # -- the shard's life -------------------------------------------------------------------------

    def on_loaded(self, draft: Draft, group_id: str, group: G, now_ms: int) -> None:
        """A group was loaded."""

    def on_timer(self, key: TimerKey, now_ms: int) -> Transition[Any]:
        """A deadline of the kind has passed."""
        raise NotImplementedError(f"{self.name} groups set no timer {key.kind}")

    def on_metadata(self, draft: Draft, delta: MetadataDelta, topics: set[str]) -> None:
        """The metadata has changed, among it topics of these names; the records may be written in several batches."""

    def on_settings(self, values: Values) -> None:
        """The node's settings have changed."""

    def parked(self) -> Iterable[Hashable]:
        """The tokens of all requests that wait."""
        return ()

    # -- groups -----------------------------------------------------------------------------------

    @abstractmethod
    def listed(self, group_id: str, group: G) -> ListedGroup:
        """A group as ListGroups shows it."""

    @abstractmethod
    def is_empty(self, group_id: str, group: G) -> bool:
        """Whether a group has no members, so that it may be deleted."""

    @abstractmethod
    def delete(self, draft: Draft, group_id: str, group: G) -> None:
        """Write that an empty group is gone; its offsets are seen to."""

    def may_expire(self, group_id: str, group: G) -> bool:
        """Whether a group that has no offsets is forgotten by itself."""
        return False

    # -- the classic protocol -----------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, client: Client, token: Hashable, group: G, now_ms: int
    ) -> Transition[JoinGroupResponse]:
        """JoinGroup for a group of this kind."""
        return Transition(join_refused(InconsistentGroupProtocol.code, "", client.api_version))

    def sync(self, request: SyncGroupRequest, token: Hashable, group: G, now_ms: int) -> Transition[SyncGroupResponse]:
        """SyncGroup for a group of this kind."""
        raise UnknownMemberId(f"{request.group_id} is a {self.name} group")

    def heartbeat(self, request: HeartbeatRequest, group: G, now_ms: int) -> Transition[HeartbeatResponse]:
        """Heartbeat for a group of this kind."""
        raise UnknownMemberId(f"{request.group_id} is a {self.name} group")

    def leave(
        self, group_id: str, members: list[MemberIdentity], group: G, now_ms: int
    ) -> Transition[list[MemberResponse]]:
        """LeaveGroup for a group of this kind."""
        return Transition(unknown_members(members))

    # -- offsets ----------------------------------------------------------------------------------

    def check_commit(
        self, draft: Draft, request: OffsetCommitRequest, client: Client, group: G, now_ms: int
    ) -> CheckPartition | None:
        """Raise unless offsets may be committed; a function if each partition must be checked."""
        raise GroupIdNotFound(f"{request.group_id} is a {self.name} group, which commits no offsets")

    def check_transactional_commit(self, request: OffsetCommitRequest, group: G) -> CheckPartition | None:
        """The same for offsets that a transaction commits."""
        raise GroupIdNotFound(f"{request.group_id} is a {self.name} group, which commits no offsets")

    def check_fetch(self, request: OffsetFetchRequestGroup, group: G) -> None:
        """Raise unless offsets may be fetched; a group that has none may be asked."""

    def subscribed(self, group_id: str, group: G) -> Callable[[str], bool]:
        """Whether the group reads a topic, so that its offsets stay; raises if no offset may be deleted."""
        raise GroupIdNotFound(f"{group_id} is a {self.name} group, which commits no offsets")

    def ageing(self, group_id: str, group: G) -> Ageing | None:
        """How the group's offsets age; None if they do not now."""
        return None


class UnknownKindError(TypeError):
    """A group, or something of one, that belongs to no kind of the shard."""


class Kinds:
    """The kinds of groups of one shard: found by what belongs to one of them."""

    __slots__ = ("_by_class", "_by_group", "_by_timer")

    def __init__(self, kinds: Iterable[type[GroupKind[Any]]], context: ShardContext, state: ShardState) -> None:
        """Raises ValueError when two kinds claim the same."""
        self._by_class: dict[type[Any], GroupKind[Any]] = {}
        self._by_group: dict[type[Any], GroupKind[Any]] = {}
        self._by_timer: dict[str, GroupKind[Any]] = {}
        for cls in kinds:
            kind = self._by_class[cls] = cls(context, state, self)
            _claim(self._by_group, [cls.group], kind)
            _claim(self._by_timer, cls.timers, kind)

    def __iter__(self) -> Iterator[GroupKind[Any]]:
        return iter(self._by_class.values())

    def get(self, kind: type[K]) -> K:
        """A kind by its class; raises UnknownKindError."""
        try:
            return self._by_class[kind]  # type: ignore[return-value]
        except KeyError:
            raise UnknownKindError(f"this shard has no {kind.name} groups") from None

    def of(self, group: object) -> GroupKind[Any]:
        """The kind of a group; raises UnknownKindError."""
        try:
            return self._by_group[type(group)]
        except KeyError:
            raise UnknownKindError(f"{type(group).__name__} is no kind of group") from None

    def of_timer(self, key: TimerKey) -> GroupKind[Any]:
        """The kind that set a timer; raises UnknownKindError."""
        try:
            return self._by_timer[key.kind]
        except KeyError:
            raise UnknownKindError(f"no kind of group sets timers {key.kind}") from None


def _claim(owners: dict[Any, GroupKind[Any]], claimed: Iterable[Any], kind: GroupKind[Any]) -> None:
    for each in claimed:
        if each in owners:
            raise ValueError(f"{each} belongs to {owners[each].name} groups, not to {kind.name} groups as well")
        owners[each] = kind


def unknown_members(members: Iterable[MemberIdentity]) -> list[MemberResponse]:
    """What LeaveGroup says of members of a group that has none."""
    return [
        MemberResponse(
            member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=UnknownMemberId.code
        )
        for each in members
    ]
