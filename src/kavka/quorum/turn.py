"""Time on the event loop, given back in time."""

from __future__ import annotations

import asyncio
from typing import Final

SLICE_SECONDS: Final = 0.008


class Turn:
    """A piece of long work's time on the loop."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends = asyncio.get_running_loop().time() + SLICE_SECONDS

    async def breathe(self) -> None:
        """Let others run if this has taken long enough."""
        now = asyncio.get_running_loop().time()
        if now >= self._ends:
            await asyncio.sleep(0)
            self._ends = asyncio.get_running_loop().time() + SLICE_SECONDS
