"""Dead letters of share groups: records that a group gives up, written to the topic that it names (KIP-1191's headers).

Before a record is written here it is remembered as about to be archived, and as archived afterwards. Who finds the
former, because a leader has died in between, looks through the end of the topic for what was written already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kavka.client.deadline import within
from kavka.coordinator.share.settings import ShareGroupSettings
from kavka.model.clock import Clock
from kavka.model.errors import (
    BrokerNotAvailable,
    InvalidConfig,
    KafkaError,
    LeaderNotAvailable,
    OffsetOutOfRange,
    RequestTimedOut,
    error_for,
)
from kavka.model.share import SharePartitionKey
from kavka.model.types import FileSlice, Uuid
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.batch import Header, Record, records, scan_prefix
from kavka.records.builder import BatchBuilder
from kavka.replica.fetching import FetchEntry
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.runtime.listed_offset import EARLIEST, LATEST, listed_offset
from kavka.share.partition import REJECTED, Dead

logger = logging.getLogger(__name__)

PREFIX: Final = "__dlq.errors."
TOPIC, PARTITION, OFFSET, GROUP = (PREFIX + name for name in ("topic", "partition", "offset", "group"))
DELIVERY_COUNT, MESSAGE = PREFIX + "delivery.count", PREFIX + "message"
WORDS: Final = {REJECTED: b"the record was rejected by a member of the group"}
SPENT_WORDS: Final = b"the record was delivered as often as it may be"

LOOK_BACK: Final = 10_000
"""So many records at the end of a partition are looked through for what was written already."""
READ_BYTES: Final = 1 << 20
BATCH_BYTES: Final = 512 * 1024
PATIENCE_MS: Final = 20_000
PAUSE_SECONDS: Final = 0.2
TIMEOUT_MS: Final = 10_000

PASSING: Final = (BrokerNotAvailable, OffsetOutOfRange)
"""What passes beside the errors that are retriable: a node that is away, and a log that was cut while it was read."""

Origin = tuple[bytes, bytes, bytes, bytes]
"""Group, topic, partition and offset of a dead letter, as its headers say."""


class DeadLetterPartition(NamedTuple):
    """Where dead letters go."""

    name: str
    topic_id: Uuid
    partition: int
    leader: int


class DeadLetters:
    """Writes the dead letters of the partitions that this node leads."""

    def __init__(self, replicas: ReplicaManager, clock: Clock, ask: Callable[[int, Any], Awaitable[Any]]) -> None:
        self._replicas = replicas
        self._clock = clock
        self._ask = ask

    async def bury(
        self,
        key: SharePartitionKey,
        source: Partition,
        dead: Sequence[Dead],
        settings: ShareGroupSettings,
        *,
        again: bool = False,
    ) -> None:
        """Write records that are given up; `again` those that are not there yet. What cannot be written is logged."""
        until_ms = self._clock.monotonic_ms() + PATIENCE_MS
        while True:
            try:
                await self._bury(key, source, dead, settings, again=again)
                return
            except KafkaError as error:
                passing = error.retriable or isinstance(error, PASSING)
                if not passing or self._clock.monotonic_ms() > until_ms:
                    count = sum(given_up.last_offset - given_up.first_offset + 1 for given_up in dead)
                    logger.error("%s: writing %d records to the dead-letter topic failed: %s", key, count, error)
                    return
            again = True  # the write may have been done although nobody said so
            await asyncio.sleep(PAUSE_SECONDS)

    async def _bury(
        self,
        key: SharePartitionKey,
        source: Partition,
        dead: Sequence[Dead],
        settings: ShareGroupSettings,
        *,
        again: bool,
    ) -> None:
        place = self._place(settings.dead_letter_topic, key.partition)
        there = await self._origins(place) if again else frozenset[Origin]()
        topic = source.topic_partition.topic
        originals = {record.offset: record for record in read(source, dead)} if settings.dead_letter_copies else {}
        builder, now_ms = BatchBuilder(), self._clock.now_ms()
        for dead_range in dead:
            for offset in range(dead_range.first_offset, dead_range.last_offset + 1):
                headers = headers_of(key, topic, offset, dead_range)
                if origin_of(headers) in there:
                    continue
                found = originals.get(offset)
                if found is not None:
                    builder.append(found.key, found.value, now_ms, (*found.headers, *headers))
                else:
                    builder.append(None, None, now_ms, headers)
                if builder.size > BATCH_BYTES:
                    await self._append(place, builder, now_ms)
                    builder = BatchBuilder()
        if builder.count:
            await self._append(place, builder, now_ms)

    def _place(self, name: str, partition: int) -> DeadLetterPartition:
        """The partition that takes the dead letters of another; raises KafkaError."""
        topic = self._replicas.image.topics.by_name.get(name)
        if topic is None or name.startswith("__"):
            raise InvalidConfig(f"{name!r} is no topic for dead letters")
        index = partition % len(topic.partitions)
        leader = topic.partitions[index].leader
        if leader < 0:
            raise LeaderNotAvailable(f"{name}-{index} has no leader")
        return DeadLetterPartition(name, topic.id, index, leader)

    async def _append(self, place: DeadLetterPartition, builder: BatchBuilder, now_ms: int) -> None:
        batch = builder.build()
        partition = self._led_here(place)
        if partition is not None:
            await committed(partition, partition.append_own(batch, now_ms) + builder.count)
        else:
            data = [PartitionProduceData(index=place.partition, records=batch)]
            topic = TopicProduceData(name=place.name, topic_id=place.topic_id, partition_data=data)
            answer = await self._ask(place.leader, ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[topic]))
            for row in (row for topic_response in answer.responses for row in topic_response.partition_responses):
                if row.error_code:
                    raise error_for(row.error_code, row.error_message)

    # -- what is there already ------------------------------------------------------------------------

    async def _origins(self, place: DeadLetterPartition) -> frozenset[Origin]:
        """Where the last dead letters of a partition came from."""
        found: set[Origin] = set()
        start, end = await self._bounds(place)
        offset = max(start, end - LOOK_BACK)
        while offset < end:
            data = await self._read(place, offset)
            batches, _, _ = scan_prefix(data)
            if not batches:
                break
            for batch in batches:
                if not batch.is_control:
                    found.update(origin_of(record.headers) for record in records(data, batch))
            offset = batches[-1].last_offset + 1
        return frozenset(found)

    def _led_here(self, place: DeadLetterPartition) -> Partition | None:
        partition = self._replicas.held(place.topic_id, place.partition)
        return partition if partition is not None and partition.leads else None

    async def _bounds(self, place: DeadLetterPartition) -> tuple[int, int]:
        """The log start offset of a partition, and its high watermark."""
        partition = self._led_here(place)
        if partition is not None:
            return partition.log_start_offset, partition.high_watermark
        of = place.leader, place.name, place.partition
        return await listed_offset(self._ask, *of, EARLIEST), await listed_offset(self._ask, *of, LATEST)

    async def _read(self, place: DeadLetterPartition, offset: int) -> bytes:
        """Records of a partition from an offset on."""
        partition = self._led_here(place)
        if partition is not None:
            return partition.read_own(max(offset, partition.log_start_offset), READ_BYTES)
        row = FetchPartition(partition=place.partition, fetch_offset=offset, partition_max_bytes=READ_BYTES)
        topic = FetchTopic(topic=place.name, topic_id=place.topic_id, partitions=[row])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=READ_BYTES, topics=[topic])
        answer = await self._ask(place.leader, request)
        (got,) = [row for topic_response in answer.responses for row in topic_response.partitions]
        if got.error_code:
            raise error_for(got.error_code)
        return bytes(got.records or b"")


def headers_of(key: SharePartitionKey, topic: str, offset: int, dead: Dead) -> tuple[Header, ...]:
    """Where a dead letter comes from, and why it is one."""
    return (
        (TOPIC, topic.encode()),
        (PARTITION, str(key.partition).encode()),
        (OFFSET, str(offset).encode()),
        (GROUP, key.group_id.encode()),
        (DELIVERY_COUNT, str(dead.delivery_count).encode()),
        (MESSAGE, WORDS.get(dead.cause, SPENT_WORDS)),
    )


def origin_of(headers: Iterable[Header]) -> Origin:
    """Where a dead letter comes from; the last header of a name counts, for a dead letter may have died again."""
    named = {name: value or b"" for name, value in headers}
    return named.get(GROUP, b""), named.get(TOPIC, b""), named.get(PARTITION, b""), named.get(OFFSET, b"")


def read(source: Partition, dead: Sequence[Dead]) -> Iterator[Record]:
    """The records that are given up, as far as the disk has them."""
    for dead_range in dead:
        offset = max(dead_range.first_offset, source.local_log_start_offset)
        while offset <= dead_range.last_offset:
            entry = FetchEntry(source.topic_id, source.topic_partition.partition, -1, offset, -1, -1, READ_BYTES)
            found = source.fetch(entry, committed=False, max_bytes=READ_BYTES, min_one=True).records
            if not found:
                break
            data = found.file.read_at(found.position, found.length) if isinstance(found, FileSlice) else found
            batches, _, _ = scan_prefix(data)
            if not batches:
                break
            for batch in batches:
                if not batch.is_control:
                    wanted = range(offset, dead_range.last_offset + 1)
                    yield from (each for each in records(data, batch) if each.offset in wanted)
            offset = batches[-1].last_offset + 1


async def committed(partition: Partition, offset: int) -> None:
    """Return when everything before an offset is committed; raises KafkaError."""
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: KafkaError | None) -> None:
        if waiter.done():
            return
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)

    wait = partition.when_committed(offset, done)
    try:
        async with within(TIMEOUT_MS / 1000):
            await waiter
    except TimeoutError:
        raise RequestTimedOut("dead letters are not committed in time") from None
    finally:
        wait.cancel()
