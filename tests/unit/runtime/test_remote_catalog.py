"""The catalogue of a node: closed until it has caught up, its own writes read again, kept on disk, found again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.unit.catalog.test_machine import FOO, id_of, segment

from kavka.catalog.machine import segment_event, update_event
from kavka.catalog.partitioner import metadata_partition
from kavka.catalog.records import encode_event
from kavka.catalog.segment import RemoteSegment, SegmentState
from kavka.model.errors import CoordinatorNotAvailable, LeaderNotAvailable, ReplicaNotAvailable, RequestTimedOut
from kavka.model.types import Uuid
from kavka.runtime.remote_catalog.catalog import RemoteCatalog
from kavka.testing.event_log import TOPIC_ID, MemoryEventLog, SharedEvents

KEY = (FOO.topic_id, FOO.partition)
METADATA_PARTITION = metadata_partition(*KEY, 3)
PATIENCE = 20


class Kept:
    """What is on disk."""

    def __init__(self) -> None:
        self.files: dict[Uuid, bytes] = {}
        self.full = False

    async def read(self, log: Uuid) -> bytes | None:
        return self.files.get(log)

    async def write(self, log: Uuid, data: bytes) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.files[log] = data


@asynccontextmanager
async def running(catalog: RemoteCatalog) -> AsyncIterator[RemoteCatalog]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(catalog.run())
        try:
            yield catalog
        finally:
            task.cancel()


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(PATIENCE):
            await scenario()

    asyncio.run(within())


def finished(number: int, start: int, end: int) -> list[bytes]:
    one = segment(number, start, end)
    done = one._replace(state=SegmentState.COPY_SEGMENT_FINISHED)
    return [encode_event(segment_event(FOO, one)), encode_event(update_event(FOO, done))]


def ids(catalog: RemoteCatalog) -> list[int]:
    return sorted(int.from_bytes(one.id, "big") for one in catalog.partition(KEY).segments())


async def write(catalog: RemoteCatalog, one: RemoteSegment) -> None:
    await catalog.write(FOO, lambda catalogue: catalogue.start_copy(FOO, one))


def test_before_it_has_caught_up_every_question_is_a_retriable_error() -> None:
    async def scenario() -> None:
        shared = SharedEvents()
        for value in finished(1, 0, 9):
            shared.append(METADATA_PARTITION, value)
        log = MemoryEventLog(shared)
        log.held_back = True
        catalog = RemoteCatalog(log, Kept(), wait_ms=1000)
        with pytest.raises(ReplicaNotAvailable):
            catalog.partition(KEY)
        async with running(catalog):
            catalog.require([KEY])
            await until(lambda: log.reads)
            assert catalog.unready == 1
            with pytest.raises(ReplicaNotAvailable):
                catalog.partition(KEY)
            with pytest.raises(ReplicaNotAvailable):
                await write(catalog, segment(2, 10, 19))
            log.held_back = False
            log.wake()
            await until(lambda: catalog.is_ready(KEY))
            assert (ids(catalog), catalog.unready) == ([1], 0)
        with pytest.raises(ReplicaNotAvailable):  # nobody follows any more
            catalog.partition(KEY)

    run(scenario)


def test_an_empty_log_is_ready_at_once_and_nothing_is_an_answer() -> None:
    async def scenario() -> None:
        shared = SharedEvents()
        shared.partitions[METADATA_PARTITION] = [None] * 7
        shared.starts[METADATA_PARTITION] = 7  # all that was there has expired
        catalog = RemoteCatalog(MemoryEventLog(shared), Kept(), wait_ms=1000)
        async with running(catalog):
            catalog.require([KEY])
            await until(lambda: catalog.is_ready(KEY))
            assert ids(catalog) == []

    run(scenario)


def test_what_was_written_was_read_by_everybody_in_the_same_order() -> None:
    async def scenario() -> None:
        shared = SharedEvents()
        one, other = (RemoteCatalog(MemoryEventLog(shared), Kept(), wait_ms=1000) for _ in range(2))
        async with running(one), running(other):
            for catalog in (one, other):
                catalog.require([KEY])
            await until(lambda: one.is_ready(KEY) and other.is_ready(KEY))
            await write(one, segment(1, 0, 9))
            assert ids(one) == [1]
            await other.catch_up(KEY)
            assert ids(other) == [1]

    run(scenario)


def test_a_write_that_is_not_read_again_in_time_is_an_error_not_a_hang() -> None:
    async def scenario() -> None:
        log = MemoryEventLog(SharedEvents())
        catalog = RemoteCatalog(log, Kept(), wait_ms=10)
        async with running(catalog):
            catalog.require([KEY])
            await until(lambda: catalog.is_ready(KEY))
            log.held_back = True
            with pytest.raises(RequestTimedOut):
                await write(catalog, segment(1, 0, 9))
            assert catalog.waits_timed_out == 1
            log.held_back = False
            log.wake()
            await until(lambda: ids(catalog) == [1])  # and yet it was written

    run(scenario)


def test_what_cannot_be_opened_or_asked_now_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.runtime.remote_catalog.catalog.AGAIN_SECONDS", 0.001)

    async def scenario() -> None:
        log = MemoryEventLog(SharedEvents())
        log.fails.extend([CoordinatorNotAvailable(), CoordinatorNotAvailable()])
        catalog = RemoteCatalog(log, Kept(), wait_ms=1000)
        async with running(catalog):
            catalog.require([KEY])
            await until(lambda: catalog.live is not None)
            log.fails.append(LeaderNotAvailable())
            catalog.require([KEY, (Uuid(b"another topic id"), 1), (Uuid(b"another topic id"), 2)])
            await until(lambda: catalog.unready == 0)

    run(scenario)


def test_it_goes_on_from_what_was_kept_and_replays_what_is_not_sound() -> None:
    async def life(shared: SharedEvents, kept: Kept) -> MemoryEventLog:
        log = MemoryEventLog(shared)
        catalog = RemoteCatalog(log, kept, wait_ms=1000)
        async with running(catalog):
            catalog.require([KEY])
            await until(lambda: catalog.is_ready(KEY))
            assert ids(catalog) == [1]
        return log

    async def scenario() -> None:
        shared, kept = SharedEvents(), Kept()
        for value in finished(1, 0, 9):
            shared.append(METADATA_PARTITION, value)
        assert (await life(shared, kept)).reads == [(METADATA_PARTITION, 0)]
        assert (await life(shared, kept)).reads == [(METADATA_PARTITION, 2)]
        kept.files[TOPIC_ID] = kept.files[TOPIC_ID][:-1] + b"?"
        assert (await life(shared, kept)).reads == [(METADATA_PARTITION, 0)]
        kept.full = True
        assert (await life(shared, kept)).reads == [(METADATA_PARTITION, 2)]

    run(scenario)


@pytest.mark.parametrize("other", [Uuid(b"it is another..."), None], ids=["made anew", "deleted"])
def test_a_log_that_was_made_anew_is_read_from_its_beginning_and_one_that_is_gone_is_made(other: Uuid | None) -> None:
    async def scenario() -> None:
        shared = SharedEvents()
        for value in finished(1, 0, 9):
            shared.append(METADATA_PARTITION, value)
        catalog = RemoteCatalog(MemoryEventLog(shared), Kept(), wait_ms=1000)
        async with running(catalog):
            catalog.require([KEY])
            await until(lambda: catalog.is_ready(KEY))
            shared.id = other
            shared.partitions[METADATA_PARTITION] = []
            catalog.require([KEY], [0, 1, 2])  # a change, as a new topic is one
            await until(lambda: catalog.is_ready(KEY) and ids(catalog) == [])

    run(scenario)


def test_a_log_that_lost_its_end_is_read_from_its_beginning_and_who_waits_is_told() -> None:
    async def scenario() -> None:
        shared = SharedEvents()
        for value in (*finished(1, 0, 9), *finished(2, 10, 19)):
            shared.append(METADATA_PARTITION, value)
        log = MemoryEventLog(shared)
        catalog = RemoteCatalog(log, Kept(), wait_ms=20_000)
        async with running(catalog):
            catalog.require([KEY])
            await until(lambda: catalog.is_ready(KEY) and ids(catalog) == [1, 2])
            log.held_back = True
            waiting = asyncio.ensure_future(write(catalog, segment(3, 20, 29)))
            await until(lambda: len(shared.partitions[METADATA_PARTITION]) == 5)
            del shared.partitions[METADATA_PARTITION][2:]
            log.held_back = False
            log.wake()
            with pytest.raises(ReplicaNotAvailable):
                await waiting
            await until(lambda: catalog.is_ready(KEY))
            assert ids(catalog) == [1]
            await write(catalog, segment(4, 10, 19))
            assert ids(catalog) == [1, 4]

    run(scenario)


def test_what_is_kept_of_a_longer_log_does_not_count() -> None:
    async def scenario() -> None:
        shared, kept = SharedEvents(), Kept()
        for value in finished(1, 0, 9):
            shared.append(METADATA_PARTITION, value)
        for expected in ([1], []):
            catalog = RemoteCatalog(MemoryEventLog(shared), kept, wait_ms=1000)
            async with running(catalog):
                catalog.require([KEY])
                await until(lambda: catalog.is_ready(KEY))  # noqa: B023
                assert ids(catalog) == expected
            shared.partitions[METADATA_PARTITION] = []

    run(scenario)


def test_what_is_kept_of_a_log_that_lost_its_end_and_has_grown_since_does_not_count() -> None:
    async def scenario() -> None:
        shared, kept = SharedEvents(), Kept()
        for value in finished(1, 0, 9):
            shared.append(METADATA_PARTITION, value)
        for expected in ([1], [2, 3]):
            catalog = RemoteCatalog(MemoryEventLog(shared), kept, wait_ms=1000)
            async with running(catalog):
                catalog.require([KEY])
                await until(lambda: catalog.is_ready(KEY) and ids(catalog) == expected)  # noqa: B023
            shared.partitions[METADATA_PARTITION] = [*finished(2, 0, 9), *finished(3, 10, 19)]
            shared.epochs[METADATA_PARTITION] = 1

    run(scenario)


def test_what_is_needed_no_more_is_followed_no_more_and_what_cannot_be_read_costs_only_itself() -> None:
    async def scenario() -> None:
        shared = SharedEvents()
        shared.append(METADATA_PARTITION, b"no event")
        shared.append(METADATA_PARTITION, None)
        for value in finished(1, 0, 9):
            shared.append(METADATA_PARTITION, value)
        catalog = RemoteCatalog(MemoryEventLog(shared), Kept(), wait_ms=1000)
        async with running(catalog):
            catalog.require([KEY])
            await until(lambda: catalog.is_ready(KEY))
            assert ids(catalog) == [1]
            assert catalog.live is not None
            assert catalog.live.counts.unreadable == 2
            catalog.require([], [1 if METADATA_PARTITION != 1 else 0])
            await until(lambda: not catalog.is_ready(KEY))
            catalog.require([KEY])
            await until(lambda: catalog.is_ready(KEY))
            assert catalog.partition(KEY).get(id_of(1)) is not None

    run(scenario)


def test_what_was_taken_before_a_partition_is_followed_anew_is_not_taken_for_what_comes_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kavka.pacing.turn.SLICE_SECONDS", 0.0)  # others have a turn after every event

    async def scenario() -> None:
        shared = SharedEvents()
        for number in range(40):
            for value in finished(number, 10 * number, 10 * number + 9):
                shared.append(METADATA_PARTITION, value)
        catalog = RemoteCatalog(MemoryEventLog(shared, batch=80), Kept(), wait_ms=1000)
        async with running(catalog):
            catalog.require([KEY])
            await until(lambda: catalog.live is not None and catalog.live.partitions)
            live = catalog.live
            assert live is not None
            catalog.require([], [1 if METADATA_PARTITION != 1 else 0])
            await until(lambda: not live.following.is_followed(METADATA_PARTITION))
            catalog.require([KEY])
            await until(lambda: catalog.is_ready(KEY))
            assert ids(catalog) == list(range(40))

    run(scenario)
