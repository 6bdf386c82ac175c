"""One node with a store behind it: segments are copied, leave the disk, are read, expire, and are gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.tiering import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING,
    LATEST,
    LATEST_TIERED,
    PATIENCE,
    SECOND_MS,
    TOPIC,
    World,
    batch_bytes,
    serving,
    settings,
    until,
    value_of,
)

from kavka.catalog.machine import segment_event
from kavka.catalog.partitioner import metadata_partition
from kavka.catalog.records import encode_event
from kavka.catalog.segment import RemoteSegment, TopicIdPartition
from kavka.client import ConfigResource, Consumer, Pool, Producer, ResourceType
from kavka.metadata.names import REMOTE_LOG_METADATA as METADATA
from kavka.metadata.names import REMOTE_LOG_METADATA_CLIENT
from kavka.model.errors import InvalidConfig, KafkaError
from kavka.model.types import TopicPartition, Uuid
from kavka.tiered.objects.manifest import Part
from kavka.tiered.objects.opening import open_segments

TP = TopicPartition(TOPIC, 0)
SEGMENT_ID = Uuid(b"never finished..")
DAY_MS = 86_400_000
BROKERS = ConfigResource(ResourceType.BROKER, "")

Scenario = Callable[[World], Awaitable[None]]


def play(folder: Path, *scenarios: Scenario, **more: str) -> None:
    """Run scenarios one after the other, each on a node that is started anew on the same disk and store."""
    texts = settings(
        folder / "data", f"file://{folder}/store", {name.replace("_", "."): one for name, one in more.items()}
    )

    async def whole() -> None:
        for scenario in scenarios:
            async with serving(texts) as world:
                await scenario(world)

    asyncio.run(whole())


def stored(folder: Path, suffix: str = ".log") -> list[str]:
    return sorted(path.name for path in (folder / "store").rglob(f"*{suffix}"))


async def fill(world: World, count: int = 10) -> None:
    """Write records, two to a segment, and wait until all but the active segment is in the store alone."""
    await world.create()
    await world.produce(*range(count))
    await world.becomes(LATEST_TIERED, count - 3)
    await world.becomes(EARLIEST_LOCAL, count - 2)


def test_segments_go_to_the_store_and_are_read_from_there_also_after_a_restart(tmp_path: Path) -> None:
    async def look(world: World) -> None:
        await until(lambda: is_known(world))
        special = await world.offsets(EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING, LATEST)
        assert special == [0, 8, 7, 8, 10]
        assert await world.read() == [value_of(number) for number in range(10)]
        assert await world.read(start=5) == [value_of(number) for number in range(5, 10)]
        for number in (0, 3, 7, 8, 9):  # by time, on both sides of the border
            assert await world.offset((number + 1) * SECOND_MS - 1) == number

    async def first(world: World) -> None:
        await fill(world)
        await look(world)

    play(tmp_path, first, look)
    assert len(stored(tmp_path)) == 4


async def is_known(world: World) -> bool:
    try:
        return await world.offset(LATEST_TIERED) >= 0
    except KafkaError:
        return False


def test_a_lone_node_forces_the_remote_log_metadata_to_its_disk(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create()
        await until(lambda: is_opened(world))
        resource = ConfigResource(ResourceType.TOPIC, METADATA)
        found = (await world.admin.describe_configs(resource))[resource]
        assert [found[name].value for name in ("flush.messages", "retention.ms", "cleanup.policy")] == [
            "1",
            "-1",
            "delete",
        ]

    play(tmp_path, scenario)


async def is_opened(world: World) -> bool:
    return METADATA in {one.name for one in await world.admin.list_topics(internal=True)}


def test_retention_by_size_counts_both_tiers_and_empties_the_store_from_its_old_end(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await fill(world)
        await world.alter(retention_bytes=3 * 2 * batch_bytes())
        await world.becomes(EARLIEST, 4)
        assert await world.read() == [value_of(number) for number in range(4, 10)]
        await until_stored(tmp_path, 2)

    play(tmp_path, scenario)


def test_retention_by_time_goes_by_the_newest_record_of_a_segment(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create()
        now_ms = int(time.time() * 1000)
        old, new = [now_ms - 2 * DAY_MS] * 3, [now_ms] * 5
        await world.produce_at(*old, *new)
        await world.becomes(LATEST_TIERED, 5)
        await world.alter(retention_ms=DAY_MS)
        await world.becomes(EARLIEST, 2)  # the segment of 2 and 3 has a new record too
        await until_stored(tmp_path, 2)
        assert await world.offset(LATEST) == 8

    play(tmp_path, scenario)


def test_deleted_records_go_from_the_store_as_well(tmp_path: Path) -> None:
    async def delete(world: World) -> None:
        await fill(world)
        await world.admin.delete_records({TP: 5})
        await is_deleted(world)
        await until_stored(tmp_path, 2)

    async def is_deleted(world: World) -> None:
        assert await world.offset(EARLIEST) == 5
        await until(lambda: is_known(world))
        assert await world.read() == [value_of(number) for number in range(5, 10)]

    play(tmp_path, delete, is_deleted)


def test_a_copy_that_a_crash_cut_off_is_cleaned_up_and_made_again(tmp_path: Path) -> None:
    async def cut_off(world: World) -> None:
        await world.create(remote_log_copy_disable="true", local_retention_bytes=-2, local_retention_ms=-2)
        await world.produce(*range(6))
        topic_id = (await world.admin.describe_topic(TOPIC)).id
        name = TopicIdPartition(topic_id, 0, TOPIC)
        begun = RemoteSegment(SEGMENT_ID, 0, 1, 5, 6, 2 * batch_bytes(), 1, ((0, 0),))
        await until(lambda: is_opened(world))
        partitions = len((await world.admin.describe_topic(METADATA)).partitions)
        home = metadata_partition(topic_id, 0, partitions)
        store = open_segments(f"file://{tmp_path}/store", ThreadPoolExecutor(1))
        await store.put(name, begun, {Part.LOG: bytes(2 * batch_bytes())})  # first: the node may clean up at once
        (manifest,) = (tmp_path / "store").rglob("*.manifest")
        manifest.unlink()  # it comes last
        async with (
            Pool(world.bootstrap, client_id=f"{REMOTE_LOG_METADATA_CLIENT}1") as pool,
            Producer(pool) as producer,
        ):
            await producer.send_and_wait(METADATA, encode_event(segment_event(name, begun)), partition=home)

    async def go_on(world: World) -> None:
        await world.alter(remote_log_copy_disable="false")
        await world.becomes(LATEST_TIERED, 3)
        await until_stored(tmp_path, 2)
        assert not [name for name in stored(tmp_path) if str(SEGMENT_ID) in name]
        assert await world.read() == [value_of(number) for number in range(6)]

    play(tmp_path, cut_off, go_on)


def test_without_copying_what_is_remote_stays_readable_until_it_expires(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await fill(world)
        await world.alter(remote_log_copy_disable="true", local_retention_bytes=-2, local_retention_ms=-2)
        await world.produce(*range(10, 14))
        assert await world.read() == [value_of(number) for number in range(14)]
        assert await world.offset(LATEST_TIERED) == 7
        await world.alter(retention_bytes=2 * 2 * batch_bytes())
        await world.becomes(EARLIEST, 10)  # the disk goes by retention.bytes now, and nothing before it can be read
        await until_stored(tmp_path, 0)
        assert await world.read() == [value_of(number) for number in range(10, 14)]

    play(tmp_path, scenario)


def test_a_topic_that_is_tiered_no_more_gives_up_what_is_remote(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await fill(world)
        with pytest.raises(InvalidConfig):
            await world.alter(remote_storage_enable="false")
        await world.alter(remote_storage_enable="false", remote_log_delete_on_disable="true")
        await until_stored(tmp_path, 0)
        assert await world.offset(EARLIEST) == 8
        assert await world.read() == [value_of(number) for number in range(8, 10)]
        await world.alter(remote_storage_enable="true", remote_log_delete_on_disable="false")
        await world.produce(*range(10, 14))
        await world.becomes(LATEST_TIERED, 11)
        assert await world.read() == [value_of(number) for number in range(8, 14)]

    play(tmp_path, scenario)


def test_a_topic_that_becomes_tiered_has_its_old_segments_copied_and_new_partitions_too(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create(remote_storage_enable="false", local_retention_bytes=-2)
        await world.produce(*range(6))
        assert await world.offsets(EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING) == [0, 0, -1, -1]
        await world.alter(remote_storage_enable="true", local_retention_bytes=1)
        await world.becomes(LATEST_TIERED, 3)
        await world.becomes(EARLIEST_LOCAL, 4)
        await world.admin.create_partitions(TOPIC, 2)
        await world.pool.refresh([TOPIC])
        await world.produce(*range(6), partition=1)
        await world.becomes(EARLIEST_LOCAL, 4, partition=1)
        for partition in (0, 1):
            assert await world.read(partition=partition) == [value_of(number) for number in range(6)]

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    "lost", ["log-start-offset-checkpoint", "replication-offset-checkpoint", "recovery-point-offset-checkpoint"]
)
def test_lost_checkpoints_are_made_up_for(tmp_path: Path, lost: str) -> None:
    async def first(world: World) -> None:
        await fill(world)
        await world.alter(retention_bytes=3 * 2 * batch_bytes())
        await world.becomes(EARLIEST, 4)

    async def second(world: World) -> None:
        await until(lambda: is_known(world))
        await world.becomes(EARLIEST, 4)
        assert await world.read() == [value_of(number) for number in range(4, 10)]

    play(tmp_path, first)
    (tmp_path / "data" / lost).unlink()
    play(tmp_path, second)


@pytest.mark.parametrize("crashed", [False, True])
def test_a_log_that_lost_its_leader_epochs_keeps_what_is_remote(tmp_path: Path, crashed: bool) -> None:
    async def go_on(world: World) -> None:
        await until(lambda: is_known(world))
        await world.produce(*range(10, 14))
        await world.becomes(LATEST_TIERED, 11)
        await world.becomes(EARLIEST_LOCAL, 12)

    async def look(world: World) -> None:
        await until(lambda: is_known(world))
        await world.create("others")
        await world.produce(*range(4), topic="others")
        await world.becomes(LATEST_TIERED, 1, "others")  # so much time was there to delete something
        assert await world.offsets(EARLIEST, EARLIEST_LOCAL) == [0, 12]
        assert await world.read() == [value_of(number) for number in range(14)]

    play(tmp_path, fill, go_on)
    (tmp_path / "data" / f"{TP}" / "leader-epoch-checkpoint").unlink()
    if crashed:
        (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
    play(tmp_path, look)
    assert len(stored(tmp_path)) == 6 + 1


@pytest.mark.parametrize(
    "without", [{"remote.log.storage.system.enable": "false"}, {"kavka.remote.storage.url": ""}], ids=["tier", "url"]
)
def test_a_node_does_not_start_without_the_store_of_its_topics(tmp_path: Path, without: dict[str, str]) -> None:
    async def still_there(world: World) -> None:
        await until(lambda: is_known(world))
        assert await world.read() == [value_of(number) for number in range(10)]

    async def start_without() -> None:
        texts = {**settings(tmp_path / "data", f"file://{tmp_path}/store"), **without}
        async with serving({name: text for name, text in texts.items() if text}):
            pass

    play(tmp_path, fill)
    with pytest.raises(ExceptionGroup) as refused:
        asyncio.run(start_without())
    assert refused.value.split(InvalidConfig)[1] is None
    play(tmp_path, still_there)


def test_a_deleted_topic_leaves_nothing_and_one_of_its_name_begins_anew(tmp_path: Path) -> None:
    async def delete(world: World) -> None:
        await fill(world)
        await world.admin.delete_topic(TOPIC)

    async def go_on(world: World) -> None:
        await until_stored(tmp_path, 0)
        await world.create()
        await world.produce(*range(100, 106))
        await world.becomes(EARLIEST_LOCAL, 4)
        assert await world.read() == [value_of(number) for number in range(100, 106)]

    play(tmp_path, delete, go_on)


def test_an_active_segment_that_the_disk_has_kept_for_long_enough_is_copied_too(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create(local_retention_ms=1)
        await world.produce(0, 1, 2)
        await world.becomes(EARLIEST_LOCAL, 3)
        assert await world.offsets(EARLIEST, LATEST_TIERED, EARLIEST_PENDING, LATEST) == [0, 2, 3, 3]
        assert await world.read() == [value_of(number) for number in range(3)]

    play(tmp_path, scenario)


def test_committed_reads_see_no_aborted_record_on_either_side_of_the_border(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create()
        async with Producer(world.pool, transactional_id="shop", linger_ms=0) as producer:
            for number in range(8):
                producer.begin()
                await producer.send_and_wait(TOPIC, value_of(number), partition=0)
                await (producer.commit() if number % 2 else producer.abort())
            await world.becomes(LATEST_TIERED, 14)  # a marker is larger: here each batch is a segment
            await world.becomes(EARLIEST_LOCAL, 15)
            producer.begin()
            await producer.send_and_wait(TOPIC, value_of(8), partition=0)
            await world.produce(*range(100, 108))
            await world.create("others")
            await world.produce(*range(4), topic="others")
            await world.becomes(LATEST_TIERED, 1, "others")
            assert await world.offset(LATEST_TIERED) == 15  # behind an open transaction nothing is copied
            await producer.commit()
        await world.becomes(LATEST_TIERED, 24)
        assert await world.read(committed=True) == [value_of(number) for number in (1, 3, 5, 7, 8, *range(100, 108))]
        assert len(await world.read()) == 9 + 8

    play(tmp_path, scenario)


async def until_stored(folder: Path, segments: int) -> None:
    async def so_many() -> bool:
        return len(stored(folder)) == segments

    await until(so_many, f"{segments} segments are stored, not {len(stored(folder))}")


def test_copies_wait_for_their_limit_which_is_changed_live(tmp_path: Path) -> None:
    limit = "remote.log.manager.copy.max.bytes.per.second"

    async def scenario(world: World) -> None:
        await world.create()
        await world.produce(0, 1, 2)
        await world.becomes(LATEST_TIERED, 1)  # one goes at once, the next when its bytes have been waited for
        await world.produce(3, 4)

        async def waits() -> bool:
            return await world.metric("kavka_remote_copies_held_back_total") > 0

        await until(waits)
        assert await world.offset(LATEST_TIERED) == 1
        await world.admin.alter_configs(BROKERS, set={limit: str(1 << 40)})
        await world.becomes(LATEST_TIERED, 3)

    texts = {limit: "1", "remote.log.manager.copy.quota.window.num": "1000", "kavka.metrics.listener": "127.0.0.1:0"}
    play(tmp_path, scenario, **texts)


def test_remote_reads_wait_for_their_limit_and_local_ones_do_not(tmp_path: Path) -> None:
    limit = "remote.log.manager.fetch.max.bytes.per.second"
    read: list[bytes | None] = []

    async def follow(world: World) -> None:
        async with Consumer(world.pool) as consumer:
            await consumer.assign(TP, start=0)
            async for record in consumer.until_end():
                read.append(record.value)  # noqa: PERF401  (it is looked at meanwhile)

    async def has_begun() -> bool:
        return bool(read)

    async def scenario(world: World) -> None:
        await fill(world)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            tasks.create_task(follow(world))
            await until(has_begun)
            for _ in range(10):
                assert await world.read(start=8) == [value_of(8), value_of(9)]
            assert len(read) < 8
            await world.admin.alter_configs(BROKERS, set={limit: str(1 << 40)})
        assert read == [value_of(number) for number in range(10)]

    play(tmp_path, scenario, **{limit: "1", "remote.log.manager.fetch.quota.window.num": "1000"})


def test_what_a_killed_node_left_half_written_goes_with_a_start(tmp_path: Path) -> None:
    left = tmp_path / "store/.kavka-tmp/left-by-a-killed-node"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")

    async def is_gone() -> bool:
        return not left.exists()

    async def scenario(world: World) -> None:
        await fill(world)
        await until(is_gone)

    play(tmp_path, scenario)
