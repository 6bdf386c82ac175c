"""The consumer as a member of a group: it reads the partitions it is assigned, and commits offsets."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Literal, Self

from kavka.client.background import Background
from kavka.client.classic_membership import ClassicMembership
from kavka.client.consumer import At, Consumer, Edge, Isolation, Last, Place, edge_or_error
from kavka.client.fetched import ConsumerRecord
from kavka.client.group_link import GroupLink
from kavka.client.group_offsets import commit_offsets, fetch_offsets
from kavka.client.membership import ConsumerMembership, Member, Partitions, Subscription
from kavka.client.pool import Pool
from kavka.model.errors import KafkaError, OffsetOutOfRange
from kavka.model.types import TopicPartition, Uuid

GOODBYE_SECONDS: Final = 5.0
"""How long committing and leaving may take where the block is left by an exception or a cancellation."""

Callback = Callable[[Partitions], Awaitable[None] | None]
"""Called with partitions; may be async."""


class GroupConsumer(Consumer):
    """Reads records together with the other members of a group.

    ```python
    async with GroupConsumer("127.0.0.1:9092", group="billing", topics=["orders"]) as consumer:
        async for record in consumer:
            await bill(record)
    ```

    Partitions come and go as members do. That happens only when records are asked for: whoever asks has dealt with
    those it was given. Every `auto_commit_ms` (None: never), before partitions are given back and at the end, the
    offsets behind the records that were dealt with are committed; `commit()` does so at once. However the block ends,
    the member leaves the group. If by an exception or by cancelling the task (Ctrl-C does), the records that were given
    out last do not count as dealt with.

    The group protocol is KIP-848's, or the classic one. A partition without a committed offset is read from `start`.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | Pool,
        *,
        group: str,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        protocol: Literal["consumer", "classic"] = "consumer",
        assignor: str | Iterable[str] | None = None,
        start: Place | Literal["error"] = "end",
        auto_commit_ms: int | None = 5_000,
        isolation: Isolation = "read_uncommitted",
        out_of_range: Edge | Literal["error"] = "error",
        instance_id: str | None = None,
        rack: str | None = None,
        session_timeout_ms: int = 45_000,
        heartbeat_interval_ms: int = 3_000,
        rebalance_timeout_ms: int = 300_000,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 52_428_800,
        partition_bytes: int = 1_048_576,
        prefetch_bytes: int | None = None,
        check_crc: bool = True,
        client_id: str = "kavka-consumer",
        new_id: Callable[[], Uuid] | None = None,
        security: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            bootstrap,
            isolation=isolation,
            out_of_range=out_of_range,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            partition_bytes=partition_bytes,
            prefetch_bytes=prefetch_bytes,
            check_crc=check_crc,
            client_id=client_id,
            security=security,
        )
        if isinstance(topics, str):
            raise TypeError(f"topics are a list of names: topics=[{topics!r}]")
        topics = tuple(dict.fromkeys(topics))
        if not group:
            raise ValueError("a group has a name")
        if bool(topics) == (pattern is not None):
            raise ValueError("a member of a group wants either topics or those that match a pattern")
        if protocol not in ("consumer", "classic"):
            raise ValueError(f"protocol is 'consumer' or 'classic', not {protocol!r}")
        if protocol == "classic" and pattern is not None:
            raise ValueError("only the consumer protocol has patterns: the brokers match them")
        self._group = group
        self._protocol = protocol
        self._subscription = Subscription(
            topics=topics,
            pattern=pattern,
            assignors=(assignor,) if isinstance(assignor, str) else tuple(assignor or ()),
            instance_id=instance_id,
            rack=rack,
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
        )
        self._start = start if isinstance(start, int | At | Last) else edge_or_error("start", start)
        self._auto_commit_ms = auto_commit_ms
        self._on_assigned, self._on_revoked, self._on_lost = on_assigned, on_revoked, on_lost
        self._new_id = new_id or fresh_id
        self._background = Background()
        self._change: asyncio.Future[None] | None = None
        """Partitions that come and go: that goes on even if the time of the read that began it is up."""
        self._member: Member | None = None
        self._offsets_link: GroupLink | None = None
        self._given: dict[TopicPartition, int] = {}
        """The offsets behind the records that were given out."""
        self._dealt: dict[TopicPartition, int] = {}
        """The offsets behind the records that were dealt with, because more was asked for since."""
        self._committed: dict[TopicPartition, int] = {}

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        pool, fetcher = self._opened()
        lane = object()
        link = GroupLink(pool, self._group, lane)
        self._offsets_link = GroupLink(pool, self._group)
        if self._protocol == "consumer":
            self._member = ConsumerMembership(link, pool, self._subscription, fetcher.wake, self._new_id)
        else:
            self._member = ClassicMembership(link, pool, self._subscription, fetcher.wake)
        self._link = link
        await self._background.__aenter__()
        self._background.start(self._member.run())
        if self._auto_commit_ms is not None:
            self._background.start(self._commit_forever(self._auto_commit_ms))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        member, _ = self._joined()
        try:
            await self._background.__aexit__(kind, error, trace)  # raises again what cancelled the block
        finally:
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(None if kind is None else GOODBYE_SECONDS):
                        await self._say_goodbye(member, self._given if kind is None else self._dealt)
            finally:
                if self._change is not None and self._change.done():
                    self._change.exception()  # nobody asks for it any more
                self._member = self._change = None
                self._link.hang_up()
                await super().__aexit__(kind, error, trace)

    async def _say_goodbye(self, member: Member, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit and leave; what cannot be said any more is found out by the group itself, later."""
        with contextlib.suppress(KafkaError):
            if self._auto_commit_ms is not None and not member.lost:
                await self._commit(offsets)
        with contextlib.suppress(KafkaError):
            await member.leave()

    @property
    def group(self) -> str:
        """The group id."""
        return self._group

    @property
    def instance_id(self) -> str | None:
        """The group instance id, if this is a static member."""
        return self._subscription.instance_id

    @property
    def member_id(self) -> str:
        """The member id."""
        return self._joined()[0].member_id

    @property
    def epoch(self) -> int:
        """The member epoch, or in a classic group the generation."""
        return self._joined()[0].epoch

    async def assign(self, *sources: str | TopicPartition, start: Place = "start") -> None:
        """A member of a group does not choose its partitions."""
        raise RuntimeError("the group assigns partitions; to choose them, use Consumer")

    async def seek(self, place: Place, *partitions: TopicPartition) -> None:
        """Go on reading from another place: these partitions, or all that are assigned."""
        await super().seek(place, *partitions)
        for tp in partitions or self.assignment:
            at = self.position(tp)
            self._given[tp] = self._dealt[tp] = at

    async def partitions_of(self, topic: str) -> list[int]:
        """The partitions of a topic, whoever of the group has them."""
        return list((await self._opened()[0].topic(topic)).partitions)

    # -- offsets ----------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit offsets: behind all records that were given out, or these."""
        await self._commit(dict(self._given) if offsets is None else offsets)

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """The committed offsets of these partitions, or of all that are assigned; None where there is none."""
        _, link = self._joined()
        chosen = partitions or tuple(self.assignment)
        found = await fetch_offsets(link, chosen)
        return {tp: found[tp].offset if tp in found else None for tp in chosen}

    async def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        member, link = self._joined()
        new = {tp: at for tp, at in offsets.items() if self._committed.get(tp) != at}
        if new:
            await commit_offsets(link, new, lambda: (member.member_id, member.epoch), self._subscription.instance_id)
            self._committed |= {tp: at for tp, at in new.items() if tp in member.owned}

    async def _commit_forever(self, every_ms: int) -> None:
        while True:
            await asyncio.sleep(every_ms / 1000)
            with contextlib.suppress(KafkaError):  # a rebalance may be under way; the next time says it again
                await self._commit(dict(self._dealt))

    # -- reading ----------------------------------------------------------------------------------------

    async def read(
        self,
        timeout_ms: int | None = None,
        *,
        ends: Mapping[TopicPartition, int] | None = None,
        at_most: int | None = None,
    ) -> list[ConsumerRecord]:
        """The next records, at least one, in the order of their partition; none when none came in time."""
        self._dealt_with()
        records = await super().read(timeout_ms, ends=ends)
        if at_most is not None and len(records) > at_most:
            self._records.extendleft(reversed(records[at_most:]))
            del records[at_most:]
        if records:  # all of one partition
            tp = TopicPartition(*records[0][:2])
            self._given[tp] = self.position(tp)
        return records

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            self._dealt_with()
            while self._records:
                yield self._hand_out()
                self._dealt_with()
            await self._advance()

    async def until_end(self) -> AsyncIterator[ConsumerRecord]:
        """Every record up to what is now the end of the partitions that this member has and keeps."""
        ends = await self.end_offsets()
        while True:
            self._dealt_with()
            while self._records:
                yield self._hand_out()
                self._dealt_with()
            ends = {tp: end for tp, end in ends.items() if tp in self.assignment and self.position(tp) < end}
            if not ends:
                return
            await self._advance()

    def at_hand(self) -> ConsumerRecord | None:
        """The next record if it has arrived already; any thread may ask, as long as nobody else reads meanwhile."""
        self._dealt |= self._given
        return self._hand_out() if self._records else None

    async def arrive(self) -> None:
        """Wait until a record is at hand."""
        self._dealt_with()
        while not self._records:
            await self._advance()

    def _hand_out(self) -> ConsumerRecord:
        record = self._records.popleft()
        tp = TopicPartition(*record[:2])
        self._given[tp] = record.offset + 1 if self._records else self.position(tp)
        return record

    def _dealt_with(self) -> None:
        self._joined()[0].asked()
        self._dealt |= self._given

    async def _advance(self) -> None:
        member, _ = self._joined()
        if self._change is None:
            if member.failure is not None:
                raise member.failure
            if member.lost:
                self._change = self._begin(self._give_up(member))
            elif member.offer is not None:
                self._change = self._begin(self._take(member, member.take()))
            else:
                await super()._advance()
                self._pass_over()
                return
        try:
            await asyncio.shield(self._change)
        finally:
            if self._change.done():
                self._change = None

    def _pass_over(self) -> None:
        """A batch without records for the user, such as the end of a transaction, is dealt with as it is read."""
        if not self._records and self._current is not None:
            state = self._current[0]
            self._given[state.topic_partition] = self._dealt[state.topic_partition] = state.position

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def carry_out() -> None:
            try:
                await work
            except Exception as error:  # is the user's, who asks for records
                done.set_exception(error)
            else:
                done.set_result(None)

        self._background.start(carry_out())
        return done

    async def _give_up(self, member: Member) -> None:
        """This member was fenced: its partitions are lost."""
        lost = member.owned
        self._forget(lost)
        member.settle(frozenset())
        await call(self._on_lost or self._on_revoked, lost)

    async def _take(self, member: Member, wanted: Partitions) -> None:
        """Revoke the partitions that are not assigned any more, and take the new ones."""
        gone, new = member.owned - wanted, wanted - member.owned
        if gone:
            if self._auto_commit_ms is not None:
                with contextlib.suppress(KafkaError):
                    await self._commit({tp: at for tp, at in self._given.items() if tp in gone})
            await call(self._on_revoked, gone)
            self._forget(gone)
        if new:
            self._opened()[1].add(await self._positions(new))
        if member.lost:  # meanwhile: what we have just taken is somebody else's, and what we had is given up next
            self._forget(new)
            return
        member.settle(wanted)
        await call(self._on_assigned, new)

    def _forget(self, partitions: Partitions) -> None:
        self._opened()[1].drop(partitions)
        if self._records and self._records[0][:2] in partitions:
            self._records.clear()
        if self._current is not None and self._current[0].topic_partition in partitions:
            self._current = None
        for tp in partitions:
            for known in (self._given, self._dealt, self._committed):
                known.pop(tp, None)

    async def _positions(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """The positions to read from: the committed offsets, else where the user says."""
        _, link = self._joined()
        found = {tp: committed.offset for tp, committed in (await fetch_offsets(link, sorted(partitions))).items()}
        self._committed |= found
        fresh = [tp for tp in partitions if tp not in found]
        if fresh:
            if self._start == "error":
                raise OffsetOutOfRange(f"group {self._group!r} has no committed offset for {fresh[0]}")
            first = await self._find(fresh, self._start)
            # committed even if no record comes, as Kafka's consumer does: who reads on begins where we did
            self._given |= first
            self._dealt |= first
            found |= first
        return found

    def _joined(self) -> tuple[Member, GroupLink]:
        if self._member is None or self._offsets_link is None:
            raise RuntimeError("the consumer is not open: use it in an `async with` block")
        return self._member, self._offsets_link


def fresh_id() -> Uuid:
    """A fresh id of a member."""
    return Uuid(os.urandom(16))


async def call(callback: Callback | None, partitions: Partitions) -> None:
    """Tell whoever wants to know."""
    if callback is not None and partitions:
        answer = callback(partitions)
        if inspect.isawaitable(answer):
            await answer
