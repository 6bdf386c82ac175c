"""Full passes of the garbage collector, at quiet moments.

A full pass looks at every object that is not frozen: a few milliseconds on a quiet node, a tenth of a second while
large requests are in memory as objects. Left to itself, the collector chooses just that moment, as so many are new.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Final

NEVER: Final = 1 << 30
"""The threshold of a collector that makes no full passes by itself."""
COLLECT_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 1.0
LATEST_SECONDS: Final = 300.0
"""However busy the node is, cycles are not left lying for longer."""


class Collecting:
    """Collects garbage now and then."""

    def __init__(self, busy: Callable[[], bool]) -> None:
        self._busy = busy

    async def run(self) -> None:
        """Collect until cancelled; only where the collector was told not to do so by itself."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + COLLECT_SECONDS
            await asyncio.sleep(COLLECT_SECONDS)
            while self._busy() and loop.time() < due + LATEST_SECONDS:  # noqa: ASYNC110  (seldom)
                await asyncio.sleep(LOOK_SECONDS)
            if gc.get_threshold()[2] == NEVER:
                gc.collect()
