"""`kavka` on asyncio's own loop, every callback of which is timed: those that took long are written to a file.

What is taken is the CPU time of the thread, so that a busy machine does not count; KAVKA_WATCHED names the file.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import gc
import os
import time
from typing import Any

import uvloop

LONG_MS = 5.0
"""What is not worth a line."""


def watch(path: str) -> None:
    """Time every callback of the loops of this process, and each pass of the garbage collector."""
    out = open(path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115  (for as long as the process is there)
    handles: Any = asyncio.events.Handle
    run = handles._run
    collected = [0.0, 0.0]

    def timed(handle: Any) -> None:
        began, collected[1] = time.thread_time(), 0.0
        run(handle)
        took_ms = (time.thread_time() - began) * 1000
        if took_ms >= LONG_MS:
            out.write(f"{took_ms:.1f} {collected[1] * 1000:.1f} {handle!r}\n"[:500].rstrip("\n") + "\n")

    def collecting(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            collected[0] = time.thread_time()
        else:
            collected[1] += time.thread_time() - collected[0]

    gc.callbacks.append(collecting)
    handles._run = timed
    loops: Any = uvloop
    loops.run = asyncio.run


if __name__ == "__main__":
    watch(os.environ["KAVKA_WATCHED"])
    from kavka.cli.app import main

    main()
