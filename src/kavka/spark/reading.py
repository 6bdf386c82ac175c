"""How an executor reads a range: from the partition's leader, or from a file that holds a part of the log.

Rule: everything here runs in a task, knows its range and nothing else, and opens and closes what it needs.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import mmap
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, Final, TypeVar

from kavka.client.pool import Pool
from kavka.client.ranges import Chunk, RangeOptions, read_range
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

T = TypeVar("T")

LOG: Final = logging.getLogger("kavka.spark")

_FILE_WINDOW: Final = 16 << 20
_GONE: Final = (OffsetOutOfRange, UnknownTopicOrPartition, UnknownTopicId)


def chunks(part: Range, options: SourceOptions, topic_id: str | None) -> Iterator[Chunk]:
    """The bytes of a range, from wherever the plan says they are."""
    with advised():
        if part.location is not None:
            yield from _OPENERS[part.location.partition(":")[0]](part)
        else:
            yield from _from_leader(part, options, topic_id)


def _from_leader(part: Range, options: SourceOptions, topic_id: str | None) -> Iterator[Chunk]:
    loop = _new_loop()
    start = part.start
    try:
        pool = loop.run_until_complete(connected(options.bootstrap, options.timeout_ms))
        try:
            while True:
                how = RangeOptions(
                    read_committed=options.read_committed,
                    fetch_bytes=options.fetch_bytes,
                    timeout_ms=options.timeout_ms,
                    topic_id=Uuid.parse(topic_id) if topic_id else Uuid.ZERO,
                )
                try:
                    for chunk in _stepped(loop, read_range(pool, part.topic_partition, start, part.end, how)):
                        start = chunk.next_offset
                        yield chunk
                    return
                except _GONE as error:
                    again = _after_loss(loop, pool, part, start, error, options)
                    if again is None:
                        return
                    start = again
        finally:
            loop.run_until_complete(pool.close())
    finally:
        loop.close()


def _stepped(loop: asyncio.AbstractEventLoop, source: AsyncIterator[Chunk]) -> Iterator[Chunk]:
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
    LOG.warning("%s: offsets %d to %d are gone: %s", tp, at, (left or part.end) - 1, error)
    return left


def send_dead_letters(options: SourceOptions, letters: Sequence[DeadLetter]) -> None:
    """Write dead letters to the topic that the query named, and wait until they are there."""

    async def work() -> None:
        assert options.dead_letter_topic is not None
        pool = await connected(options.bootstrap, options.timeout_ms)
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


async def connected(bootstrap: str, timeout_ms: int, client_id: str = "kavka-spark") -> Pool:
    """Connections to a cluster that the driver has met: one that does not answer now may do so in a moment."""
    pool = Pool(bootstrap, client_id=client_id, timeout_ms=timeout_ms)
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


_OPENERS: Final[dict[str, Callable[[Range], Iterator[Chunk]]]] = {"file": _from_file}
"""By the scheme of a range's location; a store of segment files has its line here."""
