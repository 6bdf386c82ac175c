"""A share partition that is led: loaded before it is used, written before it is answered, given back if that fails."""

from __future__ import annotations

import asyncio

from played import KEY, Persister, PlayedPartition, turns

from kavka.coordinator.share.settings import ShareSettings
from kavka.metadata.image import EMPTY
from kavka.model.errors import (
    CoordinatorNotAvailable,
    FencedStateEpoch,
    InvalidRecordState,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    UnknownServerError,
)
from kavka.model.settings import broker_values
from kavka.model.share import ACKNOWLEDGED, ARCHIVED, StateBatch
from kavka.runtime.dead_letters import DeadLetters, without_dead
from kavka.runtime.led_share import LedShare, LedShares, ShareCounts, joined
from kavka.runtime.timers import Timers
from kavka.share.acquiring import LogBatch, Wanted
from kavka.share.partition import ACCEPT, REJECT, RELEASE, Acknowledgement, Dead, StateWrite


class Nothing:
    """The replicas of a node without topics."""

    image = EMPTY


class World:
    """A share partition, and what it tells."""

    def __init__(self, clock, tasks, persister):
        self.dropped: list[LedShare] = []
        self.clock = clock
        self.persister = persister
        self.settings = ShareSettings(broker_values({})).of_group({})
        self.partition = PlayedPartition()
        self.partition.behind_epoch_start = False
        around = LedShares(
            clock,
            Timers(asyncio.get_running_loop()),
            persister,
            lambda group: self.settings,
            tasks.create_task,
            self.dropped.append,
            ShareCounts(),
            DeadLetters(Nothing(), clock, None, None),  # type: ignore[arg-type]  # there is no topic for them
        )
        self.around = around
        self.led = LedShare(KEY, self.partition, around)

    def acquire(self, member="m", last=9, aborted=()):
        assert self.led.machine is not None
        got = self.led.machine.acquire(
            Wanted(member, 100, 100), 0, [LogBatch(0, last)], self.led.limits, self.clock.monotonic_ms(), aborted
        )
        self.led.acquired(got)
        return got

    def say(self, what, first=0, last=9, member="m"):
        answers: list[KafkaError | None] = []
        self.led.acknowledge(member, [Acknowledgement(first, last, [what])], answers.append)
        return answers


def scenario(play, clock, work, persister=None):
    async def run():
        async with asyncio.TaskGroup() as tasks:
            world = World(clock, tasks, persister() if persister is not None else Persister())
            await turns(5)
            await work(world)

    play(run())


def test_an_answer_waits_for_the_write_and_later_ones_go_together(play, clock):
    async def work(world):
        assert world.acquire() == [(0, 9, 1)]
        world.persister.gate.clear()
        first = world.say(ACCEPT, 0, 1)
        await turns(5)
        second, third = world.say(ACCEPT, 2, 3), world.say(RELEASE, 4, 4)
        await turns(5)
        assert (first, second, third, len(world.persister.writes)) == ([], [], [], 1)
        world.persister.gate.set()
        await turns(10)
        assert (first, second, third) == ([None], [None], [None])
        assert [len(write.batches) for write in world.persister.writes] == [1, 2]
        assert world.led.machine.window.start_offset == 4

    scenario(play, clock, work)


def test_where_nothing_is_in_flight_after_aborted_records_that_is_written(play, clock):
    async def work(world):
        assert world.acquire(aborted=[(0, 9)]) == []
        assert world.acquire() == []
        await turns(10)
        assert [(write.start_offset, write.batches) for write in world.persister.writes] == [(10, [])]

    scenario(play, clock, work)


def test_a_write_that_fails_is_taken_back_and_can_be_said_again(play, clock):
    async def work(world):
        world.acquire()
        world.persister.failure = NotCoordinator("moved")
        answers = world.say(ACCEPT)
        await turns(10)
        assert [type(error) for error in answers] == [CoordinatorNotAvailable]
        assert world.led.failure is None
        world.persister.failure = None
        answers = world.say(ACCEPT)
        await turns(10)
        assert answers == [None]
        assert [type(error) for error in world.say(ACCEPT, member="n")] == [type(None)]  # before the start by now

    scenario(play, clock, work)


def test_who_is_fenced_is_dropped(play, clock):
    async def work(world):
        world.acquire()
        world.persister.failure = FencedStateEpoch("later")
        answers = world.say(ACCEPT)
        await turns(10)
        assert [type(error) for error in answers] == [NotLeaderOrFollower]
        assert world.dropped == [world.led]
        assert [type(error) for error in world.say(ACCEPT)] == [NotLeaderOrFollower]

    scenario(play, clock, work)


def test_an_error_of_the_persister_is_an_error_and_no_empty_window(play, clock):
    def failing():
        persister = Persister()
        persister.failure = UnknownServerError("no disk")
        return persister

    async def work(world):
        assert isinstance(world.led.failure, UnknownServerError)
        assert world.led.machine is None
        assert world.persister.writes == []

    scenario(play, clock, work, failing)


def test_a_lock_that_ends_frees_the_records_at_once(play, clock):
    class Waits:
        woken = 0

        def news(self):
            self.woken += 1

    async def work(world):
        world.acquire()
        waits = Waits()
        world.led.waiting.add(waits)
        world.persister.gate.clear()  # whether or not it is written
        await asyncio.sleep(31)
        assert waits.woken == 1
        assert world.acquire("n") == [(0, 9, 2)]
        assert [type(error) for error in world.say(ACCEPT)] == [InvalidRecordState]
        world.persister.gate.set()
        await turns(10)

    scenario(play, clock, work)


def test_the_next_one_of_a_key_waits_for_the_last_write_of_the_one_before(play, clock):
    async def work(world):
        world.acquire()
        world.persister.gate.clear()
        world.say(ACCEPT)
        await turns(5)
        world.led.drop(NotLeaderOrFollower("moved"))
        reads = world.persister.reads
        successor = LedShare(KEY, world.partition, world.around, world.led)
        await turns(5)
        assert (successor.machine, world.persister.reads) == (None, reads)
        world.persister.gate.set()
        await turns(10)
        assert successor.machine is not None

    scenario(play, clock, work)


def test_several_writes_are_one_and_what_is_given_up_is_not_archived_yet():
    first = StateWrite(1, 2, 0, 3, (StateBatch(0, 2, ARCHIVED, 1),), 5, (Dead(1, 1, 1, 1),))
    change = joined([first, StateWrite(1, 2, 3, 4, (StateBatch(5, 5, ACKNOWLEDGED, 1),), 5)])
    assert change[:4] == (1, 2, 3, 4)
    assert without_dead(change.batches, first.dead) == [
        StateBatch(0, 0, ARCHIVED, 1),
        StateBatch(2, 2, ARCHIVED, 1),
        StateBatch(5, 5, ACKNOWLEDGED, 1),
    ]


def test_after_a_failed_write_of_what_is_given_up_the_share_partition_is_loaded_anew(play, clock):
    async def work(world):
        world.settings = world.settings._replace(dead_letter_topic="gone")
        world.acquire()
        world.persister.failure = NotCoordinator("moved")
        answers = world.say(REJECT)
        await turns(10)
        assert [type(error) for error in answers] == [CoordinatorNotAvailable]
        assert world.dropped == [world.led]  # else a record could be accepted whose dead letter is written

    scenario(play, clock, work)
