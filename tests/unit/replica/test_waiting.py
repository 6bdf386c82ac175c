"""Requests that wait: woken together, answered once, and none kept from looking by another's fault."""

from __future__ import annotations

import asyncio

from kavka.replica.waiting import Purgatory


def run(test):
    async def go():
        await asyncio.wait_for(test(Purgatory(asyncio.get_running_loop())), 10)

    asyncio.run(go())


def test_wakes_of_one_turn_are_one_look():
    async def test(waiting):
        looks = []
        waiter = waiting.park(10_000, lambda last: looks.append(last) or len(looks) == 2)
        for _ in range(3):
            waiter.wake()
        await asyncio.sleep(0)
        assert looks == [False]
        waiter.wake()
        await asyncio.sleep(0)
        waiter.wake()  # has answered: nothing happens any more
        await asyncio.sleep(0)
        assert looks == [False, False]
        assert waiting.parked == 0

    run(test)


def test_when_the_time_is_up_there_is_a_last_look():
    async def test(waiting):
        looked = asyncio.get_running_loop().create_future()
        waiting.park(1, lambda last: looked.set_result(last))
        assert await looked is True
        await asyncio.sleep(0)
        assert waiting.parked == 0

    run(test)


def test_a_waiter_that_wakes_another_is_heard_in_the_next_turn():
    async def test(waiting):
        looks = []
        second = waiting.park(10_000, lambda last: looks.append("second") or True)
        first = waiting.park(10_000, lambda last: second.wake() or looks.append("first") or True)
        first.wake()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert looks == ["first", "second"]

    run(test)


def test_one_that_fails_keeps_no_other_from_looking(caplog):
    async def test(waiting):
        looks = []

        def fail(last):
            raise ZeroDivisionError

        first, second = waiting.park(10_000, fail), waiting.park(10_000, lambda last: looks.append(last) or True)
        first.wake()
        second.wake()
        await asyncio.sleep(0)
        assert looks == [False]
        assert waiting.parked == 0

    run(test)
    assert "ZeroDivisionError" in caplog.text


def test_a_waiter_that_is_given_up_never_looks():
    async def test(waiting):
        looks = []
        waiter = waiting.park(1, lambda last: looks.append(last) or True)
        waiter.wake()
        waiter.cancel()
        await asyncio.sleep(0.01)
        assert looks == []
        assert waiting.parked == 0

    run(test)
