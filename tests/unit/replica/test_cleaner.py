"""Compaction as a service: the dirtiest first, nothing inherited by name, and no fault that stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading

import pytest

from kavka.metadata.image import ResourceType
from kavka.model.types import TopicPartition
from kavka.replica import cleaner as cleaners
from kavka.replica.cleaner import Cleaner, CompactionFailedError
from kavka.storage import files
from kavka.storage.checkpoint import read_offsets, write_offsets
from kavka.storage.compaction import compact

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cleaner(held):
    return Cleaner(held.replicas, held.clock)


def dirty(held, topic="orders", keys=2, rounds=5):
    """A compacted topic with a sealed segment of superseded records."""
    partition = held.topic(topic, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01)
    for number in range(keys * rounds):
        held.produce(partition, b"%d" % number, key=b"key-%d" % (number % keys))
    partition.log.roll(held.clock.now_ms())
    return partition


def clean(cleaner, times=1):
    async def go():
        return [await cleaner.clean_dirtiest() for _ in range(times)]

    return asyncio.run(go())


def checkpoint(held):
    return read_offsets(held.disk, f"{held.root}/{files.CLEANER_OFFSETS}")


def test_a_dirty_log_is_compacted_once_and_the_checkpoint_says_so(held, cleaner):
    partition = dirty(held)
    size = partition.log.size_bytes
    assert clean(cleaner, 2) == [True, False]
    assert partition.log.size_bytes < size / 2
    assert checkpoint(held) == {ORDERS: 10}
    assert cleaner.passes == 1


def test_a_restart_goes_on_where_the_checkpoint_says(held, cleaner):
    dirty(held)
    clean(cleaner)
    again = Cleaner(held.replicas, held.clock)
    again.load()
    assert clean(again) == [False]


def test_a_topic_created_again_under_its_name_starts_over(held, cleaner):
    dirty(held)
    clean(cleaner)
    held.delete()
    partition = dirty(held, rounds=8)
    size = partition.log.size_bytes
    assert clean(cleaner, 2) == [True, False]
    assert partition.log.size_bytes < size / 2


def test_a_log_that_cannot_be_compacted_is_left_alone_but_not_another_of_its_name(held, cleaner, monkeypatch, caplog):
    dirty(held)

    async def fail(disk, plan):
        raise CompactionFailedError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(cleaners, "run_worker", fail)
        assert clean(cleaner, 2) == [True, False]
    assert "orders-0 is uncleanable: no memory" in caplog.text
    assert clean(cleaner) == [False]
    held.delete()
    dirty(held)
    assert clean(cleaner) == [True]


def test_a_topic_deleted_while_it_is_compacted_leaves_nothing_behind(held, cleaner, monkeypatch, caplog):
    dirty(held)
    real = cleaners.run_worker

    async def work(disk, plan):
        result = await real(disk, plan)
        held.delete()
        return result

    monkeypatch.setattr(cleaners, "run_worker", work)
    assert clean(cleaner) == [True]
    held.topic("orders", cleanup_policy="compact")
    assert clean(cleaner) == [False]
    assert cleaner._clean == {}
    assert not list(held.root.glob("orders-0/*.cleaned"))


def test_a_topic_deleted_before_the_checkpoint_is_written_is_not_in_it(held, cleaner, monkeypatch):
    partition = dirty(held)
    dirty(held, "other")
    clean(cleaner, 2)
    held.delete("other")
    held.produce(partition)
    partition.log.roll(held.clock.now_ms())
    held.produce(partition, b"new", key=b"key-0")
    partition.log.roll(held.clock.now_ms())
    assert clean(cleaner) == [True]
    assert list(checkpoint(held)) == [ORDERS]


@pytest.mark.parametrize("kind", ["read", "write", "rename", "create"])
def test_a_disk_that_fails_stops_one_log_and_no_other(held, cleaner, kind):
    bad, good = dirty(held), dirty(held, "other")
    for segment in bad.log.segments:
        segment.close()
        segment.first_timestamp = None
    held.disk.faults = {kind: "orders-0/"}
    size = good.log.size_bytes
    while clean(cleaner) == [True]:
        pass
    assert good.log.size_bytes < size / 2


def test_a_checkpoint_that_cannot_be_written_does_not_stop_compaction(held, cleaner, caplog):
    dirty(held)
    held.disk.faults = {"replace": files.CLEANER_OFFSETS}
    assert clean(cleaner, 2) == [True, False]
    assert held.replicas.dirs[0].online
    assert "cannot write the checkpoint" in caplog.text


def test_a_worker_that_cannot_be_started_is_that_logs_fault(held, cleaner, monkeypatch, caplog):
    dirty(held)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert clean(cleaner, 2) == [True, False]
    assert "is uncleanable" in caplog.text


def test_a_worker_that_is_killed_is_that_logs_fault(held, cleaner, monkeypatch, caplog):
    dirty(held)
    spawn = asyncio.create_subprocess_exec

    async def doomed(*command, **pipes):
        worker = await spawn(*command, **pipes)
        os.kill(worker.pid, signal.SIGKILL)
        return worker

    monkeypatch.setattr(asyncio, "create_subprocess_exec", doomed)
    assert clean(cleaner, 2) == [True, False]
    assert "the worker ended with status -9" in caplog.text


def test_cancelling_ends_the_worker(held, cleaner, monkeypatch):
    dirty(held)
    workers = []
    spawn = asyncio.create_subprocess_exec

    async def noted(*command, **pipes):
        worker = await spawn(sys.executable, "-c", "import time; time.sleep(100)", **pipes)
        workers.append(worker)
        return worker

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)

    async def go():
        task = asyncio.ensure_future(cleaner.clean_dirtiest())
        while not workers:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert workers[0].returncode == -signal.SIGKILL

    asyncio.run(asyncio.wait_for(go(), 20))


def test_the_service_outlives_any_fault(held, cleaner, monkeypatch, caplog):
    calls = []

    async def fail():
        calls.append(True)
        if len(calls) < 3:
            return True
        raise ZeroDivisionError

    monkeypatch.setattr(cleaner, "clean_dirtiest", fail)

    async def go():
        task = asyncio.ensure_future(cleaner.run())
        while len(calls) < 3:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert "ZeroDivisionError" in caplog.text


def set_node(held, **configs):
    held.configure(ResourceType.BROKER, "", **configs)


def test_as_many_logs_at_a_time_as_there_are_threads_and_changes_count_at_once(held, monkeypatch):
    for topic in ("a", "b", "c"):
        dirty(held, topic)
    set_node(held, log_cleaner_threads=2, log_cleaner_backoff_ms=86_400_000)
    under_way, done = [], asyncio.Event()

    async def slow(disk, plan):
        under_way.append(plan)
        await done.wait()
        raise CompactionFailedError("enough")

    cleaner = Cleaner(held.replicas, held.clock, slow)

    async def until(count):
        while len(under_way) < count:
            await asyncio.sleep(0)

    async def go():
        task = asyncio.ensure_future(cleaner.run())
        await until(2)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(under_way) == 2
        set_node(held, log_cleaner_threads=3, log_cleaner_io_max_bytes_per_second=3000)
        cleaner.follow(held.replicas.values)
        await until(3)
        done.set()
        while cleaner.busy:
            await asyncio.sleep(0)
        assert not task.done()
        dirty(held, "d")  # nobody looks again for a day
        set_node(held, log_cleaner_backoff_ms=1)
        cleaner.follow(held.replicas.values)
        await until(4)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(go(), 20))
    assert len({plan.path for plan in under_way}) == 4
    assert [plan.io_bytes_per_second for plan in under_way[2:]] == [1000.0, 1000.0]
    assert [plan.dedupe_buffer_bytes for plan in under_way] == [(1 << 27) // share for share in (2, 2, 3, 3)]


def test_two_that_are_done_at_once_write_one_checkpoint_after_the_other(held, monkeypatch):
    dirty(held, "a"), dirty(held, "b")
    held.configure(ResourceType.BROKER, "", log_cleaner_threads=2)
    both_done, writing, most = threading.Event(), [], []

    def write(disk, path, offsets):
        writing.append(path)
        most.append(len(writing))
        both_done.wait(20)
        write_offsets(disk, path, offsets)
        writing.remove(path)

    async def in_process(disk, plan):
        return compact(disk, plan)

    monkeypatch.setattr(cleaners, "write_offsets", write)
    cleaner = Cleaner(held.replicas, held.clock, in_process)

    async def go():
        two = asyncio.gather(cleaner.clean_dirtiest(), cleaner.clean_dirtiest())
        while cleaner.passes < 2:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        both_done.set()
        assert await two == [True, True]

    asyncio.run(asyncio.wait_for(go(), 20))
    assert most == [1, 1]
    assert checkpoint(held) == {TopicPartition("a", 0): 10, TopicPartition("b", 0): 10}
