"""Dead letters of share groups: records that a group gives up, written to the topic that it names (KIP-1191's headers).

They are written by an idempotent producer, one batch at a time for each share partition. Before a batch is written the
share coordinator remembers which records are in it (those about to be archived), the producer's id and the batch's
sequence number; afterwards, that they are archived. Whoever does not know whether a batch was written, because no
answer came or because a leader has died in between, writes the same batch again: where it is, it is a duplicate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from kavka.client.deadline import within
from kavka.coordinator.share.settings import ShareGroupSettings
from kavka.coordinator.share_state.machine import ReadState, StateChange
from kavka.model.clock import Clock
from kavka.model.errors import (
    BrokerNotAvailable,
    InvalidConfig,
    KafkaError,
    LeaderNotAvailable,
    MessageTooLarge,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    RequestTimedOut,
    UnknownTopicId,
    error_for,
)
from kavka.model.share import ARCHIVED, ARCHIVING, DeadLetterProducer, SharePartitionKey, StateBatch
from kavka.model.types import FileSlice, Uuid
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.batch import Header, Record, records, scan_prefix
from kavka.records.builder import BatchBuilder
from kavka.replica.fetching import FetchEntry
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.runtime.share_persister import SharePersister
from kavka.share.aborted import without
from kavka.share.acquiring import Acquired
from kavka.share.partition import REJECTED, SPENT, Dead

logger = logging.getLogger(__name__)

PREFIX: Final = "__dlq.errors."
TOPIC, PARTITION, OFFSET, GROUP = (PREFIX + name for name in ("topic", "partition", "offset", "group"))
DELIVERY_COUNT, MESSAGE = PREFIX + "delivery.count", PREFIX + "message"
WORDS: Final = {REJECTED: b"the record was rejected by a member of the group"}
SPENT_WORDS: Final = b"the record was delivered as often as it may be"

READ_BYTES: Final = 1 << 20
BATCH_BYTES: Final = 512 * 1024
BATCH_RECORDS: Final = 1_000
PATIENCE_MS: Final = 20_000
PAUSE_SECONDS: Final = 0.2
TIMEOUT_MS: Final = 10_000

NO_PRODUCER: Final = DeadLetterProducer(-1, 0, Uuid.ZERO, 0)
PRODUCE_VERSION: Final = 13
MAX_SEQUENCE: Final = 2**31 - 1


class DeadLetterBatch(NamedTuple):
    """Dead letters that are written together."""

    ranges: Sequence[Dead]
    builder: BatchBuilder


class DeadLetters:
    """Where the dead letters of the partitions that this node leads go."""

    def __init__(
        self,
        replicas: ReplicaManager,
        clock: Clock,
        ask: Callable[[int, Any], Awaitable[Any]],
        new_producer_id: Callable[[], Awaitable[int]],
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._ask = ask
        self.new_producer_id = new_producer_id

    def place(self, name: str, partition: int) -> tuple[Uuid, int]:
        """Topic id and index of the partition that takes the dead letters of another; raises InvalidConfig."""
        topic = self._replicas.image.topics.by_name.get(name)
        if topic is None or name.startswith("__"):
            raise InvalidConfig(f"{name!r} is no topic for dead letters")
        return topic.id, partition % len(topic.partitions)

    def now_ms(self) -> int:
        """The time of day."""
        return self._clock.now_ms()

    def has(self, topic_id: Uuid) -> bool:
        """Whether a topic is still there."""
        return topic_id in self._replicas.image.topics.by_id

    def batch(
        self, key: SharePartitionKey, source: Partition, dead: Sequence[Dead], settings: ShareGroupSettings
    ) -> DeadLetterBatch:
        """The dead letters of some ranges as one batch."""
        (batch,) = self.batches(key, source, dead, settings, most_records=MAX_SEQUENCE, most_bytes=MAX_SEQUENCE)
        return batch

    def batches(
        self,
        key: SharePartitionKey,
        source: Partition,
        dead: Sequence[Dead],
        settings: ShareGroupSettings,
        *,
        most_records: int = BATCH_RECORDS,
        most_bytes: int = BATCH_BYTES,
    ) -> Iterator[DeadLetterBatch]:
        """The dead letters of some ranges, so many in each batch."""
        topic, now_ms = source.topic_partition.topic, self._clock.now_ms()
        ranges: list[Dead] = []
        builder = BatchBuilder()
        for dead_range in dead:
            originals = read(source, dead_range) if settings.dead_letter_copies else iter(())
            original = next(originals, None)
            first = dead_range.first_offset
            for offset in range(first, dead_range.last_offset + 1):
                headers = headers_of(key, topic, offset, dead_range)
                if original is not None and original.offset == offset:
                    builder.append(original.key, original.value, now_ms, (*original.headers, *headers))
                    original = next(originals, None)
                else:
                    builder.append(None, None, now_ms, headers)
                if builder.count == most_records or builder.size > most_bytes:
                    ranges.append(dead_range._replace(first_offset=first, last_offset=offset))
                    yield DeadLetterBatch(ranges, builder)
                    ranges, builder, first = [], BatchBuilder(), offset + 1
            if first <= dead_range.last_offset:
                ranges.append(dead_range._replace(first_offset=first))
        if builder.count:
            yield DeadLetterBatch(ranges, builder)

    async def send(self, producer: DeadLetterProducer, builder: BatchBuilder) -> None:
        """Write a batch until it is known to be there; raises KafkaError if that cannot be or takes too long."""
        builder.producer_id, builder.producer_epoch, builder.base_sequence = producer.producer_id, 0, producer.sequence
        batch, until_ms = builder.build(), self._clock.monotonic_ms() + PATIENCE_MS
        while True:
            try:
                await self._append(producer.topic_id, producer.partition, batch)
                return
            except KafkaError as error:
                passing = error.retriable or isinstance(error, BrokerNotAvailable)
                if not passing or not self.has(producer.topic_id) or self._clock.monotonic_ms() > until_ms:
                    raise
            await asyncio.sleep(PAUSE_SECONDS)

    async def _append(self, topic_id: Uuid, index: int, batch: bytes) -> None:
        partition = self._replicas.held(topic_id, index)
        if partition is not None and partition.leads:
            info = partition.append(memoryview(batch), -1, self._clock.now_ms(), PRODUCE_VERSION)
            await committed(partition, info.last_offset + 1)
            return
        topic = self._replicas.image.topics.by_id.get(topic_id)
        if topic is None or index >= len(topic.partitions):
            raise UnknownTopicId(f"the topic of dead letters {topic_id} is gone")
        leader = topic.partitions[index].leader
        if leader < 0:
            raise LeaderNotAvailable(f"{topic.name}-{index} has no leader")
        data = [PartitionProduceData(index=index, records=batch)]
        named = TopicProduceData(name=topic.name, topic_id=topic_id, partition_data=data)
        answer = await self._ask(leader, ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[named]))
        for row in (row for topic_response in answer.responses for row in topic_response.partition_responses):
            if row.error_code:
                raise error_for(row.error_code, row.error_message)


class DeadLetterWriter:
    """Writes the dead letters of one share partition, and what the share coordinator is to know of that."""

    def __init__(
        self, key: SharePartitionKey, source: Partition, letters: DeadLetters, persister: SharePersister
    ) -> None:
        self._key = key
        self._source = source
        self._letters = letters
        self._persister = persister
        self._producer = NO_PRODUCER
        self._number = 0

    async def write(self, change: StateChange, dead: Iterable[Dead], settings: ShareGroupSettings) -> None:
        """Write a change and the dead letters in it.

        Raises KafkaError if the state cannot be written; then nobody knows what is about to be archived, and the share
        partition is to be loaded anew.
        """
        dead = clipped(dead, change.start_offset)
        rows = without_dead(change.batches, dead)
        for batch in self._letters.batches(self._key, self._source, dead, settings):
            await self._bury(batch, change._replace(batches=rows), settings)
            rows = states_of(batch.ranges, ARCHIVED)
        await self._persist(change._replace(batches=rows))

    async def finish(self, found: ReadState, loaded: StateChange, settings: ShareGroupSettings) -> None:
        """Go on where a leader before this one was: see that what it was about to archive is written.

        `loaded` is where the share partition stands after that. Raises KafkaError.
        """
        known, dead = found.dead_letters or NO_PRODUCER, dead_of(found.batches)
        self._number = max(known.number, self._letters.now_ms())  # beyond what is still on its way here
        if not dead:
            return
        self._producer = known
        if settings.dead_letter_topic:
            batch = self._letters.batch(self._key, self._source, dead, settings)
            change = loaded._replace(start_offset=found.start_offset)
            if self._producer.producer_id >= 0 and self._letters.has(self._producer.topic_id):
                await self._send(batch, change, settings)
            else:
                await self._bury(batch, change, settings)
        await self._persist(loaded._replace(batches=states_of(dead, ARCHIVED)))

    async def _bury(self, batch: DeadLetterBatch, change: StateChange, settings: ShareGroupSettings) -> None:
        """Have it remembered that a batch is about to be written, and write it."""
        try:
            place = self._letters.place(settings.dead_letter_topic, self._key.partition)
            if self._producer.producer_id < 0 or (self._producer.topic_id, self._producer.partition) != place:
                await self._new_producer(place)
        except KafkaError as error:
            self._give_up(batch, error)
            await self._persist(change)
            return
        await self._remember(batch, change)
        await self._send(batch, change, settings)

    async def _new_producer(self, place: tuple[Uuid, int]) -> None:
        self._producer = DeadLetterProducer(await self._letters.new_producer_id(), 0, *place)

    async def _remember(self, batch: DeadLetterBatch, change: StateChange) -> None:
        await self._persist(change._replace(batches=[*change.batches, *states_of(batch.ranges, ARCHIVING)]))

    async def _persist(self, change: StateChange) -> None:
        self._number += 1
        said = self._producer._replace(number=self._number)
        await self._persister.write(self._key, change._replace(dead_letters=said))

    async def _send(self, batch: DeadLetterBatch, change: StateChange, settings: ShareGroupSettings) -> None:
        error = await self._sent(batch)
        if isinstance(error, MessageTooLarge) and settings.dead_letter_copies:  # better without copies than not at all
            without_copies = settings._replace(dead_letter_copies=False)
            batch = self._letters.batch(self._key, self._source, batch.ranges, without_copies)
            error = await self._sent(batch)
        if isinstance(error, OutOfOrderSequenceNumber):  # the topic lost what was written before: this is not there
            try:
                await self._new_producer((self._producer.topic_id, self._producer.partition))
            except KafkaError as refused:
                error = refused
            else:
                await self._remember(batch, change._replace(batches=()))
                error = await self._sent(batch)
        if error is not None:
            self._give_up(batch, error)

    async def _sent(self, batch: DeadLetterBatch) -> KafkaError | None:
        try:
            await self._letters.send(self._producer, batch.builder)
        except KafkaError as error:
            return error
        after = (self._producer.sequence + batch.builder.count) & MAX_SEQUENCE
        self._producer = self._producer._replace(sequence=after)
        return None

    def _give_up(self, batch: DeadLetterBatch, error: KafkaError) -> None:
        """What could not be written may be there all the same: its sequence number is never used again."""
        count = batch.builder.count
        logger.error("%s: writing %d records to the dead-letter topic failed: %s", self._key, count, error)
        self._producer = NO_PRODUCER


def clipped(dead: Iterable[Dead], start_offset: int) -> list[Dead]:
    """Without what is before the start offset by now: nothing is remembered of that."""
    return [
        each._replace(first_offset=max(each.first_offset, start_offset))
        for each in dead
        if each.last_offset >= start_offset
    ]


def states_of(dead: Iterable[Dead], state: int) -> list[StateBatch]:
    """What is remembered of records that are given up."""
    return [StateBatch(each.first_offset, each.last_offset, state, each.delivery_count) for each in dead]


def without_dead(batches: Iterable[StateBatch], dead: Iterable[Dead]) -> list[StateBatch]:
    """What is written of the other records."""
    ranges = sorted((each.first_offset, each.last_offset) for each in dead)
    rows: list[StateBatch] = []
    for first, last, state, count in batches:
        if state == ARCHIVED:
            rows += [StateBatch(*part[:2], state, count) for part in without([Acquired(first, last, count)], ranges)]
        else:
            rows.append(StateBatch(first, last, state, count))
    return rows


def dead_of(batches: Iterable[StateBatch]) -> list[Dead]:
    """The records that a leader before this one was about to archive."""
    return [Dead(first, last, count, SPENT) for first, last, state, count in batches if state == ARCHIVING]


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


def read(source: Partition, dead: Dead) -> Iterator[Record]:
    """The records that are given up, as far as the disk has them."""
    offset = max(dead.first_offset, source.local_log_start_offset)
    while offset <= dead.last_offset:
        entry = FetchEntry(source.topic_id, source.topic_partition.partition, -1, offset, -1, -1, READ_BYTES)
        try:
            found = source.fetch(entry, committed=False, max_bytes=READ_BYTES, min_one=True).records
        except OffsetOutOfRange:
            return  # deleted meanwhile
        if not found:
            return
        data = found.file.read_at(found.position, found.length) if isinstance(found, FileSlice) else found
        batches, _, _ = scan_prefix(data)
        if not batches:
            return
        wanted = range(offset, dead.last_offset + 1)
        for batch in batches:
            if not batch.is_control:
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
