"""Fetching ahead: for each node that leads an assigned partition, one long poll after the other.

The fetcher knows where each partition is read; the consumer takes from it what has arrived, in
the order of arrival. A partition whose prefetched data has not been taken is left out of the next
poll, so a slow reader bounds its own memory.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Final, Self

from kavka.client.background import Background
from kavka.client.connection import Connection
from kavka.client.fetched import AbortedTransaction, FetchedPartition
from kavka.client.offsets import EARLIEST, LATEST, list_offsets
from kavka.client.pool import Pool
from kavka.client.view import error_for
from kavka.model.errors import (
    BrokerNotAvailable,
    FencedLeaderEpoch,
    KafkaError,
    OffsetOutOfRange,
)
from kavka.model.types import TopicPartition, Uuid
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

_BY_NAME_UNTIL: Final = 12


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How data is fetched."""

    read_committed: bool
    out_of_range: str
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_bytes: int
    prefetch_bytes: int
    check_crc: bool
    notices_truncation: bool = False
    """Whether a log that no longer has what was fetched of it is out of range, though it may have grown since."""


class Assigned:
    """The position in one partition. A seek replaces it, so that fetches in flight for the old one are not taken."""

    __slots__ = (
        "buffered",
        "failed_attempts",
        "fetch_at",
        "high_watermark",
        "last_fetched_epoch",
        "last_stable_offset",
        "log_start_offset",
        "not_before",
        "position",
        "stopped",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, position: int, leader_epoch: int = -1) -> None:
        self.topic_partition = topic_partition
        self.position = position
        self.fetch_at = position
        self.last_fetched_epoch = leader_epoch
        self.buffered = 0
        self.failed_attempts = 0
        self.not_before = 0.0
        self.stopped = False
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1


class Fetcher:
    """Runs the polls and keeps what they brought."""

    def __init__(self, pool: Pool, options: FetchOptions) -> None:
        self.assigned: dict[TopicPartition, Assigned] = {}
        self._pool = pool
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._background = Background()
        self._arrived: deque[tuple[Assigned, FetchedPartition | KafkaError]] = deque()
        self._data = asyncio.Event()
        self._changed = asyncio.Event()
        self._polled: set[int] = set()
        self._refreshing = False
        self._woken = False

    async def __aenter__(self) -> Self:
        await self._background.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._background.__aexit__(kind, error, trace)
        finally:
            self._pool.hang_up(self)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, and no others, from these offsets on."""
        self.assigned = {tp: Assigned(tp, offset) for tp, offset in positions.items()}
        self._arrived.clear()
        self._look_around()

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions as well; the others go on as they are."""
        self.assigned |= {tp: Assigned(tp, offset) for tp, offset in positions.items()}
        self._look_around()

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions no more; what has arrived of them is not given out."""
        for tp in partitions:
            self.assigned.pop(tp, None)
        self._notify()

    def seek(self, tp: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """Read one partition from an offset on; what comes before was written under the epoch, if that is known."""
        self.assigned[tp] = Assigned(tp, offset, leader_epoch)
        self._look_around()

    def wake(self) -> None:
        """Let whoever waits for data look around for something else."""
        self._woken = True
        self._data.set()

    async def take(self) -> tuple[Assigned, FetchedPartition] | None:
        """What arrived next; None when woken by someone. Raises the error that a partition was answered with."""
        while not self._woken:
            while self._arrived:
                state, item = self._arrived.popleft()
                if self.assigned.get(state.topic_partition) is not state:
                    continue
                if isinstance(item, KafkaError):
                    raise item
                return state, item
            self._data.clear()
            await self._data.wait()
        self._woken = False
        return None

    def consumed(self, state: Assigned, fetched: FetchedPartition) -> None:
        """What was taken is used up: its partition may be fetched again."""
        state.buffered -= fetched.size
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _look_around(self) -> None:
        """Poll every node that leads an assigned partition; look for the leaders that are not known."""
        self._notify()
        if self._pool.view.missing(self.assigned):
            self._refresh_soon()
        self._poll_leaders()

    def _poll_leaders(self) -> None:
        """Poll the leaders that are not polled yet: others who use the pool may have learned of them."""
        for tp in self.assigned:
            leader = self._pool.view.leader(*tp)
            if leader >= 0 and leader not in self._polled:
                self._polled.add(leader)
                self._background.start(self._poll(leader))

    def _refresh_soon(self) -> None:
        if not self._refreshing:
            self._refreshing = True
            self._background.start(self._refresh())

    async def _refresh(self) -> None:
        for attempt in count(1):
            try:
                await self._pool.refresh({tp.topic for tp in self.assigned})
                if not self._pool.view.missing(self.assigned):
                    break
            except KafkaError:
                pass  # the network's errors pass, or the polls will meet them too
            await asyncio.sleep(self._pool.retry_delay(attempt))
        self._refreshing = False
        self._look_around()

    async def _poll(self, node: int) -> None:
        failures = 0
        try:
            while any(self._pool.view.leader(*tp) == node for tp in self.assigned):
                self._poll_leaders()
                changed = self._changed
                wanted = self._wanted(node)
                if not wanted:
                    await changed.wait()
                    continue
                try:
                    connection = await self._pool.node(node, lane=self)
                    request, version = self._request(connection, wanted)
                    answer = await connection.request(
                        request,
                        FetchResponse,
                        version=version,
                        timeout_ms=self._options.max_wait_ms + self._pool.timeout_ms,
                    )
                except KafkaError as error:
                    if not error.retriable and not isinstance(error, BrokerNotAvailable):
                        self._fail(wanted.values(), error)
                        continue
                    failures += 1
                    self._refresh_soon()
                    await asyncio.sleep(self._pool.retry_delay(failures))
                    continue
                failures = 0
                self._received(wanted, answer)
        finally:
            self._polled.discard(node)
        self._look_around()

    def _wanted(self, node: int) -> dict[TopicPartition, Assigned]:
        now = self._loop.time()
        view = self._pool.view
        return {
            tp: state
            for tp, state in self.assigned.items()
            if not state.stopped
            and state.buffered < self._options.prefetch_bytes
            and state.not_before <= now
            and view.leader(*tp) == node
        }

    def _request(self, connection: Connection, wanted: Mapping[TopicPartition, Assigned]) -> tuple[FetchRequest, int]:
        view = self._pool.view
        by_topic: defaultdict[str, list[FetchPartition]] = defaultdict(list)
        for tp, state in wanted.items():
            known = view.partition(*tp)
            by_topic[tp.topic].append(
                FetchPartition(
                    partition=tp.partition,
                    current_leader_epoch=known.leader_epoch if known is not None else -1,
                    fetch_offset=state.fetch_at,
                    last_fetched_epoch=state.last_fetched_epoch if self._options.notices_truncation else -1,
                    partition_max_bytes=self._options.partition_bytes,
                )
            )
        ids = {name: view.topics[name].id for name in by_topic}
        named_only = Uuid.ZERO in ids.values()
        version = connection.version(ApiKey.FETCH, at_most=_BY_NAME_UNTIL if named_only else None)
        request = FetchRequest(
            max_wait_ms=self._options.max_wait_ms,
            min_bytes=self._options.min_bytes,
            max_bytes=self._options.max_bytes,
            isolation_level=int(self._options.read_committed),
            topics=[FetchTopic(topic=name, topic_id=ids[name], partitions=rows) for name, rows in by_topic.items()],
        )
        return request, version

    def _received(self, wanted: Mapping[TopicPartition, Assigned], answer: FetchResponse) -> None:
        if answer.error_code:
            for state in wanted.values():
                self._failed(state, error_for(answer.error_code))
            return
        for topic in answer.responses:
            name = self._pool.view.names.get(topic.topic_id, topic.topic)
            for row in topic.partitions:
                tp = TopicPartition(name, row.partition_index)
                asked = wanted.get(tp)
                if asked is None or self.assigned.get(tp) is not asked:
                    continue
                if row.error_code:
                    self._failed(asked, error_for(row.error_code))
                elif row.diverging_epoch.epoch >= 0:
                    self._out_of_range(asked)
                else:
                    self._accept(asked, row)
        if self._pool.stale:
            self._refresh_soon()

    def _accept(self, state: Assigned, row: PartitionData) -> None:
        state.failed_attempts = 0
        state.high_watermark = row.high_watermark
        state.last_stable_offset = row.last_stable_offset
        state.log_start_offset = row.log_start_offset
        if not row.records:
            return
        aborted = None
        if self._options.read_committed:
            aborted = [
                AbortedTransaction(transaction.producer_id, transaction.first_offset)
                for transaction in row.aborted_transactions or ()
            ]
        assert isinstance(row.records, memoryview)
        try:
            fetched = FetchedPartition(
                state.topic_partition, state.fetch_at, row.records, aborted=aborted, check_crc=self._options.check_crc
            )
        except KafkaError as error:
            self._fail([state], error)
            return
        state.fetch_at = fetched.next_offset
        state.last_fetched_epoch = fetched.leader_epoch
        state.buffered += fetched.size
        self._arrived.append((state, fetched))
        self._data.set()

    def _failed(self, state: Assigned, error: KafkaError) -> None:
        if isinstance(error, OffsetOutOfRange):
            self._out_of_range(state)
            return
        if not error.retriable and not isinstance(error, FencedLeaderEpoch):
            self._fail([state], error)
            return
        state.failed_attempts += 1
        wait = self._pool.retry_delay(state.failed_attempts)
        state.not_before = self._loop.time() + wait
        self._loop.call_later(wait, self._notify)
        self._refresh_soon()

    def _fail(self, states: Iterable[Assigned], error: KafkaError) -> None:
        """Tell the reader, once; the partition rests until it is sought or assigned anew."""
        for state in states:
            state.stopped = True
            what = f"{state.topic_partition} at offset {state.fetch_at}: {error}"
            self._arrived.append((state, type(error)(what)))
        self._data.set()

    def _out_of_range(self, state: Assigned) -> None:
        if self._options.out_of_range == "error":
            self._fail([state], OffsetOutOfRange())
            return
        state.stopped = True
        self._background.start(self._reset(state, EARLIEST if self._options.out_of_range == "start" else LATEST))

    async def _reset(self, state: Assigned, where: int) -> None:
        tp = state.topic_partition
        try:
            found = await list_offsets(self._pool, {tp: where}, read_committed=self._options.read_committed)
        except KafkaError as error:
            self._fail([state], error)
            return
        if self.assigned.get(tp) is state:
            self.seek(tp, found[tp].offset)
