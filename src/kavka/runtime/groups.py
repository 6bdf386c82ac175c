"""The group coordinator of a node, as the handlers ask it: each request goes to the shard of its group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from kavka.coordinator.requests import Client
from kavka.model.errors import InvalidGroupId, KafkaError, NotCoordinator
from kavka.model.transition import Transition
from kavka.pacing.turn import Turn
from kavka.runtime.patterns import Patterns
from kavka.runtime.shard import Shard
from kavka.runtime.shards import LISTED_AT_ONCE, Shards

if TYPE_CHECKING:  # the machine and its messages are imported after the start, see `broker.coordination`
    from kavka.coordinator.groups import GroupCoordinator
    from kavka.coordinator.kind import GroupKind
    from kavka.protocol.schemas.delete_groups import DeletableGroupResult
    from kavka.protocol.schemas.heartbeat import HeartbeatRequest, HeartbeatResponse
    from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupResponse
    from kavka.protocol.schemas.leave_group import LeaveGroupRequest, LeaveGroupResponse
    from kavka.protocol.schemas.list_groups import ListedGroup
    from kavka.protocol.schemas.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from kavka.protocol.schemas.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
    from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
    from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupResponse

T = TypeVar("T")
K = TypeVar("K", bound="GroupKind[Any]")


class Groups:
    """Every group that this node coordinates."""

    def __init__(self, shards: Shards[GroupCoordinator], patterns: Patterns) -> None:
        self._shards = shards
        self._patterns = patterns
        self._tokens = count(1)

    def _of(self, group_id: str) -> Shard[GroupCoordinator]:
        if not group_id:
            raise InvalidGroupId("a group id is missing")
        return self._shards.of(group_id)

    # -- one kind of group ----------------------------------------------------------------------------

    def ask(
        self, kind: type[K], group_id: str, decide: Callable[[K, int], Transition[T]], token: Hashable = None
    ) -> Awaitable[T]:
        """Ask a kind of group in the shard of a group, at a time; a request that may be parked needs a token."""
        shard = self._shards.of(group_id)
        return shard.submit(lambda machine, now_ms: decide(machine.kind(kind), now_ms), token)

    async def ask_each(
        self,
        kind: type[K],
        ids: Iterable[str],
        look: Callable[[K, list[str]], list[T]],
        failed: Callable[[str, KafkaError], T],
        *,
        named: bool = False,
    ) -> list[T]:
        """Look at groups of a kind in every shard that has some of them; with `named`, none without a name."""
        return await self._each(
            ids, lambda machine, group_ids: Transition(look(machine.kind(kind), group_ids)), failed, named=named
        )

    def new_token(self) -> Hashable:
        """What a request is answered under that may be parked."""
        return next(self._tokens)

    async def prepare_pattern(self, pattern: str) -> None:
        """Get ready to match a client's pattern; raises InvalidRegularExpression."""
        await self._patterns.prepare(pattern)

    # -- the classic protocol -------------------------------------------------------------------------

    def join(self, request: JoinGroupRequest, client: Client) -> Awaitable[JoinGroupResponse]:
        """Become a member by the classic protocol, and wait for the others."""
        token = self.new_token()
        return self._of(request.group_id).submit(
            lambda machine, now_ms: machine.join_group(request, client, token, now_ms), token
        )

    def sync(self, request: SyncGroupRequest) -> Awaitable[SyncGroupResponse]:
        """Get an assignment by the classic protocol, and wait for the leader to bring it."""
        token = self.new_token()
        return self._of(request.group_id).submit(
            lambda machine, now_ms: machine.sync_group(request, token, now_ms), token
        )

    def heartbeat(self, request: HeartbeatRequest) -> Awaitable[HeartbeatResponse]:
        """Stay a member by the classic protocol."""
        return self._of(request.group_id).submit(lambda machine, now_ms: machine.heartbeat(request, now_ms))

    def leave(self, request: LeaveGroupRequest, client: Client) -> Awaitable[LeaveGroupResponse]:
        """End memberships by the classic protocol."""
        return self._of(request.group_id).submit(lambda machine, now_ms: machine.leave_group(request, client, now_ms))

    # -- offsets --------------------------------------------------------------------------------------

    def commit_offsets(self, request: OffsetCommitRequest, client: Client) -> Awaitable[OffsetCommitResponse]:
        """Remember how far a group has read; old clients may do so for a group without a name."""
        shard = self._shards.of(request.group_id)
        return shard.submit(lambda machine, now_ms: machine.commit_offsets(request, client, now_ms))

    def offsets_partition(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that a group's offsets are in."""
        return self._shards.partition_of(group_id)

    async def commit_transactional_offsets(
        self, request: OffsetCommitRequest, producer_id: int, producer_epoch: int, check: Callable[[], None]
    ) -> OffsetCommitResponse:
        """Remember how far a group has read, once a producer's transaction is committed; `check` may raise."""

        def decide(machine: GroupCoordinator, now_ms: int) -> Transition[OffsetCommitResponse]:
            transition = machine.commit_transactional_offsets(request, now_ms)
            check()  # nothing comes between this and the write
            return transition

        return await self._of(request.group_id).submit_transactional(decide, producer_id, producer_epoch)

    def fetch_offsets(self, request: OffsetFetchRequestGroup, *, stable: bool) -> Awaitable[OffsetFetchResponseGroup]:
        """How far a group has read."""
        shard = self._shards.of(request.group_id)
        return shard.submit(lambda machine, _: Transition(machine.fetch_offsets(request, stable=stable)))

    def delete_offsets(self, request: OffsetDeleteRequest) -> Awaitable[OffsetDeleteResponse]:
        """Forget offsets."""
        return self._of(request.group_id).submit(lambda machine, _: machine.delete_offsets(request))

    # -- groups ---------------------------------------------------------------------------------------

    async def list_groups(self, states: Sequence[str], types: Sequence[str]) -> list[ListedGroup]:
        """The groups that are in some states and of some kinds; raises while some of them are being loaded."""
        found: list[ListedGroup] = []
        turn = Turn()
        for shard in self._shards:
            try:
                ids = await shard.submit(lambda machine, _: Transition(list(machine.state.groups)))
                for first in range(0, len(ids), LISTED_AT_ONCE):
                    part = partial(_listed, ids[first : first + LISTED_AT_ONCE], states, types)
                    rows: list[ListedGroup] = await shard.submit(part)
                    found += rows
                    await turn.breathe()
            except NotCoordinator:
                continue
        return found

    async def delete(
        self, ids: Iterable[str], failed: Callable[[str, KafkaError], DeletableGroupResult]
    ) -> list[DeletableGroupResult]:
        """Delete groups that have no members."""
        return await self._each(ids, lambda machine, group_ids: machine.delete_groups(group_ids), failed)

    async def _each(
        self,
        ids: Iterable[str],
        ask: Callable[[GroupCoordinator, list[str]], Transition[list[T]]],
        failed: Callable[[str, KafkaError], T],
        *,
        named: bool = False,
    ) -> list[T]:
        """Ask every shard that has some of the groups; what a shard refuses is said of each of its groups."""
        found: list[T] = []
        by_partition: dict[int, list[str]] = {}
        for id_ in ids:
            if named and not id_:
                found.append(failed(id_, InvalidGroupId("a group id is missing")))
            else:
                by_partition.setdefault(self._shards.partition_of(id_), []).append(id_)
        for group_ids in by_partition.values():
            try:
                rows: list[T] = await self._shards.of(group_ids[0]).submit(partial(_ask, ask, group_ids))
                found += rows
            except KafkaError as error:
                found += [failed(id_, error) for id_ in group_ids]
        return found


def _listed(
    ids: Iterable[str], states: Sequence[str], types: Sequence[str], machine: GroupCoordinator, _: int
) -> Transition[list[ListedGroup]]:
    return Transition(machine.list_groups(ids, states, types))


def _ask(
    ask: Callable[[GroupCoordinator, list[str]], Transition[list[T]]],
    group_ids: list[str],
    machine: GroupCoordinator,
    now_ms: int,
) -> Transition[list[T]]:
    return ask(machine, group_ids)
