"""Whole ranges of one partition, as the bytes that its leader has: for readers that decode batches by themselves.

The next fetch is on its way while the last one is looked at. A passing fault is tried again for as long as the
timeout allows; what cannot pass (data that is gone, damaged bytes) is raised at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from kavka.client.connection import Connection
from kavka.client.fetched import AbortedTransaction
from kavka.client.pool import UNKNOWN_TOPIC_SECONDS, Pool
from kavka.client.view import error_for
from kavka.model.errors import (
    BrokerNotAvailable,
    CorruptMessage,
    FencedLeaderEpoch,
    KafkaError,
    LeaderNotAvailable,
    MessageTooLarge,
    RequestTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kavka.model.types import TopicPartition, Uuid
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kavka.records.batch import TRUNCATED, BatchInfo, scan_prefix

_BY_NAME_UNTIL: Final = 12
_WAIT_MS: Final = 500


@dataclass(frozen=True, slots=True)
class Chunk:
    """The whole batches of one fetch, and which transactions among them were aborted (None: nobody asked)."""

    data: memoryview
    batches: Sequence[BatchInfo]
    aborted: Sequence[AbortedTransaction] | None
    position: int
    """Where the fetch began: the first batch may hold records before it, which are not to be seen."""
    next_offset: int


@dataclass(frozen=True, slots=True)
class RangeOptions:
    """How a range is read."""

    read_committed: bool = False
    fetch_bytes: int = 8 << 20
    timeout_ms: int = 60_000
    topic_id: Uuid = Uuid.ZERO
    """If given, the topic must be this one and not another that has its name since."""


async def read_range(
    pool: Pool, tp: TopicPartition, start: int, end: int, options: RangeOptions
) -> AsyncIterator[Chunk]:
    """The chunks that hold the offsets from `start` to before `end`; their first and last batch may hold others too."""
    asking = _Asking(pool, tp, options)
    try:
        while start < end:
            row = await asking.answer(start)
            chunk = _chunk(tp, start, row, options.read_committed)
            if chunk is None:
                reached = row.last_stable_offset if options.read_committed else row.high_watermark
                if reached >= end:
                    return  # compaction took everything that was left
                asking.check_deadline(f"{tp} has nothing at offset {start}: its log ends at {reached}, not at {end}")
                continue
            start = chunk.next_offset
            if start < end:
                asking.ahead(start)
            yield chunk
    finally:
        pool.hang_up(asking)


class _Asking:
    """Fetches on a connection of its own, one ahead of what is being looked at."""

    def __init__(self, pool: Pool, tp: TopicPartition, options: RangeOptions) -> None:
        self._pool = pool
        self._tp = tp
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._sent: asyncio.Future[FetchResponse] | None = None
        self._began = self._loop.time()
        self._attempts = 0

    def ahead(self, offset: int) -> None:
        """Ask for what comes next, before anybody waits for it."""
        self._began = self._loop.time()
        self._attempts = 0
        if self._connection is not None and not self._connection.closed:
            self._sent = self._send(self._connection, offset)

    def check_deadline(self, why: str) -> None:
        """Raise if what was asked for did not come in time."""
        if self._loop.time() - self._began > self._options.timeout_ms / 1000:
            raise RequestTimedOut(why)

    async def answer(self, offset: int) -> PartitionData:
        """What the leader has at an offset; asks again while it may still help."""
        while True:
            try:
                if self._sent is None:
                    self._connection = await self._leader()
                    self._sent = self._send(self._connection, offset)
                sent, self._sent = self._sent, None
                answer = await sent
                if answer.error_code:
                    raise error_for(answer.error_code)
                if not answer.responses:  # a client over its quota is answered without data, and told to wait
                    self.check_deadline(f"{self._tp} at offset {offset}: the broker gives no data, only waiting times")
                    await asyncio.sleep(answer.throttle_time_ms / 1000 or self._pool.retry_delay(1))
                    continue
                row = answer.responses[0].partitions[0]
                if row.error_code:
                    raise error_for(row.error_code)
                return row
            except KafkaError as error:
                self._sent = None
                await self._wait_after(error, offset)

    async def _wait_after(self, error: KafkaError, offset: int) -> None:
        self._attempts += 1
        wait = self._pool.retry_delay(self._attempts)
        spent = self._loop.time() - self._began
        limit = self._options.timeout_ms / 1000
        if isinstance(error, UnknownTopicOrPartition | UnknownTopicId):
            limit = min(limit, UNKNOWN_TOPIC_SECONDS)
        passing = error.retriable or isinstance(error, BrokerNotAvailable | FencedLeaderEpoch)
        if not passing or spent + wait > limit:
            raise type(error)(f"{self._tp} at offset {offset}: {error.message or error}") from None
        await asyncio.sleep(wait)
        await self._refresh()

    async def _refresh(self) -> None:
        try:
            await self._pool.refresh([self._tp.topic])
        except KafkaError as error:
            if not error.retriable:
                raise

    async def _leader(self) -> Connection:
        if self._pool.view.missing([self._tp]):
            await self._pool.refresh([self._tp.topic])
        topic = self._pool.view.topics.get(self._tp.topic)
        if topic is None or self._tp.partition not in topic.partitions:
            raise UnknownTopicOrPartition(f"there is no {self._tp}")
        if self._options.topic_id not in (Uuid.ZERO, topic.id):
            raise UnknownTopicId(f"topic {self._tp.topic!r} was deleted and created anew")
        leader = self._pool.view.leader(*self._tp)
        if leader < 0:
            raise LeaderNotAvailable(f"{self._tp} has no leader at the moment")
        return await self._pool.node(leader, lane=self)

    def _send(self, connection: Connection, offset: int) -> asyncio.Future[FetchResponse]:
        known = self._pool.view.partition(*self._tp)
        topic = self._pool.view.topics[self._tp.topic]
        partition = FetchPartition(
            partition=self._tp.partition,
            current_leader_epoch=known.leader_epoch if known is not None else -1,
            fetch_offset=offset,
            partition_max_bytes=self._options.fetch_bytes,
        )
        request = FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=self._options.fetch_bytes,
            isolation_level=int(self._options.read_committed),
            topics=[FetchTopic(topic=self._tp.topic, topic_id=topic.id, partitions=[partition])],
        )
        version = connection.version(ApiKey.FETCH, at_most=_BY_NAME_UNTIL if topic.id == Uuid.ZERO else None)
        return connection.send(request, FetchResponse, version=version, timeout_ms=self._options.timeout_ms)


def _chunk(tp: TopicPartition, position: int, row: PartitionData, read_committed: bool) -> Chunk | None:
    """The whole batches of an answer, None if it has no bytes; what is damaged is raised, before any of it is used."""
    data = row.records
    if not data:
        return None
    assert isinstance(data, memoryview)
    batches, _, reason = scan_prefix(data)
    if reason is not None and reason != TRUNCATED:
        where = batches[-1].last_offset + 1 if batches else position
        raise CorruptMessage(f"{tp} at offset {where}: {reason}")
    if not batches:
        raise MessageTooLarge(f"{tp}: the batch at offset {position} is larger than a fetch may be")
    aborted = None
    if read_committed:
        aborted = [
            AbortedTransaction(transaction.producer_id, transaction.first_offset)
            for transaction in row.aborted_transactions or ()
        ]
    return Chunk(data, batches, aborted, position, batches[-1].last_offset + 1)
