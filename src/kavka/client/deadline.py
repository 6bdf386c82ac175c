"""A time limit for code that may be run by one task at first and by another one later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def within(seconds: float | None) -> AsyncIterator[None]:
    """What `asyncio.timeout` does, in a handler's first step too.

    A dispatcher takes that step outside of any task, where `asyncio.timeout` raises RuntimeError, or in the task of
    the request before it, which is the one that `asyncio.timeout` would cancel. After a wait it is the handler's own.
    """
    await asyncio.sleep(0)
    async with asyncio.timeout(seconds):
        yield
