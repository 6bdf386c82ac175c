"""Work that costs much shares the loop, and no line of it waits for all of another."""

from __future__ import annotations

import asyncio
from functools import partial

from kavka.pacing.turns import Turns


def run(turn_seconds, *lines_of_work):
    """In which order work is done that is asked for at once, and at how many turns of the loop."""
    done: list[str] = []
    turns: list[int] = []

    async def test():
        loop = asyncio.get_running_loop()
        shared = Turns(turn_seconds)
        turn = 0

        def count():
            nonlocal turn
            turn += 1
            if len(done) < sum(map(len, lines_of_work)):
                loop.call_soon(count)

        def do(name):
            done.append(name)
            turns.append(turn)

        count()
        for line, names in ((shared.line(), names) for names in lines_of_work):
            for name in names:
                line.take(partial(do, name))
        while len(done) < sum(map(len, lines_of_work)):
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(test(), 10))
    return done, turns


def test_what_fits_is_done_at_once():
    done, turns = run(1000.0, "abc", "x")
    assert done == ["a", "b", "c", "x"]
    assert set(turns) == {1}


def test_what_does_not_fit_waits_for_later_turns_in_order():
    done, turns = run(1e-9, "abcd")
    assert done == ["a", "b", "c", "d"]
    assert turns == sorted(set(turns))


def test_a_short_line_does_not_wait_for_a_long_one():
    done, _ = run(1e-9, "a" * 1000, "xy")
    assert done.index("x") <= 2
    assert done.index("y") <= 5
