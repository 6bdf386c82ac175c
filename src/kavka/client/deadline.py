"""A time limit for code that may run before it is part of a task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def within(seconds: float | None) -> AsyncIterator[None]:
    """What `asyncio.timeout` does, in a handler's first step too.

    A dispatcher runs a handler up to its first wait outside of any task, where `asyncio.timeout` raises RuntimeError.
    """
    if asyncio.current_task() is None:
        await asyncio.sleep(0)
    async with asyncio.timeout(seconds):
        yield
