"""Forcing logs to disk together: who waits is told of its own logs, and a disk that fails stops nobody else."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kavka.model.errors import KafkaStorageError
from kavka.replica.syncing import Syncer


class Rounds:
    """A syncer, and what its callers were told."""

    def __init__(self):
        self.syncer = Syncer(asyncio.get_running_loop())

    def sync(self, *logs):
        told = asyncio.get_running_loop().create_future()
        self.syncer.sync(logs, told.set_result)
        return told


def run(test):
    async def go():
        rounds = Rounds()
        try:
            await asyncio.wait_for(test(rounds), 10)
        finally:
            rounds.syncer.close()

    asyncio.run(go())


@pytest.fixture
def logs(held):
    """The logs of two partitions, each with a record that is not durable yet."""
    held.topic("orders", 2)
    partitions = [held.replicas.find("orders", index) for index in (0, 1)]
    for partition in partitions:
        held.produce(partition)
    return [partition.log for partition in partitions]


def test_what_was_written_is_durable_when_the_caller_is_told(logs):
    async def test(rounds):
        assert await rounds.sync(*logs) == {}
        assert [log.recovery_point for log in logs] == [1, 1]

    run(test)


def test_callers_that_come_while_a_round_runs_share_the_next(logs, disk):
    entered, go_on = threading.Event(), threading.Event()
    forced = []

    def before(kind, path):
        if kind == "sync":
            entered.set()
            go_on.wait()
            forced.append(path)

    async def test(rounds):
        disk.before = before
        first = rounds.sync(logs[0])
        while not entered.is_set():
            await asyncio.sleep(0)
        second, third = rounds.sync(logs[1]), rounds.sync(logs[1])
        assert [one.done() for one in (first, second, third)] == [False] * 3
        go_on.set()
        assert [await first, await second, await third] == [{}, {}, {}]
        assert sum("orders-1/" in path and path.endswith(".log") for path in forced) == 1

    run(test)


def test_a_log_that_cannot_be_forced_is_told_of_and_the_next_round_still_runs(logs, disk):
    async def test(rounds):
        disk.faults = {"sync": "orders-0/"}
        broken, sound = rounds.sync(*logs), rounds.sync(logs[1])
        failed = await broken
        assert list(failed) == [logs[0]]
        assert isinstance(failed[logs[0]], KafkaStorageError)
        assert await sound == {}
        disk.faults = {}
        assert await rounds.sync(logs[1]) == {}

    run(test)


def test_a_record_appended_before_its_log_failed_is_never_called_durable(logs, disk):
    entered, go_on = threading.Event(), threading.Event()

    def before(kind, path):
        if kind == "sync":
            entered.set()
            go_on.wait()

    async def test(rounds):
        disk.before = before
        disk.faults = {"sync": "orders-0/"}
        first = rounds.sync(logs[0])
        while not entered.is_set():
            await asyncio.sleep(0)
        second = rounds.sync(logs[0])  # of a record that was appended meanwhile
        go_on.set()
        assert list(await first) == [logs[0]]
        assert list(await second) == [logs[0]]

    run(test)


def test_a_log_whose_files_cannot_be_opened_is_told_of_and_the_next_round_still_runs(logs, disk):
    async def test(rounds):
        for segment in logs[0].segments:
            segment.close()
        (path,) = {segment.file.path for segment in logs[0].segments}
        disk.rename(path, path + ".gone")
        assert list(await rounds.sync(*logs)) == [logs[0]]
        assert await rounds.sync(logs[1]) == {}

    run(test)


def test_a_caller_that_fails_does_not_keep_the_others_waiting(logs, caplog):
    async def test(rounds):
        def fail(failed):
            raise ZeroDivisionError

        rounds.syncer.sync([logs[0]], fail)
        assert await rounds.sync(logs[0]) == {}
        assert await rounds.sync(logs[1]) == {}
        assert "ZeroDivisionError" in caplog.text

    run(test)


def test_a_round_that_ends_after_the_stop_begins_no_other(logs, disk, caplog):
    entered, go_on = threading.Event(), threading.Event()

    def before(kind, path):
        entered.set()
        go_on.wait(10)

    async def test(rounds):
        disk.before = before
        first = rounds.sync(logs[0])
        while not entered.is_set():
            await asyncio.sleep(0)
        second = rounds.sync(logs[1])
        go_on.set()
        rounds.syncer.close()
        assert await first == {}
        await asyncio.sleep(0)
        assert not second.done()

    run(test)
    assert not caplog.records
