"""The port to tiers: records of a partition that are not in its local log any more.

What lies in tiered storage is a future: a fetch parks on it, a search by time waits for it. Nothing of a tier is known
here but this.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Generator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from kavka.model.errors import RequestTimedOut, UnknownServerError
from kavka.model.types import FileSlice, TopicPartition, Uuid
from kavka.pacing.turn import Turn
from kavka.replica.rules import TopicRules
from kavka.storage.segment import TimestampOffset as TimestampOffset

T = TypeVar("T")


class TieredRecords(NamedTuple):
    """What a tier gives of a partition: whole batches, the first of which has the offset that was asked for."""

    records: bytes | FileSlice
    upper_bound_offset: int
    """An offset that none of the records reaches."""
    aborted: Sequence[tuple[int, int]] = ()
    """Producer id and first offset of the aborted transactions among them whose end the tier has as well."""


class StateBefore(NamedTuple):
    """What the records that a log does not have would have told it."""

    next_offset: int
    """Where the log goes on."""
    epochs: Sequence[tuple[int, int]]
    producers: bytes | None
    """The producers' state, as its file has it."""


RemoteRead = Future[TieredRecords]
RemoteOffsetLookup = Future[TimestampOffset | None]
RemoteStateRead = Future[StateBefore]
OffsetSearch = Generator[RemoteOffsetLookup | None, None, TimestampOffset | None]
"""A search that is done step by step, each of which is short, or has to wait for what it yields."""


class Tier(Protocol):
    """What a tier keeps of one partition."""

    @property
    def end_offset(self) -> int | None:
        """All before this offset is kept, so that the disk need not keep it; None while that is not known."""

    def read(self, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool, committed: bool) -> RemoteRead:
        """Read as the local log is read, with what was aborted if only committed data is wanted.

        OffsetOutOfRange if the tier has no such offset. Who asks may stop waiting, and ask again: the read goes on
        meanwhile, or it would never come to an end.
        """

    def search_timestamp(self, timestamp: int, from_offset: int) -> RemoteOffsetLookup:
        """The first record from an offset on whose timestamp is at least this one."""

    def state_after(self, offset: int, leader_epoch: int) -> RemoteStateRead:
        """What a log has to know that begins after an offset, which was written in this leader epoch.

        It begins where the segment ends that has the offset. ReplicaNotAvailable if the tier has none yet.
        """


class Tiers(Protocol):
    """The tiers of a node."""

    def tier_of(self, topic_id: Uuid, topic_partition: TopicPartition, rules: TopicRules) -> Tier | None:
        """What stands behind the log of a partition whose topic has remote.storage.enable; None if nothing does.

        Asked again whenever the topic's configuration changes.
        """


def arrived(asked: Future[T]) -> T:
    """What came of a future that is done; a tier that gave it up is a fault of this node to its clients."""
    if asked.cancelled():
        raise UnknownServerError("the read from tiered storage was cancelled")
    return asked.result()


async def result_of(search: OffsetSearch, turn: Turn, wait_ms: int) -> TimestampOffset | None:
    """What a search comes to, others having turns in between if it takes long, or has to wait."""
    while True:
        try:
            lookup = next(search)
        except StopIteration as end:
            found: TimestampOffset | None = end.value
            return found
        if lookup is None:
            await turn.breathe()
        elif not (await asyncio.wait([lookup], timeout=wait_ms / 1000))[0]:
            raise RequestTimedOut("the search in tiered storage timed out")
