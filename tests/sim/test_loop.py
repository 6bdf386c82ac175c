"""The virtual loop: nothing waits, everything comes in order, and the same seed gives the same turns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kavka.testing.sim.machine import Process, SimMachine
from kavka.testing.sim.world import ViolationError, World

Main = Callable[[Process], Coroutine[Any, Any, None]]


def run(main: Main, seed: int = 0, seconds: float = 1_000) -> tuple[World, BaseException | None]:
    ends: list[BaseException | None] = []
    with World(seed) as world:
        SimMachine(world, 1, "10.0.0.1").boot(main, ends.append)
        world.run_until(seconds, lambda: bool(ends))
    assert ends, "it did not end"
    return world, ends[0]


@pytest.fixture
def world() -> Iterator[World]:
    with World(0) as world:
        yield world


def test_an_hour_passes_at_once() -> None:
    async def main(process: Process) -> None:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(3_600)
        assert asyncio.get_running_loop().time() - began >= 3_600

    world, error = run(main, seconds=10_000)
    assert error is None
    assert 3_600 <= world.now < 3_601


def test_timers_come_in_the_order_of_their_times_and_callbacks_in_that_of_their_asking() -> None:
    seen: list[int] = []

    async def main(process: Process) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.3, seen.append, 3)
        loop.call_later(0.1, seen.append, 2)
        loop.call_later(0.2, seen.append, 9).cancel()
        loop.call_soon(seen.append, 0)
        loop.call_soon(seen.append, 1)
        await asyncio.sleep(1)

    assert run(main)[1] is None
    assert seen == [0, 1, 2, 3]


def test_what_a_thread_does_is_done_later_and_in_order_where_there_is_one_thread() -> None:
    seen: list[int] = []

    async def main(process: Process) -> None:
        loop = asyncio.get_running_loop()
        executor = ThreadPoolExecutor(1)
        jobs = [loop.run_in_executor(executor, seen.append, number) for number in range(20)]
        assert seen == []
        await asyncio.gather(*jobs)
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 // 0)
        assert await asyncio.to_thread(len, "four") == 4

    assert run(main)[1] is None
    assert seen == list(range(20))


def test_a_seed_gives_the_same_turns_again_and_another_gives_others() -> None:
    async def main(process: Process) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(5):
                tasks.create_task(asyncio.sleep(process.random.random() * number))

    digests = [run(main, seed)[0].digest for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_tasks_that_are_cancelled_together_end_in_the_same_order_every_time() -> None:
    def ends() -> list[int]:
        seen: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                seen.append(number)

        async def main(process: Process) -> None:
            async def fail() -> None:
                await asyncio.sleep(0.1)
                raise ValueError

            async with asyncio.TaskGroup() as tasks:
                for number in range(50):
                    tasks.create_task(wait(number))
                tasks.create_task(fail())

        assert isinstance(run(main)[1], ExceptionGroup)
        return seen

    assert ends() == ends()


def test_a_process_that_is_killed_does_nothing_more(world: World) -> None:
    machine = SimMachine(world, 1, "10.0.0.1")
    seen: list[str] = []

    async def main(process: Process) -> None:
        process.disk.write_file("/kept", b"x")
        try:
            await asyncio.sleep(10)
        finally:
            seen.append("it went on")

    process = machine.boot(main, lambda error: seen.append("it ended"))
    world.run_until(1)
    process.die()
    world.run_until(100)
    assert seen == []
    assert machine.process is None
    with pytest.raises(OSError, match="the process is gone"):
        process.disk.read_file("/kept")
    assert bytes(machine.drive.inode("/kept").data) == b"x"


def test_a_process_that_stands_still_goes_on_where_it_was(world: World) -> None:
    ticks: list[float] = []

    async def main(process: Process) -> None:
        for _ in range(10):
            await asyncio.sleep(0.1)
            ticks.append(process.world.now)

    process = SimMachine(world, 1, "10.0.0.1").boot(main, lambda error: None)
    world.run_until(0.35)
    process.pause(5)
    world.run_until(5.3)
    assert len(ticks) == 3
    world.run_until(10)
    assert len(ticks) == 10


def test_a_callback_that_fails_is_a_violation() -> None:
    async def main(process: Process) -> None:
        asyncio.get_running_loop().call_later(0.1, lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(ViolationError, match="ZeroDivisionError"):
        run(main)


def test_clocks_may_be_wrong(world: World) -> None:
    machine = SimMachine(world, 1, "10.0.0.1")
    machine.rate, machine.skew_ms = 2.0, -5_000
    times: list[float] = []

    async def main(process: Process) -> None:
        before = process.now_ms(), process.monotonic_ms(), world.now
        await asyncio.sleep(10)
        times.extend(
            after - at for after, at in zip((process.now_ms(), process.monotonic_ms(), world.now), before, strict=True)
        )

    machine.boot(main, lambda error: None)
    world.run_until(100)
    assert times[0] == pytest.approx(10_000, abs=10)
    assert times[1] == pytest.approx(10_000, abs=10)
    assert times[2] == pytest.approx(5, abs=0.01)
