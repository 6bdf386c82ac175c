"""Checkpoint files: written when they changed, true of the logs that are there, and patient with the disk."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kavka.model.types import TopicPartition
from kavka.storage import files
from kavka.storage.checkpoint import read_offsets

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def checkpoints(held):
    return held.replicas.checkpoints


@pytest.fixture
def stored(held):
    """What the file of a kind says."""
    return lambda kind: read_offsets(held.disk, f"{held.root}/{kind}")


def write(checkpoints, *kinds):
    async def go():
        return [await checkpoints.write(kind) for kind in kinds]

    return asyncio.run(go())


def fill(held, partition, count=3):
    for _ in range(count):
        held.produce(partition)


def test_recovery_points_high_watermarks_and_moved_log_starts_are_written(held, checkpoints, stored):
    partition = held.topic("orders")
    held.topic("other")
    fill(held, partition)
    partition.log.sync()
    fill(held, partition, 1)
    partition.delete_records(2)
    assert write(checkpoints, files.RECOVERY_POINTS, files.LOG_STARTS, files.HIGH_WATERMARKS) == [[], [], []]
    other = TopicPartition("other", 0)
    assert stored(files.RECOVERY_POINTS) == {ORDERS: 3, other: 0}
    assert stored(files.LOG_STARTS) == {ORDERS: 2}
    assert stored(files.HIGH_WATERMARKS) == {ORDERS: 4, other: 0}


def test_a_checkpoint_that_was_never_written_is_written_though_it_says_nothing(held, checkpoints):
    held.topic("orders")
    assert checkpoints.read(held.replicas.dirs[0], files.LOG_STARTS) == {}
    write(checkpoints, files.LOG_STARTS)
    assert (held.root / files.LOG_STARTS).read_text() == "0\n0\n"


def test_a_checkpoint_that_did_not_change_is_not_written_again(held, checkpoints):
    held.topic("orders")
    write(checkpoints, files.HIGH_WATERMARKS)
    path = held.root / files.HIGH_WATERMARKS
    path.unlink()
    write(checkpoints, files.HIGH_WATERMARKS)
    assert not path.exists()


def test_a_disk_that_refuses_is_told_of_and_tried_again(held, checkpoints, stored, caplog):
    held.topic("orders")
    held.disk.faults = {"replace": files.HIGH_WATERMARKS}
    (directory,) = held.replicas.dirs
    assert write(checkpoints, files.HIGH_WATERMARKS) == [[directory]]
    assert directory.online
    assert "cannot write the checkpoint" in caplog.text
    held.disk.faults = {}
    assert write(checkpoints, files.HIGH_WATERMARKS) == [[]]
    assert stored(files.HIGH_WATERMARKS) == {ORDERS: 0}


def test_what_was_written_of_a_deleted_log_is_gone_before_another_of_its_name_is_there(held, checkpoints, stored):
    partition = held.topic("orders")
    fill(held, partition)
    partition.log.sync()
    partition.delete_records(2)
    write(checkpoints, files.RECOVERY_POINTS, files.LOG_STARTS)
    held.delete()
    held.topic("orders")
    assert ORDERS not in stored(files.RECOVERY_POINTS)
    assert ORDERS not in stored(files.LOG_STARTS)


def test_it_is_gone_also_if_a_restart_lies_between(held, checkpoints, stored):
    partition = held.topic("orders")
    fill(held, partition)
    partition.delete_records(2)
    write(checkpoints, files.LOG_STARTS)
    held.delete()
    replicas = held.start()
    again = replicas.checkpoints
    assert again.read(replicas.dirs[0], files.LOG_STARTS) == {ORDERS: 2}
    held.topic("orders")
    assert stored(files.LOG_STARTS) == {}


def test_a_write_that_is_under_way_does_not_bring_it_back(held, checkpoints, stored):
    partition = held.topic("orders")
    fill(held, partition)
    partition.delete_records(1)
    write(checkpoints, files.LOG_STARTS)
    partition.delete_records(2)
    entered, go_on = threading.Event(), threading.Event()

    def before(kind, path):
        if kind == "replace" and not entered.is_set():
            entered.set()
            go_on.wait(10)

    async def test():
        held.disk.before = before
        writing = asyncio.ensure_future(checkpoints.write(files.LOG_STARTS))
        while not entered.is_set():
            await asyncio.sleep(0.001)
        held.delete()
        threading.Timer(0.05, go_on.set).start()
        held.topic("orders")
        assert stored(files.LOG_STARTS) == {}
        assert await writing == []
        assert stored(files.LOG_STARTS) == {}

    asyncio.run(test())


def test_without_a_durable_checkpoint_no_log_of_an_old_name_is_created(held, checkpoints):
    partition = held.topic("orders")
    fill(held, partition)
    partition.delete_records(2)
    write(checkpoints, files.LOG_STARTS)
    held.delete()
    held.disk.faults = {"replace": files.LOG_STARTS}
    with pytest.raises(Exception, match="cannot make room for"):
        held.topic("orders")


def test_a_damaged_checkpoint_is_as_if_it_were_not_there(held, checkpoints, caplog):
    (held.root / files.LOG_STARTS).write_text("0\n1\nnonsense\n")
    assert checkpoints.read(held.replicas.dirs[0], files.LOG_STARTS) == {}
    assert "going on without it" in caplog.text
