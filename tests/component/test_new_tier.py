"""A tier that the sources know nothing of: all of it is in this file, and a node serves what only the tier has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kavka.broker.config import node_config
from kavka.broker.wiring import Node
from kavka.client.connection import Connection
from kavka.client.connector import Connector
from kavka.client.dial import TcpDial
from kavka.model.clock import SystemClock
from kavka.model.errors import OffsetOutOfRange, UnknownServerError
from kavka.model.types import FileSlice, TopicPartition, Uuid
from kavka.protocol.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kavka.protocol.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kavka.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kavka.records.batch import BatchInfo, records, scan
from kavka.records.builder import BatchBuilder
from kavka.replica.rules import TopicRules
from kavka.replica.tier import RemoteOffsetLookup, RemoteRead, RemoteStateRead, StateBefore, TieredRecords
from kavka.storage.disk import RealDisk
from kavka.storage.segment import TimestampOffset

T = TypeVar("T")

LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_NOT_TIERED = -1, -2, -4, -5, -6
TIERED, END = 6, 10
"""The offsets before the first are on the shelf and nowhere else; each record is a batch, and each a segment."""
SECOND_MS = 1_000
PATIENCE = 20


class Shelf:
    """A tier of one partition: batches on a shelf, given at once, or when the test says so."""

    def __init__(self) -> None:
        self.batches: list[tuple[BatchInfo, bytes]] = []
        self.broken = False
        self.reads = 0
        self.asked = asyncio.Event()
        self._held_up: list[Callable[[], None]] | None = None

    def put(self, batch: bytes) -> None:
        self.batches.append((scan(batch)[0], batch))

    def hold_up(self) -> None:
        """Answer nothing until told to go on."""
        self._held_up = []

    def go_on(self) -> None:
        held_up, self._held_up = self._held_up or [], None
        for answer in held_up:
            answer()

    @property
    def end_offset(self) -> int:
        return self.batches[-1][0].last_offset + 1 if self.batches else 0

    def read(self, offset: int, max_bytes: int, up_to_offset: int, *, min_one: bool, committed: bool) -> RemoteRead:
        def find() -> TieredRecords:
            if self.broken:
                raise OSError("the shelf fell over")
            for info, batch in self.batches:
                if info.last_offset >= offset:
                    return TieredRecords(batch, info.last_offset + 1)
            raise OffsetOutOfRange(f"{offset} is not on the shelf")

        self.reads += 1
        return self._answer(find)

    def search_timestamp(self, timestamp: int, from_offset: int) -> RemoteOffsetLookup:
        def find() -> TimestampOffset | None:
            for info, batch in self.batches:
                for one in records(batch, info):
                    if one.timestamp >= timestamp and one.offset >= from_offset:
                        return TimestampOffset(one.timestamp, one.offset, info.leader_epoch)
            return None

        return self._answer(find)

    def state_after(self, offset: int, leader_epoch: int) -> RemoteStateRead:
        return self._answer(lambda: StateBefore(offset + 1, [(leader_epoch, 0)], None))

    def _answer(self, find: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def answer() -> None:
            try:
                future.set_result(find())
            except Exception as error:
                future.set_exception(error)

        self.asked.set()
        if self._held_up is None:
            answer()
        else:
            self._held_up.append(answer)
        return future


class Shelves:
    """The tiers of a node: one shelf for each partition of a topic that wants one."""

    def __init__(self) -> None:
        self.by_partition: dict[TopicPartition, Shelf] = {}

    def tier_of(self, topic_id: Uuid, topic_partition: TopicPartition, rules: TopicRules) -> Shelf:
        return self.by_partition.setdefault(topic_partition, Shelf())


class World:
    """A node in this process, and a connection to it."""

    def __init__(self, connection: Connection, shelves: Shelves) -> None:
        self.connection = connection
        self._shelves = shelves

    async def ask(self, request: Any, response: type[T], version: int) -> T:
        return await self.connection.request(request, response, version=version)

    @property
    def shelf(self) -> Shelf:
        return self._shelves.by_partition[TopicPartition("orders", 0)]

    async def create(self) -> None:
        size = len(batch_of(0))
        texts = {"remote.storage.enable": "true", "internal.segment.bytes": size, "local.retention.bytes": size}
        configs = [CreatableTopicConfig(name=name, value=str(value)) for name, value in texts.items()]
        topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=configs)
        created = await self.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 5)
        assert [one.error_code for one in created.topics] == [0]

    async def produce(self, number: int) -> None:
        data = PartitionProduceData(index=0, records=batch_of(number))
        request = ProduceRequest(
            acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
        )
        answer = await self.ask(request, ProduceResponse, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0

    async def fill(self) -> None:
        """Write records, put the older ones on the shelf, and wait until they are nowhere else."""
        await self.create()
        for number in range(END):
            await self.produce(number)
        for number in range(TIERED):
            self.shelf.put(bytes_of(await self.fetch(number)))
        async with asyncio.timeout(PATIENCE):
            while await self.offset(EARLIEST_LOCAL) < TIERED:
                await asyncio.sleep(0.01)

    async def fetch(self, offset: int, *, wait_ms: int = 0, min_bytes: int = 1) -> PartitionData:
        """What one fetch brings; at most one batch."""
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchTopic(topic="orders", partitions=[partition])],
            forgotten_topics_data=[],
        )
        answer = await self.ask(request, FetchResponse, 12)
        return answer.responses[0].partitions[0]

    async def values(self, offset: int, **more: int) -> list[bytes | None]:
        row = await self.fetch(offset, **more)
        assert row.error_code == 0
        data = bytes_of(row)
        return [one.value for info in scan(data) for one in records(data, info)]

    async def find(self, timestamp: int, version: int = 11, timeout_ms: int = 0) -> tuple[int, int, int]:
        """Error code, timestamp and offset of an answer to ListOffsets."""
        row = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topics = [ListOffsetsTopic(name="orders", partitions=[row])]
        request = ListOffsetsRequest(replica_id=-1, topics=topics, timeout_ms=timeout_ms)
        found = (await self.ask(request, ListOffsetsResponse, version)).topics[0].partitions[0]
        return found.error_code, found.timestamp, found.offset

    async def offset(self, timestamp: int) -> int:
        code, _, offset = await self.find(timestamp)
        assert code == 0
        return offset

    async def delete_before(self, offset: int) -> int:
        row = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=[row])], timeout_ms=1000)
        found = (await self.ask(request, DeleteRecordsResponse, 2)).topics[0].partitions[0]
        assert found.error_code == 0
        return found.low_watermark


def batch_of(number: int) -> bytes:
    """One record, written so many seconds after the first."""
    builder = BatchBuilder()
    builder.append(None, b"%04d" % number, (number + 1) * SECOND_MS)
    return builder.build()


def bytes_of(row: PartitionData) -> bytes:
    found = row.records or b""
    assert not isinstance(found, FileSlice)
    return bytes(found)


Scenario = Callable[[World], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    """Runs scenarios one after the other, each on a node that was started anew on the same disk and shelves."""

    @asynccontextmanager
    async def node(shelves: Shelves, settings: dict[str, str]) -> AsyncIterator[World]:
        stopping, reports = asyncio.Event(), asyncio.Queue[Any]()
        texts = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path),
            "remote.log.storage.system.enable": "true",
            "log.retention.check.interval.ms": "20",
            "log.retention.ms": "-1",
            **settings,
        }
        async with asyncio.TaskGroup() as tasks:
            made = Node(node_config(texts), RealDisk(), SystemClock(), tiers=shelves)
            tasks.create_task(made.run(reports.put_nowait, stopping))
            host, _, port = (await reports.get()).bootstrap.rpartition(":")
            connection = await Connector(TcpDial()).connect(host, int(port))
            try:
                yield World(connection, shelves)
            finally:
                connection.close()
                stopping.set()

    def run(*scenarios: Scenario, **settings: str) -> None:
        async def whole() -> None:
            shelves = Shelves()
            for scenario in scenarios:
                async with node(shelves, {key.replace("_", "."): value for key, value in settings.items()}) as world:
                    await scenario(world)

        asyncio.run(whole())

    return run


async def has_both_starts(world: World) -> None:
    assert [await world.offset(which) for which in (EARLIEST, EARLIEST_LOCAL, LATEST)] == [0, TIERED, END]
    assert [await world.offset(which) for which in (LATEST_TIERED, EARLIEST_NOT_TIERED)] == [TIERED - 1, TIERED]


def test_what_is_elsewhere_is_read_across_the_border_and_after_a_restart(play: Callable[..., None]) -> None:
    async def read_all(world: World) -> None:
        await has_both_starts(world)
        before = world.shelf.reads
        assert [await world.values(offset) for offset in range(END)] == [[b"%04d" % one] for one in range(END)]
        assert world.shelf.reads - before == TIERED

    async def first(world: World) -> None:
        await world.fill()
        await read_all(world)

    play(first, read_all)


def test_offsets_are_found_by_time_on_both_sides_of_the_border(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        await world.fill()
        for number in (0, 2, TIERED - 1, TIERED, END - 1):
            assert await world.find((number + 1) * SECOND_MS - 1) == (0, (number + 1) * SECOND_MS, number)
        assert await world.find((END + 1) * SECOND_MS) == (0, -1, -1)

    play(scenario)


def test_a_fetch_parks_until_the_tier_has_read(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        await world.fill()
        world.shelf.hold_up()
        world.shelf.asked.clear()
        async with asyncio.TaskGroup() as tasks:
            fetched = tasks.create_task(world.values(2, wait_ms=0, min_bytes=1 << 20))
            await world.shelf.asked.wait()
            await asyncio.sleep(0)
            assert not fetched.done()
            world.shelf.go_on()
        assert await fetched == [b"0002"]

    play(scenario, remote_fetch_max_wait_ms="60000")


def test_a_search_by_time_waits_for_the_tier(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        await world.fill()
        world.shelf.hold_up()
        world.shelf.asked.clear()
        async with asyncio.TaskGroup() as tasks:
            found = tasks.create_task(world.find(3 * SECOND_MS))
            await world.shelf.asked.wait()
            world.shelf.go_on()
        assert await found == (0, 3 * SECOND_MS, 2)
        world.shelf.hold_up()
        assert await world.find(3 * SECOND_MS, timeout_ms=1) == (7, -1, -1)  # REQUEST_TIMED_OUT
        world.shelf.go_on()

    play(scenario)


def test_a_tier_that_takes_too_long_is_asked_again_and_one_that_fails_is_an_error(play: Callable[..., None]) -> None:
    async def scenario(world: World) -> None:
        await world.fill()
        world.shelf.hold_up()
        assert await world.values(2, wait_ms=60_000) == []
        world.shelf.go_on()
        assert await world.values(2) == [b"0002"]
        world.shelf.broken = True
        assert (await world.fetch(2)).error_code == UnknownServerError.code
        assert await world.values(TIERED) == [b"%04d" % TIERED]

    play(scenario, remote_fetch_max_wait_ms="1")


def test_deleted_records_are_not_read_from_the_tier_either(play: Callable[..., None]) -> None:
    async def delete(world: World) -> None:
        await world.fill()
        assert await world.delete_before(3) == 3
        await is_deleted(world)

    async def is_deleted(world: World) -> None:
        assert [await world.offset(which) for which in (EARLIEST, EARLIEST_LOCAL)] == [3, TIERED]
        assert (await world.fetch(2)).error_code == OffsetOutOfRange.code
        assert await world.values(3) == [b"0003"]
        assert await world.find(1) == (0, 4 * SECOND_MS, 3)

    async def delete_more(world: World) -> None:
        assert await world.delete_before(TIERED + 1) == TIERED + 1
        assert [await world.offset(which) for which in (EARLIEST, EARLIEST_LOCAL)] == [TIERED + 1] * 2
        assert (await world.fetch(TIERED)).error_code == OffsetOutOfRange.code

    play(delete, is_deleted, delete_more)
