"""What a node does for partitions that it does not lead: topics that are gone, and copies that it has begun itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

from tests.unit.catalog.test_machine import FOO, segment
from tests.unit.runtime.test_remote_catalog import KEY, METADATA_PARTITION, Kept, finished, running, until

from kavka.catalog.machine import segment_event
from kavka.catalog.records import encode_event
from kavka.catalog.segment import RemoteSegment, SegmentState, TopicIdPartition
from kavka.metadata.image import EMPTY, MetadataImage
from kavka.metadata.live import LiveSettings
from kavka.model.clock import ManualClock
from kavka.model.settings import broker_values
from kavka.model.types import TopicPartition, Uuid
from kavka.replica.partition import Partition
from kavka.runtime.remote_catalog.catalog import RemoteCatalog
from kavka.runtime.remote_catalog.topic_log import REMOTE_LOG_METADATA
from kavka.runtime.remote_log_manager import MISSING_INTERVALS, RemoteLogManager
from kavka.runtime.remote_logs import RemoteLogs
from kavka.testing.event_log import MemoryEventLog, SharedEvents
from kavka.tiered.objects.layout import SegmentRef
from kavka.tiered.segment_reader import SegmentReader

PATIENCE = 20
INTERVAL_MS = 20


class Replicas:
    """The partitions of a node that leads what remembers FOO, and has nothing of FOO itself."""

    image: MetadataImage = EMPTY

    def held(self, topic: str | Uuid, index: int) -> Partition | None:
        return None

    def __iter__(self) -> Iterator[Partition]:
        led = SimpleNamespace(topic_partition=TopicPartition(REMOTE_LOG_METADATA, METADATA_PARTITION), leads=True)
        yield cast(Partition, led)


class Store:
    """A store that notes what is deleted."""

    def __init__(self) -> None:
        self.deleted: list[Uuid] = []

    async def put(self, name: TopicIdPartition, segment: RemoteSegment, files: Mapping[Any, Any]) -> bytes:
        return b""

    async def delete(self, ref: SegmentRef) -> None:
        self.deleted.append(ref.id)


class Boundless:
    """No limit."""

    def exceeded(self, now_ms: int) -> bool:
        return False

    def record(self, size: int, now_ms: int) -> None:
        pass


class World:
    """A manager over a catalogue that several could share."""

    def __init__(self, *events: bytes, node_id: int = 1) -> None:
        self.shared = SharedEvents()
        for event in events:
            self.shared.append(METADATA_PARTITION, event)
        self.catalog = RemoteCatalog(MemoryEventLog(self.shared), Kept(), wait_ms=1000)
        self.clock, self.store, self.unheard = ManualClock(), Store(), False
        texts = {"remote.log.manager.task.interval.ms": str(INTERVAL_MS), "kavka.remote.delete.delay.ms": "0"}
        settings = LiveSettings(node_id, broker_values(texts))

        async def forget(id: Uuid) -> None:
            pass

        reader = cast(SegmentReader, SimpleNamespace(forget=forget))
        logs = RemoteLogs(reader, Boundless(), self.clock.monotonic_ms, lambda: 100)
        logs.serve(self.catalog, Replicas())
        self.manager = RemoteLogManager(
            node_id, Replicas(), logs, self.store, settings, self.clock, Boundless(), lambda: Uuid.ZERO, self.is_unheard
        )
        self.looks = 0

    def is_unheard(self) -> bool:
        self.looks += 1
        return self.unheard

    async def look_again(self) -> None:
        """Wait until the manager has looked twice more."""
        before = self.looks
        await until(lambda: self.looks >= before + 2)


def play(world: World, scenario: Callable[[World], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(PATIENCE), running(world.catalog), asyncio.TaskGroup() as tasks:
            task = tasks.create_task(world.manager.run())
            await until(lambda: world.catalog.is_ready(KEY))
            await scenario(world)
            task.cancel()

    asyncio.run(whole())


def test_segments_of_a_topic_that_the_metadata_lacks_go_but_not_while_the_metadata_may_be_old() -> None:
    async def scenario(world: World) -> None:
        world.unheard = True
        for _ in range(3):
            world.clock.advance(MISSING_INTERVALS * INTERVAL_MS)
            await world.look_again()
        assert world.store.deleted == []
        world.unheard = False
        await world.look_again()
        assert world.store.deleted == []  # it is missing from now on
        world.clock.advance(MISSING_INTERVALS * INTERVAL_MS)
        await until(lambda: world.store.deleted)
        await until(lambda: KEY not in world.catalog.live.partitions)  # type: ignore[union-attr]

    play(World(*finished(1, 0, 9)), scenario)


def test_whoever_has_begun_a_copy_ends_it_though_it_has_nothing_of_the_partition() -> None:
    begun = [encode_event(segment_event(FOO, segment(number, 0, 9)._replace(broker_id=number))) for number in (1, 2)]

    async def scenario(world: World) -> None:
        await until(lambda: world.store.deleted)
        await world.look_again()
        held = world.catalog.partition(KEY)
        assert [(one.broker_id, one.state) for one in held.segments()] == [(2, SegmentState.COPY_SEGMENT_STARTED)]

    world = World(*begun)
    world.unheard = True  # so that the topic is not taken for a deleted one
    play(world, scenario)
