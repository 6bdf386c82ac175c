"""The events of the catalogue in the topic `__remote_log_metadata`, reached as any client reaches a topic.

One long poll per node that leads partitions of it, over connections of its own. Whatever fails is tried again for ever:
a partition that is not read leaves the catalogue unready, and with it everything that is tiered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from kavka.client.fetched import FetchedPartition
from kavka.client.fetcher import Assigned, Fetcher, FetchOptions
from kavka.client.offsets import EARLIEST, LATEST, list_offsets
from kavka.client.pool import Pool
from kavka.client.producer import Producer
from kavka.metadata.names import REMOTE_LOG_METADATA
from kavka.model.clock import Clock
from kavka.model.errors import CoordinatorNotAvailable, KafkaError, OffsetOutOfRange
from kavka.model.types import TopicPartition
from kavka.runtime.remote_catalog.event_log import Events, OffsetRange, Opened

logger = logging.getLogger(__name__)

MAX_BYTES: Final = 1 << 20
AGAIN_SECONDS: Final = 0.2
OPTIONS: Final = FetchOptions(
    read_committed=False,
    out_of_range="error",
    max_wait_ms=500,
    min_bytes=1,
    max_bytes=8 * MAX_BYTES,
    partition_bytes=MAX_BYTES,
    prefetch_bytes=2 * MAX_BYTES,
    check_crc=True,
    notices_truncation=True,
)


class TopicLog:
    """The topic, while `run` runs."""

    def __init__(
        self,
        pool: Pool,
        create: Callable[[], Awaitable[None]],
        known: Callable[[], Opened | None],
        *,
        wanted_partitions: int,
        delivery_timeout_ms: int,
        clock: Clock,
    ) -> None:
        """`create` makes the topic unless it is there, `known` is what the metadata says of it."""
        self._pool = pool
        self._create = create
        self._known = known
        self._wanted_partitions = wanted_partitions
        self._delivery_timeout_ms = delivery_timeout_ms
        self._clock = clock
        self._producer: Producer | None = None
        self._fetcher: Fetcher | None = None
        self._running = asyncio.Event()

    async def run(self) -> None:
        """Hold the connections, until cancelled."""
        timeout_ms, clock = self._delivery_timeout_ms, self._clock
        try:
            async with (
                Producer(self._pool, linger_ms=0, delivery_timeout_ms=timeout_ms, clock=clock) as self._producer,
                Fetcher(self._pool, OPTIONS) as self._fetcher,
            ):
                self._running.set()
                await asyncio.get_running_loop().create_future()
        finally:
            self._running.clear()
            await self._pool.close()

    def opened(self) -> Opened | None:
        """What the metadata says of the topic."""
        return self._known()

    async def open(self) -> Opened:
        """Have the topic created unless it is there; that another node was faster is as good."""
        found = self._known()
        if found is None:
            await self._create()
            found = self._known()
        if found is None:
            raise CoordinatorNotAvailable(f"{REMOTE_LOG_METADATA} was created, but is not known here yet")
        if found.partitions != self._wanted_partitions:
            logger.warning(
                "%s has %d partitions, not the configured %d: using what it has",
                REMOTE_LOG_METADATA,
                found.partitions,
                self._wanted_partitions,
            )
        await self._running.wait()
        return found

    async def publish(self, partition: int, value: bytes) -> int:
        """Write an event to all in-sync replicas, once."""
        await self._running.wait()
        if self._known() is None:  # a write to it would have it created like any topic, and its records expire
            raise CoordinatorNotAvailable(f"{REMOTE_LOG_METADATA} was deleted")
        assert self._producer is not None
        delivered = await self._producer.send_and_wait(REMOTE_LOG_METADATA, value, partition=partition)
        if delivered.offset >= 0:
            return delivered.offset
        return (await self.bounds(partition)).end_offset - 1  # written before, and acknowledged only now

    async def bounds(self, partition: int) -> OffsetRange:
        """What the leader of a partition has of it."""
        tp = TopicPartition(REMOTE_LOG_METADATA, partition)
        start = await list_offsets(self._pool, {tp: EARLIEST})
        end = await list_offsets(self._pool, {tp: LATEST})
        return OffsetRange(start[tp].offset, end[tp].offset)

    def follow(self, partition: int, offset: int, leader_epoch: int) -> None:
        """Read a partition from an offset on."""
        if self._fetcher is not None:
            self._fetcher.seek(TopicPartition(REMOTE_LOG_METADATA, partition), offset, leader_epoch)

    def unfollow(self, partition: int) -> None:
        """Read a partition no more."""
        if self._fetcher is not None:
            self._fetcher.drop([TopicPartition(REMOTE_LOG_METADATA, partition)])

    async def take(self) -> Events:
        """What was fetched next; partitions that failed are read again, where they were."""
        await self._running.wait()
        assert self._fetcher is not None
        while True:
            try:
                taken = await self._fetcher.take()
                if taken is not None:
                    return events_of(self._fetcher, *taken)
            except OffsetOutOfRange:
                truncated = truncated_one(self._fetcher)
                if truncated is not None:
                    return truncated
            except KafkaError as error:
                logger.warning("reading %s failed, retrying: %s", REMOTE_LOG_METADATA, error)
                await asyncio.sleep(AGAIN_SECONDS)
                read_again(self._fetcher)


def truncated_one(fetcher: Fetcher) -> Events | None:
    """A partition that does not have any more what was read of it; others that have stopped are read again."""
    stopped = next((tp for tp, state in fetcher.assigned.items() if state.stopped), None)
    if stopped is None:
        return None
    fetcher.drop([stopped])
    read_again(fetcher)
    return Events(stopped.partition, (), 0, truncated=True)


def events_of(fetcher: Fetcher, state: Assigned, fetched: FetchedPartition) -> Events:
    """What was fetched, up to the first damage; that is fetched again."""
    values: list[tuple[int, bytes | None]] = []
    try:
        for records, after in fetched.batches():
            values += [(record.offset, record.value) for record in records]
            state.position = after
    except KafkaError:
        state.stopped = True
        if not values:
            raise
        read_again(fetcher)
    finally:
        fetcher.consumed(state, fetched)
    return Events(state.topic_partition.partition, values, state.position, fetched.leader_epoch)


def read_again(fetcher: Fetcher) -> None:
    """Read on where partitions have stopped: after what was given out, for what was fetched since then goes."""
    for tp, state in list(fetcher.assigned.items()):
        if state.stopped:
            fetcher.seek(tp, state.position, state.last_fetched_epoch)
