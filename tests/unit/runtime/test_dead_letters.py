"""Dead letters to a topic that another node leads: none is left out, and none is written twice."""

from __future__ import annotations

import asyncio

import pytest
from letter_world import FaultyDisk, Held, Replicas, World
from played import turns

from kavka.model.errors import FencedLeaderEpoch
from kavka.model.share import ARCHIVED, ARCHIVING, StateBatch
from kavka.records.builder import BatchBuilder
from kavka.runtime.dead_letters import OFFSET, DeadLetters, DeadLetterWriter, headers_of
from kavka.share.partition import REJECTED, Dead


@pytest.fixture
def world(tmp_path, clock):
    return World(Held(tmp_path, FaultyDisk(), clock))


def test_a_batch_whose_answer_was_lost_is_not_written_twice(play, clock, world):
    async def run():
        world.script = ["lost", "refused", "lost", "done"]
        await world.give_up(world.leader(clock), 0, 3)
        assert world.log.high_watermark == 0  # nothing is committed: who looked only there saw nothing
        assert world.written == [0, 1, 2, 3]
        assert world.states == [StateBatch(0, 3, ARCHIVED, 1)]

    play(run())


@pytest.mark.parametrize("step", ["dies", "stuck"])
def test_who_follows_a_leader_that_died_amid_writing_writes_what_is_missing(play, clock, world, step):
    async def run():
        first = world.leader(clock)
        await world.give_up(first, 0, 0)
        world.script = [step, *["stuck"] * 2]
        dying = asyncio.ensure_future(world.give_up(first, 3, 5))
        await turns(5)
        dying.cancel()
        assert world.states == [StateBatch(0, 0, ARCHIVED, 1), StateBatch(3, 5, ARCHIVING, 1)]
        world.script = []
        heir = world.leader(clock)
        await world.follow(heir, 2)
        assert world.written == [0, 3, 4, 5]
        assert [world.append(batch) for batch in world.stuck] == [0] * len(world.stuck)  # the network was slow
        assert world.written == [0, 3, 4, 5]
        await world.give_up(heir, 6, 8, epoch=2)
        assert world.written == [0, 3, 4, 5, 6, 7, 8]
        assert {state for _, _, state, _ in world.states} == {ARCHIVED}

    play(run())


def test_a_leader_that_was_held_still_writes_nothing_any_more(play, clock, world):
    async def run():
        old, new = world.leader(clock), world.leader(clock)
        await world.give_up(old, 0, 0)
        await world.follow(new, 2)
        with pytest.raises(FencedLeaderEpoch):
            await world.give_up(old, 1, 1)
        await world.give_up(new, 1, 1, epoch=2)
        assert world.written == [0, 1]

    play(run())


def test_what_was_given_up_in_doubt_does_not_swallow_what_comes_next(play, clock, world):
    async def run():
        leader = world.leader(clock)
        world.script = ["lost", *["refused"] * 150]
        await world.give_up(leader, 0, 2)
        world.script = []
        await world.give_up(leader, 3, 5)
        assert world.written == [0, 1, 2, 3, 4, 5]
        assert world.states == [StateBatch(0, 5, ARCHIVED, 1)]

    play(run())


def test_a_topic_that_lost_records_gets_the_later_ones(play, clock, world):
    async def run():
        leader = world.leader(clock)
        await world.give_up(leader, 0, 0)
        await world.give_up(leader, 1, 2)
        world.log.log.truncate_to(1)
        await world.give_up(leader, 3, 4)
        assert world.written == [0, 3, 4]

    play(run())


def test_copies_that_are_too_large_for_the_topic_are_left_out(play, clock, tmp_path):
    async def run():
        world = World(Held(tmp_path, FaultyDisk(), clock), max_message_bytes=1_000)
        original = BatchBuilder()
        original.append(b"k", b"v" * 900, clock.now_ms())
        assert world.append(original.build()) == 0
        for follower in (2, 3):
            world.followed.fetch(follower, 1)
        world.settings = world.settings._replace(dead_letter_copies=True)
        letters = DeadLetters(Replicas(world.image), clock, world.ask, world.new_producer_id)  # type: ignore[arg-type]
        leader = DeadLetterWriter(world.key, world.log, letters, world)  # type: ignore[arg-type]  # as far as asked
        await world.give_up(leader, 0, 0)
        assert [(record.value, dict(record.headers)[OFFSET]) for record in world.records[1:]] == [(None, b"0")]
        assert world.states == [StateBatch(0, 0, ARCHIVED, 1)]

    play(run())


def test_a_topic_that_was_created_again_gets_what_was_in_doubt(play, clock, world):
    async def run():
        world.script = ["dies"]
        dying = asyncio.ensure_future(world.give_up(world.leader(clock), 3, 5))
        await turns(5)
        dying.cancel()
        assert world.written == [3, 4, 5]
        world.held.delete("orders")
        world.log = world.followed.topic("orders", (1, 2, 3))
        world.image = world.held.machine.image
        heir = world.leader(clock)
        await world.follow(heir, 2)
        await world.give_up(heir, 6, 6, epoch=2)
        assert world.written == [3, 4, 5, 6]
        assert world.states == [StateBatch(3, 6, ARCHIVED, 1)]

    play(run())


def test_many_are_several_batches_of_which_one_at_a_time_is_in_doubt(play, clock, world):
    async def run():
        world.script = ["lost", "done", "lost", "done", "dies"]
        dying = asyncio.ensure_future(world.give_up(world.leader(clock), 0, 3_999))
        while world.script:
            await asyncio.sleep(0.1)
        dying.cancel()
        assert world.states == [StateBatch(0, 1_999, ARCHIVED, 1), StateBatch(2_000, 2_999, ARCHIVING, 1)]
        await world.follow(world.leader(clock), 2)
        assert world.written == list(range(3_000))

    play(run())


def test_the_headers_say_where_a_dead_letter_comes_from(world):
    headers = dict(headers_of(world.key, "jobs", 7, Dead(7, 7, 2, REJECTED)))
    names = ("group", "topic", "partition", "offset", "delivery.count")
    assert [headers[f"__dlq.errors.{name}"] for name in names] == [b"g", b"jobs", b"0", b"7", b"2"]
