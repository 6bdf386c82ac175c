"""The tasks that a client object runs beside its user's, and that end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class Background:
    """A task group that is left by cancelling what still runs in it.

    A task that fails by a bug cancels the user's block, as in any task group, instead of
    leaving it to wait for ever.
    """

    def __init__(self) -> None:
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving = False

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine beside the others; once the block is being left, nothing new starts."""
        if self._leaving:
            work.close()
            return
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving = True
        for task in list(self._tasks):
            task.cancel()
        # The user's own exception leaves the block as it is, not wrapped in a group with those of the tasks.
        if kind is None or not issubclass(kind, asyncio.CancelledError):
            kind, error, trace = None, None, None
        await self._group.__aexit__(kind, error, trace)
