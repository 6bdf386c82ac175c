"""Long requests take turns: one slice at a time, and the loop is everybody's in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator

import pytest

from kavka.model.errors import MalformedMessage
from kavka.pacing.lane import AT_ONCE, LARGE_BYTES, Lane, LaneClass

SMALL, LARGE = LaneClass.SMALL, LaneClass.LARGE


def counting(number: int, order: list[int], steps: int, seconds: float = 0.0) -> Generator[None, None, int]:
    for _ in range(steps):
        order.append(number)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            pass
        yield
    return number


def test_what_takes_longer_than_a_slice_alternates_with_the_others() -> None:
    async def test() -> list[int]:
        lane, order = Lane(), list[int]()
        await asyncio.gather(
            lane.run(counting(1, order, 4, 0.006), LARGE), lane.run(counting(2, order, 4, 0.006), LARGE)
        )
        return order

    assert asyncio.run(test()) == [1, 2, 1, 2, 1, 2, 1, 2]


def test_of_many_that_wait_one_runs_in_a_turn_of_the_loop() -> None:
    async def test() -> None:
        lane, order = Lane(), list[int]()
        async with asyncio.TaskGroup() as tasks:
            for number in range(5):
                tasks.create_task(lane.run(counting(number, order, 3, 0.006), SMALL))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            while len(order) < 15:
                before = len(order)
                await asyncio.sleep(0)
                assert len(order) - before <= 1

    asyncio.run(test())


def test_more_steps_than_allowed_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="too many items"):
        asyncio.run(Lane().run(counting(1, [], 11), LARGE, 10))
    assert asyncio.run(Lane().run(counting(1, [], 10), LARGE, 10)) == 1


def test_only_so_many_are_in_memory_at_once_and_a_place_is_given_back_once() -> None:
    async def test() -> None:
        lane = Lane()
        places = [await lane.enter(LARGE) for _ in range(AT_ONCE)]
        entering = asyncio.ensure_future(lane.enter(LARGE))
        await asyncio.sleep(0.01)
        assert not entering.done()
        places[0].leave()
        places[0].leave()
        await entering
        another = asyncio.ensure_future(lane.enter(LARGE))
        await asyncio.sleep(0.01)
        assert not another.done()
        another.cancel()

    asyncio.run(test())


def test_one_who_gave_up_waiting_is_passed_over() -> None:
    async def test() -> None:
        lane = Lane()
        gone, stays = asyncio.ensure_future(lane.turn(LARGE)), asyncio.ensure_future(lane.turn(LARGE))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait_for(stays, 10)
        await asyncio.wait_for(lane.turn(LARGE), 10)

    asyncio.run(test())


def test_large_requests_leave_places_and_turns_to_small_ones() -> None:
    async def test() -> list[int]:
        lane, order = Lane(), list[int]()

        async def serve(number: int, kind: LaneClass, steps: int) -> None:
            place = await lane.enter(kind)
            await lane.turn(kind)
            await lane.run(counting(number, order, steps, 0.006), kind)
            place.leave()

        async with asyncio.TaskGroup() as tasks:
            for number in range(5):
                tasks.create_task(serve(number, LARGE, 6))
            await asyncio.sleep(0)
            tasks.create_task(serve(9, SMALL, 3))
        return order

    order = asyncio.run(test())
    assert len([number for number in order[: order.index(9)] if number != 9]) <= 2
    last = len(order) - order[::-1].index(9)
    assert len([number for number in order[:last] if number != 9]) <= 4


def test_the_class_is_that_of_the_size() -> None:
    assert LaneClass.of(LARGE_BYTES) is SMALL
    assert LaneClass.of(LARGE_BYTES + 1) is LARGE


def test_others_have_the_loop_for_longer_than_a_slice_if_they_use_it() -> None:
    async def rests(active: bool) -> float:
        lane, served = Lane(), [0]
        lane.beside(lambda: served[0])
        running = asyncio.ensure_future(lane.run(counting(1, [], 2, 0.02), LARGE))
        await asyncio.sleep(0)
        began = time.monotonic()
        while not running.done():
            served[0] += active
            await asyncio.sleep(0)
        return time.monotonic() - began

    # Its second slice takes 20 ms; before it there is a rest of twice that, where somebody is served.
    assert asyncio.run(rests(active=True)) >= 0.055
