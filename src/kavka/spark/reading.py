"""How an executor reads a range: from the partition's leader, or from a file that holds a part of the log.

Rule: everything here runs in a task, knows its range and nothing else, and opens and closes what it needs.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import mmap
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from kavka.catalog.segment import TopicIdPartition
from kavka.client.pool import Pool
from kavka.client.ranges import Chunk, RangeOptions, read_range
from kavka.client.view import ClusterView
from kavka.model.errors import (
    CorruptMessage,
    KafkaError,
    NetworkException,
    OffsetOutOfRange,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kavka.model.types import TopicPartition, Uuid
from kavka.records.batch import TRUNCATED, scan_prefix
from kavka.spark.advice import advised
from kavka.spark.dead_letters import DeadLetter, send
from kavka.spark.offsets import DataLossError, Range
from kavka.spark.options import SourceOptions
from kavka.spark.tiers import SCHEME, Located
from kavka.tiered.objects.base import ObjectNotFound

T = TypeVar("T")

logger: Final = logging.getLogger("kavka.spark")

_FILE_WINDOW: Final = 16 << 20
_GONE: Final = (OffsetOutOfRange, UnknownTopicOrPartition, UnknownTopicId)


class Leaders:
    """Reads the ranges of one task: from leaders, over connections that are opened when first used, or from files."""

    def __init__(self, options: SourceOptions, known: ClusterView | None = None) -> None:
        self._options = options
        self._known = known
        self._loop = _new_loop()
        self._pool: Pool | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._pool is not None:
                self._loop.run_until_complete(self._pool.close())
        finally:
            self._loop.close()

    def chunks(self, part: Range, topic_id: str | None) -> Iterator[Chunk]:
        """The bytes of a range, from wherever the plan says they are."""
        with advised():
            match part.location:
                case None:
                    yield from self._from_leader(part, topic_id)
                case location if location.startswith(f"{SCHEME}:"):
                    yield from self._from_tier(part, topic_id)
                case _:
                    yield from _from_file(part)

    def _from_tier(self, part: Range, topic_id: str | None) -> Iterator[Chunk]:
        """A remote segment, straight from its store; what is gone from there is asked of the leader."""
        assert part.location is not None
        assert self._options.remote is not None
        located = Located.decode(part.location)
        topic, partition = part.topic_partition
        name = TopicIdPartition(located.topic_id, partition, topic)
        start = part.start
        try:
            with self._options.remote.opened() as reader:
                for data, batches in _stepped(self._loop, reader.stretches(name, located.segment, start, part.end)):
                    first, last = batches[0].base_offset, batches[-1].last_offset
                    yield Chunk(memoryview(data), batches, located.aborted_in(first, last), start, last + 1)
                    start = last + 1
                return
        except ObjectNotFound as error:
            logger.warning("%s at offset %d: %s: asking the leader", part.topic_partition, start, error)
        yield from self._from_leader(replace(part, start=start, location=None), topic_id)

    def _from_leader(self, part: Range, topic_id: str | None) -> Iterator[Chunk]:
        options, start = self._options, part.start
        if self._pool is None:
            work = connected(options.bootstrap, options.timeout_ms, options.client_id, self._known)
            self._pool = self._loop.run_until_complete(work)
        how = RangeOptions(
            read_committed=options.read_committed,
            fetch_bytes=options.fetch_bytes,
            timeout_ms=options.timeout_ms,
            topic_id=Uuid.parse(topic_id) if topic_id else Uuid.ZERO,
        )
        while True:
            try:
                ranged = read_range(self._pool, part.topic_partition, start, part.end, how)
                for chunk in _stepped(self._loop, ranged):
                    start = chunk.next_offset
                    yield chunk
                return
            except _GONE as error:
                again = _after_loss(self._loop, self._pool, part, start, error, options)
                if again is None:
                    return
                start = again


def chunks(part: Range, options: SourceOptions, topic_id: str | None) -> Iterator[Chunk]:
    """The bytes of one range."""
    with Leaders(options) as leaders:
        yield from leaders.chunks(part, topic_id)


def _stepped(loop: asyncio.AbstractEventLoop, source: AsyncIterator[T]) -> Iterator[T]:
    """An async iterator as a plain one; between two steps the loop stands still and the socket's buffer fills."""
    try:
        while True:
            try:
                chunk = loop.run_until_complete(anext(source))
            except StopAsyncIteration:
                return
            yield chunk
    finally:
        loop.run_until_complete(source.aclose())  # type: ignore[attr-defined]


def _after_loss(
    loop: asyncio.AbstractEventLoop, pool: Pool, part: Range, at: int, error: KafkaError, options: SourceOptions
) -> int | None:
    """Where to go on after data was deleted under the query, None if nothing of the range is left."""
    from kavka.client.offsets import EARLIEST, list_offsets

    tp = part.topic_partition
    if options.fail_on_data_loss:
        raise DataLossError([f"{str(error).rstrip('.')}; the query was to read up to offset {part.end - 1}"]) from None
    first: int | None = None
    if isinstance(error, OffsetOutOfRange):
        first = loop.run_until_complete(list_offsets(pool, {tp: EARLIEST}))[tp].offset
    left = first if first is not None and at < first < part.end else None
    logger.warning("%s: offsets %d to %d are gone: %s", tp, at, (left or part.end) - 1, error)
    return left


def send_dead_letters(options: SourceOptions, letters: Sequence[DeadLetter]) -> None:
    """Write dead letters to the topic that the query named, and wait until they are there."""

    async def work() -> None:
        assert options.dead_letter_topic is not None
        pool = await connected(options.bootstrap, options.timeout_ms, options.client_id)
        try:
            await send(pool, options.dead_letter_topic, letters)
        finally:
            await pool.close()

    run(work())


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a task, on a loop of its own."""
    loop = _new_loop()
    try:
        with advised():
            return loop.run_until_complete(work)
    finally:
        loop.close()


async def connected(bootstrap: str, timeout_ms: int, client_id: str, known: ClusterView | None = None) -> Pool:
    """Connections to a cluster that the driver has met: one that does not answer now may do so in a moment.

    What is known of its leaders need not be asked for, as long as it is right.
    """
    pool = Pool(bootstrap, client_id=client_id, timeout_ms=timeout_ms)
    if known is not None:
        pool.view = known
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    for attempt in itertools.count(1):
        try:
            await pool.any()
            break
        except NetworkException:
            wait = pool.retry_delay(attempt)
            if loop.time() + wait > deadline:
                await pool.close()
                raise
            await asyncio.sleep(wait)
    return pool


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # an executor may have nothing but what came with the job
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _from_file(part: Range) -> Iterator[Chunk]:
    """A segment file in Kafka's format, on a disk that the executor sees."""
    assert part.location is not None
    path = part.location.partition(":")[2]
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        view = memoryview(data)
        try:
            yield from _file_chunks(part.topic_partition, view, part.start, part.end)
        finally:
            view.release()


def _file_chunks(tp: TopicPartition, view: memoryview, start: int, end: int) -> Iterator[Chunk]:
    position, window = 0, _FILE_WINDOW
    while position < len(view):
        # The window is a copy: batches that were handed out must not keep the file's map from closing.
        data = memoryview(bytes(view[position : position + window]))
        batches, valid, reason = scan_prefix(data)
        if reason is not None and reason != TRUNCATED:
            raise CorruptMessage(f"{tp}, segment file at byte {position + valid}: {reason}")
        if not batches:
            if position + window >= len(view):
                raise CorruptMessage(f"{tp}, segment file at byte {position}: {reason}")
            window *= 2
            continue
        position += valid
        following = batches[-1].last_offset + 1
        if following > start:
            yield Chunk(data, batches, None, start, following)
        if following >= end:
            return
