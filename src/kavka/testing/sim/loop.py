"""An event loop in virtual time: it never waits, and whoever drives it says when each of its turns comes.

One loop is one process of the simulated world. Its timers are due by a clock that the world moves, its threads are
work that the world does later, and the only descriptors it watches are those of simulated sockets. Tasks and futures
are numbered in the order of their making, so that sets of them have the same order in every run.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
from asyncio import events
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Executor
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")

BURIALS: Final = 5
"""How often a task is asked to end that has something to wait for at its end."""


class LoopDriver(Protocol):
    """What a loop asks of the process that it is the loop of."""

    def local_time(self) -> float:
        """Seconds of the process's monotonic clock; every look takes a moment."""

    def work(self, executor: Executor | None, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Do a thread's job at some later time, and call back in the loop when it is done."""

    def went_wrong(self, what: str, error: BaseException | None) -> None:
        """Take note of a callback that failed."""


class VirtualFuture(asyncio.Future[Any]):
    """A future whose hash is its number."""

    number: int

    def __hash__(self) -> int:
        """The number, whatever the address."""
        return self.number


class VirtualTask(asyncio.Task[Any]):
    """A task whose hash is its number."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **options: Any) -> None:
        self.number = number  # before the task is put into a set
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        """The number, whatever the address."""
        return self.number


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop that runs one turn when it is told to."""

    _ready: Any
    _scheduled: Any
    _timer_cancelled_count: int

    def __init__(self, driver: LoopDriver) -> None:
        super().__init__()
        self._driver = driver
        self._numbers = 0
        self._readers: dict[int, events.Handle] = {}
        self.set_task_factory(self._make_task)
        self.set_debug(False)

    # -- driving ------------------------------------------------------------------------

    def begin(self, main: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start the program whose loop this is."""
        return self._make_task(self, main)

    @property
    def is_due(self) -> bool:
        """Whether something is to be done at once."""
        return bool(self._ready)

    @property
    def next_timer(self) -> float | None:
        """The loop's time at which the next timer is due."""
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:  # nobody wants a turn for it
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled)._scheduled = False
        return scheduled[0]._when if scheduled else None

    def turn(self) -> None:
        """Run what is due now, once: asyncio's own way to do so, without what watches descriptors and the time."""
        ready = self._ready
        now, timer = self.time(), self.next_timer
        while timer is not None and timer <= now:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False
            ready.append(handle)
            timer = self.next_timer
        events._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
        finally:
            events._set_running_loop(None)

    def drop(self) -> None:
        """The process is gone: nothing of it runs any more."""
        self._ready.clear()
        self._scheduled.clear()
        self._readers.clear()

    def bury(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        """After the end of the world: end tasks wherever they stand, whatever they have to say about that."""
        for task in tasks:
            self._end(task)
        for task in asyncio.all_tasks(self):  # what the others began at their end
            self._end(task)
        self.drop()

    @staticmethod
    def _end(task: asyncio.Task[Any]) -> None:
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        for _ in range(BURIALS):
            with contextlib.suppress(BaseException):
                task.get_coro().close()
                break

    def readable(self, fd: int) -> None:
        """A watched descriptor has something to read."""
        handle = self._readers.get(fd)
        if handle is not None and not handle.cancelled():
            self._ready.append(handle)

    # -- what asyncio asks ---------------------------------------------------------------

    def time(self) -> float:
        """The process's monotonic clock."""
        return self._driver.local_time()

    def create_future(self) -> asyncio.Future[Any]:
        """A numbered future."""
        future = VirtualFuture(loop=self)
        self._numbers += 1
        future.number = self._numbers
        return future

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        self._numbers += 1
        assert asyncio.iscoroutine(coro)
        return VirtualTask(self._numbers, coro, loop=loop, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Have a function run as if in a thread: later, all at once, and perhaps never."""
        future: asyncio.Future[T] = self.create_future()
        outcome: list[tuple[T | None, BaseException | None]] = []

        def job() -> None:
            try:
                outcome.append((func(*args), None))
            except Exception as error:
                outcome.append((None, error))

        def done() -> None:
            if not future.cancelled():
                value, error = outcome[0]
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(value)  # type: ignore[arg-type]

        self._driver.work(executor, job, done)
        return future

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        """Watch a descriptor of the simulated network; real ones are never readable here."""
        self._readers[fd] = events.Handle(callback, args, self)

    def remove_reader(self, fd: Any) -> bool:
        """Watch a descriptor no more."""
        handle = self._readers.pop(fd, None)
        if handle is None:
            return False
        handle.cancel()
        return True

    def _write_to_self(self) -> None:
        """Nobody sleeps who would have to be woken."""

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        """There is no network but the simulated one."""
        raise OSError(f"{host}:{port} is not looked up in a simulation")

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A callback that failed is a fault of the run; a task that nobody asked is told of by chance."""
        if "handle" in context:
            self._driver.went_wrong(context["message"], context.get("exception"))
