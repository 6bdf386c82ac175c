"""The consumer by assignment: reads chosen partitions from chosen places."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Self

from kavka.client.fetched import ConsumerRecord, FetchedPartition
from kavka.client.fetcher import Assigned, Fetcher, FetchOptions
from kavka.client.offsets import EARLIEST, LATEST, list_offsets
from kavka.client.pool import Pool
from kavka.model.errors import KafkaError, UnknownTopicOrPartition
from kavka.model.types import TopicPartition


@dataclass(frozen=True, slots=True)
class At:
    """A place in a log: the first record at or after a time, or the end if none is that late."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Last:
    """A place in a log: so many offsets before its end, or its start if there are not as many."""

    count: int


Edge = Literal["start", "end", "earliest", "latest"]
"""An end of a log; "earliest" and "latest" are Kafka's words for the start and the end."""
Place = Edge | int | At | Last
"""Where to read: from the start or the end of the log, an offset, a time, or some before the end."""
Isolation = Literal["read_uncommitted", "read_committed"]

_EDGES: Final[Mapping[object, Literal["start", "end"]]] = {
    "start": "start",
    "earliest": "start",
    "end": "end",
    "latest": "end",
}


def edge_or_error(option: str, word: object) -> Literal["start", "end", "error"]:
    """What an option means that is an end of the log, or "error"; raises ValueError for anything else."""
    if word == "error":
        return "error"
    if word not in _EDGES:
        raise ValueError(f"{option} is 'start' (or 'earliest'), 'end' (or 'latest') or 'error', not {word!r}")
    return _EDGES[word]


class Consumer:
    """Reads records.

    ```python
    async with Consumer("127.0.0.1:9092") as consumer:
        await consumer.assign("orders", start="start")
        async for record in consumer:  # for ever
            print(record.offset, record.value)
    ```

    `until_end()` stops at what was the end; `read()` returns whole batches. Records of transactions are seen when
    they are written, or with `isolation="read_committed"` when they are committed. An offset that the log does not
    have raises OffsetOutOfRange, unless `out_of_range` says where to go on.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | Pool,
        *,
        isolation: Isolation = "read_uncommitted",
        out_of_range: Edge | Literal["error"] = "error",
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 52_428_800,
        partition_bytes: int = 1_048_576,
        prefetch_bytes: int | None = None,
        check_crc: bool = True,
        client_id: str = "kavka-consumer",
        security: Mapping[str, Any] | None = None,
    ) -> None:
        if isolation not in ("read_uncommitted", "read_committed"):
            raise ValueError(f"isolation is 'read_uncommitted' or 'read_committed', not {isolation!r}")
        self._options = FetchOptions(
            read_committed=isolation == "read_committed",
            out_of_range=edge_or_error("out_of_range", out_of_range),
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            partition_bytes=partition_bytes,
            prefetch_bytes=2 * partition_bytes if prefetch_bytes is None else max(1, prefetch_bytes),
            check_crc=check_crc,
        )
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._security = security
        self._pool: Pool | None = None
        self._fetcher: Fetcher | None = None
        self._records: deque[ConsumerRecord] = deque()
        self._current: tuple[Assigned, FetchedPartition, Iterator[tuple[list[ConsumerRecord], int]]] | None = None

    async def __aenter__(self) -> Self:
        if isinstance(self._bootstrap, Pool):
            self._pool = self._bootstrap
        else:
            self._pool = Pool(self._bootstrap, client_id=self._client_id, security=self._security)
            await self._pool.any()
        self._fetcher = Fetcher(self._pool, self._options)
        await self._fetcher.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pool, fetcher = self._opened()
        self._fetcher = None
        try:
            await fetcher.__aexit__(kind, error, trace)
        finally:
            if pool is not self._bootstrap:
                await pool.close()

    async def start(self) -> Self:
        """Open it, for whoever has no `async with` block; the same task calls `stop` at the end."""
        return await self.__aenter__()

    async def stop(self) -> None:
        """Close it, as the end of an `async with` block does."""
        await self.__aexit__(None, None, None)

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return list(self._opened()[1].assigned)

    async def assign(self, *sources: str | TopicPartition, start: Place = "start") -> None:
        """Read these topics or partitions, and no others, from a place on."""
        pool, fetcher = self._opened()
        partitions: list[TopicPartition] = []
        for source in sources:
            if isinstance(source, TopicPartition):
                topic = await pool.topic(source.topic)
                if source.partition not in topic.partitions:
                    raise UnknownTopicOrPartition(f"topic {source.topic!r} has no partition {source.partition}")
                partitions.append(source)
            else:
                partitions += [TopicPartition(source, index) for index in (await pool.topic(source)).partitions]
        positions = await self._find(partitions, start)
        self._records.clear()
        self._current = None
        fetcher.assign(positions)

    async def seek(self, place: Place, *partitions: TopicPartition) -> None:
        """Go on reading from another place: these partitions, or all that are assigned."""
        _, fetcher = self._opened()
        chosen = partitions or tuple(fetcher.assigned)
        for tp in chosen:
            if tp not in fetcher.assigned:
                raise ValueError(f"{tp} is not assigned")
        found = await self._find(chosen, place)
        for tp, offset in found.items():
            if self._records and self._records[0][:2] == tp:
                self._records.clear()
            if self._current is not None and self._current[0].topic_partition == tp:
                self._current = None
            fetcher.seek(tp, offset)

    def position(self, tp: TopicPartition) -> int:
        """The offset of the next record of a partition."""
        if self._records and self._records[0][:2] == tp:
            return self._records[0].offset
        return self._opened()[1].assigned[tp].position

    def high_watermark(self, tp: TopicPartition) -> int:
        """The end of a partition's log as the last fetch saw it, -1 before the first."""
        return self._opened()[1].assigned[tp].high_watermark

    async def start_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """The first offset of these partitions, or of all that are assigned."""
        return await self._find(partitions or self.assignment, "start")

    async def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """The offset after the last record of these partitions, or of all that are assigned."""
        return await self._find(partitions or self.assignment, "end")

    async def offsets(self, place: Place, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """The offset of a place in these partitions, or in all that are assigned."""
        return await self._find(partitions or self.assignment, place)

    async def read(
        self, timeout_ms: int | None = None, *, ends: Mapping[TopicPartition, int] | None = None
    ) -> list[ConsumerRecord]:
        """The next records, at least one, in the order of their partition.

        None when none came in time, or when all positions have reached these `ends`.
        """
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while not self._records:
                    if ends is not None and all(self.position(tp) >= end for tp, end in ends.items()):
                        return []
                    await self._advance()
        except TimeoutError:
            return []
        records = list(self._records)
        self._records.clear()
        return records

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        while True:
            while self._records:
                yield self._records.popleft()
            await self._advance()

    async def until_end(self) -> AsyncIterator[ConsumerRecord]:
        """Every record up to what is now the end of the assigned partitions; some after it may be among them."""
        ends = await self.end_offsets()
        while True:
            while self._records:
                yield self._records.popleft()
            ends = {tp: end for tp, end in ends.items() if self.position(tp) < end}
            if not ends:
                return
            await self._advance()

    async def _advance(self) -> None:
        """Take the next batch: its records, perhaps none, are the next to be given out."""
        _, fetcher = self._opened()
        if self._current is None:
            taken = await fetcher.take()
            if taken is None:
                return
            state, fetched = taken
            self._current = state, fetched, fetched.batches()
        state, fetched, batches = self._current
        try:
            records, after = next(batches)
        except StopIteration:
            self._current = None
            fetcher.consumed(state, fetched)
            return
        except KafkaError:
            self._current = None
            state.stopped = True
            raise
        state.position = after
        self._records.extend(records)

    async def _find(self, partitions: Collection[TopicPartition], place: Place) -> dict[TopicPartition, int]:
        pool, _ = self._opened()
        if isinstance(place, int):
            if place < 0:
                raise ValueError(f"an offset is not negative: {place}")
            return dict.fromkeys(partitions, place)
        if isinstance(place, Last):
            starts = await self._find(partitions, "start")
            ends = await self._find(partitions, "end")
            return {tp: max(at, ends[tp] - place.count) for tp, at in starts.items()}
        if isinstance(place, At):
            time = place.timestamp_ms
        elif place in _EDGES:
            time = EARLIEST if _EDGES[place] == "start" else LATEST
        else:
            raise ValueError(
                "a place is 'start' (or 'earliest'), 'end' (or 'latest'), an offset, At(timestamp_ms) or Last(count), "
                f"not {place!r}"
            )
        committed = self._options.read_committed
        found = await list_offsets(pool, dict.fromkeys(partitions, time), read_committed=committed)
        positions = {tp: each.offset for tp, each in found.items()}
        late = [tp for tp, offset in positions.items() if offset < 0]
        if late:
            last = await list_offsets(pool, dict.fromkeys(late, LATEST), read_committed=committed)
            positions.update({tp: each.offset for tp, each in last.items()})
        return positions

    def _opened(self) -> tuple[Pool, Fetcher]:
        if self._pool is None or self._fetcher is None:
            raise RuntimeError("the consumer is not open: use it in an `async with` block")
        return self._pool, self._fetcher
