"""Timers of a node: order, cancelling, many at once."""

from __future__ import annotations

import asyncio

from kavka.runtime.timers import Timers


def test_timers_run_in_the_order_of_their_times_and_of_setting(play, clock):
    called = []

    async def scenario():
        timers = Timers(asyncio.get_running_loop())
        for name, delay in [("c", 30), ("a", 10), ("b", 10), ("now", 0), ("past", -5)]:
            timers.set(delay, lambda name=name: called.append(name))
        await asyncio.sleep(0.05)

    play(scenario())
    assert called == ["now", "past", "a", "b", "c"]


def test_a_cancelled_timer_does_not_run_and_may_be_cancelled_again(play):
    called = []

    async def scenario():
        timers = Timers(asyncio.get_running_loop())
        gone = timers.set(5, lambda: called.append("gone"))
        timers.set(10, lambda: called.append("stays"))
        gone.cancel()
        gone.cancel()
        assert len(timers) == 1
        await asyncio.sleep(0.02)
        assert len(timers) == 0

    play(scenario())
    assert called == ["stays"]


def test_cancelled_timers_do_not_pile_up(play):
    async def scenario():
        timers = Timers(asyncio.get_running_loop())
        for _ in range(10_000):
            timers.set(60_000, lambda: None).cancel()
        assert len(timers) == 0
        assert len(timers._heap) <= 200

    play(scenario())


def test_a_timer_that_is_set_by_another_runs_in_time(play, clock):
    at = []

    async def scenario():
        timers = Timers(asyncio.get_running_loop())
        began = clock.now_ms()

        def again() -> None:
            at.append(clock.now_ms() - began)
            if len(at) < 3:
                timers.set(100, again)

        timers.set(100, again)
        timers.set(1000, lambda: None)
        await asyncio.sleep(2)

    play(scenario())
    assert at == [100, 200, 300]


def test_a_timer_that_raises_does_not_stop_the_others(play):
    called = []

    def fails() -> None:
        raise RuntimeError("a fault")

    async def scenario():
        loop = asyncio.get_running_loop()
        seen = []
        loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
        timers = Timers(loop)
        timers.set(10, fails)
        timers.set(10, lambda: called.append("same time"))
        timers.set(20, lambda: called.append("later"))
        await asyncio.sleep(0.05)
        assert [str(one) for one in seen] == ["a fault"]

    play(scenario())
    assert called == ["same time", "later"]


def test_many_timers_of_one_time_do_not_hold_the_loop(play, clock):
    others = []

    async def scenario():
        timers = Timers(asyncio.get_running_loop())
        done = []

        def slow() -> None:
            clock.advance(5)  # as if it took so long
            done.append(clock.now_ms())

        for _ in range(10):
            timers.set(10, slow)
        asyncio.get_running_loop().call_later(0.010, lambda: others.append(len(done)))
        await asyncio.sleep(0.2)
        assert len(done) == 10

    play(scenario())
    assert others[0] <= 2
