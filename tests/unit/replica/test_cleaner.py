"""Compaction as a service: the dirtiest first, nothing inherited by name, and no fault that stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from kavka.model.types import TopicPartition
from kavka.replica import cleaner as cleaners
from kavka.replica.cleaner import Cleaner, CompactionFailedError
from kavka.storage import files
from kavka.storage.checkpoint import read_offsets

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
