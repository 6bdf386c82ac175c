"""A machine of the simulated world: a disk, clocks that may be wrong, and at most one process at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from struct import pack
from typing import Any, Final

from kavka.testing.sim.disk import Drive, SimDisk
from kavka.testing.sim.loop import VirtualLoop
from kavka.testing.sim.world import World

EPOCH_MS: Final = 1_750_000_000_000
LOOK_SECONDS: Final = 2e-6
"""What a look at the clock takes: work that ends its turn by the clock does end it."""
TURN_SECONDS: Final = (5e-6, 1e-4)
THREAD_SECONDS: Final = (2e-5, 2e-3)

Main = Callable[["Process"], Coroutine[Any, Any, None]]
Ended = Callable[[BaseException | None], None]


class SimMachine:
    """What outlives a process: the disk, the address, how wrong the clocks are."""

    def __init__(self, world: World, number: int, address: str, disk_bytes: int = 1 << 40) -> None:
        self.world = world
        self.number = number
        self.address = address
        self.drive = Drive(disk_bytes)
        self.rate = 1.0
        """How fast its clocks go."""
        self.skew_ms = 0
        """By how much its wall clock is wrong."""
        self.process: Process | None = None
        self.graveyard: list[Process] = []
        world.at_the_end.append(self._bury)

    def now_ms(self) -> int:
        """What its wall clock says."""
        return EPOCH_MS + self.skew_ms + int(self.world.now * self.rate * 1000)

    def boot(self, main: Main, ended: Ended) -> Process:
        """Start a process."""
        assert self.process is None, f"{self.address} runs already"
        process = self.process = Process(self)
        process.start(main, ended)
        return process

    def _bury(self) -> None:
        if self.process is not None:
            self.process.die()
        for process in self.graveyard:
            process.bury()
        self.graveyard.clear()

    def gone(self, process: Process) -> None:
        """A process has ended."""
        self.graveyard.append(process)
        if self.process is process:
            self.process = None


class Process:
    """One life of a program: a loop, a view of the disk, chance of its own."""

    def __init__(self, machine: SimMachine) -> None:
        self.machine = machine
        self.world = machine.world
        self.random = random.Random(self.world.random.getrandbits(64))
        self.loop = VirtualLoop(self)
        self.disk = SimDisk(machine.drive, self.spend, machine.now_ms)
        self.alive = True
        self.paused = False
        self.running = False
        """Whether it is this process's code that runs now."""
        self.silent = False
        """Whether nobody hears of its end before the machine is back."""
        self.slow_cpu = 0.0
        """In which share of its looks at the clock it finds that another program had the processor."""
        self.slow_disk = 1.0
        self.watch: Callable[[], None] | None = None
        """Called after each turn, by whoever looks on."""
        self.closing: list[Callable[[], None]] = []
        """Called when it is gone, however it went."""
        self._spent = 0.0
        self._free_at = 0.0
        self._turn_at = float("inf")
        self._last_begun: dict[Executor, float] = {}
        self._free_threads: dict[Executor, float] = {}
        self._held: set[asyncio.Task[Any]] = set()
        """What runs or ran here; nothing of it is to be collected, and so heard of, while the world goes on."""
        self.fault: str | None = None

    # -- life ---------------------------------------------------------------------------

    def start(self, main: Main, ended: Ended) -> None:
        """Begin to run a program; at its end say how it ended."""

        def over(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            self.world.after(0.0, lambda: self._over(ended, error))

        begun = self.loop.begin(main(self))
        begun.add_done_callback(over)
        self._held.add(begun)
        self.plan()

    def _over(self, ended: Ended, error: BaseException | None) -> None:
        if self.alive:
            self.die()
            ended(error)

    def die(self) -> None:
        """Be gone, at once and without a word."""
        self.alive = False
        self.disk.dead = True
        self._held |= asyncio.all_tasks(self.loop)
        self.machine.drive.locks.clear()
        self.loop.drop()
        self.machine.gone(self)
        for callback in self.closing:
            callback()

    def bury(self) -> None:
        """After the end of the world: end what was still to be done, wherever it stands."""
        self.loop.bury(self._held)
        self._held.clear()
        self.closing.clear()
        self.loop.close()

    def pause(self, seconds: float) -> None:
        """Stand still for a while, as a process does that is stopped or swapped out."""
        if not self.paused:
            self.paused = True
            self.world.after(seconds, self._resume)

    def _resume(self) -> None:
        self.paused = False
        self._turn_at = float("inf")
        self.plan()

    # -- time ---------------------------------------------------------------------------

    def local_time(self) -> float:
        """Seconds of the monotonic clock."""
        self._spent += LOOK_SECONDS
        if self.slow_cpu and self.random.random() < self.slow_cpu:
            self._spent += self.random.uniform(0.001, 0.03)
        return (self.world.now + self._spent) * self.machine.rate

    def now_ms(self) -> int:
        """What the wall clock says."""
        return self.machine.now_ms()

    def monotonic_ms(self) -> int:
        """Milliseconds of the monotonic clock."""
        return int((self.world.now + self._spent) * self.machine.rate * 1000)

    def spend(self, seconds: float) -> None:
        """Something takes its time: the program stands still so long."""
        self._spent += seconds * self.slow_disk

    # -- turns --------------------------------------------------------------------------

    def deliver(self, callback: Callable[[], object]) -> None:
        """Something reaches the process from without."""
        if self.alive:
            self.loop.call_soon(callback)
            self.plan()

    def readable(self, fd: int) -> None:
        """A socket has something to read."""
        if self.alive:
            self.loop.readable(fd)
            self.plan()

    def plan(self) -> None:
        """Have the next turn when something is due."""
        if self.paused or not self.alive:
            return
        if self.loop.is_due:
            due = self.world.now
        else:
            timer = self.loop.next_timer
            if timer is None:
                return
            due = timer / self.machine.rate
        due = max(due, self._free_at)
        if due < self._turn_at:
            self._turn_at = due
            self.world.at(due, lambda: self._turn(due))

    def _turn(self, due: float) -> None:
        if not self.alive or self.paused or due != self._turn_at:
            return
        self._turn_at = float("inf")
        self._spent = 0.0
        self.world.note(pack("<di", self.world.now, self.machine.number))
        self.running = True
        self.loop.turn()
        self.running = False
        if self.fault is not None:
            self.world.fail(self.fault)
        if self.watch is not None:
            self.watch()
        self._free_at = self.world.now + self._spent + self.random.uniform(*TURN_SECONDS)
        self._spent = 0.0
        self.plan()

    # -- threads ------------------------------------------------------------------------

    def work(self, executor: Executor | None, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Do a thread's job a little later; an executor of the program's own has one thread, the common one many."""
        begins = self.world.now + self._spent + self.random.uniform(*THREAD_SECONDS)
        if executor is not None:
            begins = max(begins, self._last_begun.get(executor, 0.0))
            self._last_begun[executor] = begins

        def run() -> None:
            if not self.alive:
                return
            if executor is not None and (free_at := self._free_threads.get(executor, 0.0)) > self.world.now:
                self.world.at(free_at, run)
                return
            before, self._spent = self._spent, 0.0
            self.running = True
            job()
            self.running = False
            ends = self.world.now + self._spent
            self._spent = before
            if executor is not None:
                self._free_threads[executor] = ends
            self.world.at(ends, lambda: self.deliver(done))

        self.world.at(begins, run)

    def went_wrong(self, what: str, error: BaseException | None) -> None:
        """A callback failed that must not."""
        if self.alive and self.fault is None:
            self.fault = f"{self.machine.address}: {what}: {error!r}"
