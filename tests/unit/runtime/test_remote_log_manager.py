"""What a node does for partitions that it does not lead: topics that are gone, and copies that it has begun itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

from tests.unit.catalog.test_machine import FOO, id_of, segment
from tests.unit.runtime.test_remote_catalog import KEY, METADATA_PARTITION, Kept, finished, running, until

from kavka.catalog.machine import segment_event, update_event
from kavka.catalog.records import encode_event
from kavka.catalog.segment import RemoteSegment, SegmentState, TopicIdPartition
from kavka.metadata.image import EMPTY, MetadataImage
from kavka.metadata.live import LiveSettings
from kavka.metadata.names import REMOTE_LOG_METADATA
from kavka.model.clock import ManualClock
from kavka.model.settings import broker_values
from kavka.model.types import TopicPartition, Uuid
from kavka.pacing.backseat import Backseat
from kavka.replica.partition import Partition
from kavka.runtime.remote_catalog.catalog import RemoteCatalog
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
        self.whole: dict[Uuid, bytes] = {}
        self.meanwhile: Callable[[], object] = lambda: None
        """What others do while it is looked what is stored."""

    async def put(self, name: TopicIdPartition, segment: RemoteSegment, files: Mapping[Any, Any]) -> bytes:
        return b""

    async def custom_of(self, name: TopicIdPartition, segment: RemoteSegment) -> bytes | None:
        self.meanwhile()
        return self.whole.get(segment.id)

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
        logs = RemoteLogs(reader, Boundless(), self.clock.monotonic_ms, lambda: 100, Backseat(lambda: 1 << 30))
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


def states(world: World) -> dict[int, SegmentState]:
    """How far the segments of FOO are, by their numbers."""
    return {int.from_bytes(one.id, "big"): one.state for one in world.catalog.partition(KEY).segments()}


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
        assert states(world) == {1: SegmentState.DELETE_SEGMENT_STARTED, 2: SegmentState.COPY_SEGMENT_STARTED}
        assert world.store.deleted == [id_of(1)]  # and once more by the leader, for an upload may arrive late

    world = World(*begun)
    world.unheard = True  # so that the topic is not taken for a deleted one
    play(world, scenario)


def test_a_copy_that_is_whole_in_the_store_is_finished_for_the_log_may_have_lost_that_it_was() -> None:
    async def scenario(world: World) -> None:
        await until(lambda: states(world) == {1: SegmentState.COPY_SEGMENT_FINISHED})
        found = world.catalog.partition(KEY).get(id_of(1))
        assert found is not None
        assert found.custom_metadata == b"custom"
        await world.look_again()
        assert world.store.deleted == []

    world = World(encode_event(segment_event(FOO, segment(1, 0, 9))))
    world.unheard = True
    world.store.whole[id_of(1)] = b"custom"
    play(world, scenario)


def test_a_copy_that_is_finished_while_it_is_given_up_stays() -> None:
    done = segment(1, 0, 9)._replace(state=SegmentState.COPY_SEGMENT_FINISHED, custom_metadata=b"custom")
    world = World(encode_event(segment_event(FOO, segment(1, 0, 9))))
    world.unheard = True

    def finish() -> None:
        world.store.meanwhile = lambda: None
        world.shared.append(METADATA_PARTITION, encode_event(update_event(FOO, done)))

    async def scenario(world: World) -> None:
        await until(lambda: states(world) == {1: SegmentState.COPY_SEGMENT_FINISHED})
        await until(lambda: len(world.shared.partitions[METADATA_PARTITION]) == 3)  # began, finished, given up too late
        await world.look_again()
        assert states(world) == {1: SegmentState.COPY_SEGMENT_FINISHED}
        assert world.store.deleted == []

    world.store.meanwhile = finish
    play(world, scenario)
