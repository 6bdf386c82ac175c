"""The process of the console as its node has it: started, started again when it ends, and ended with the node.

The node keeps the listening socket, so that the address stays and browsers wait where the process is not up. What the
process has to know is written to its standard input; that this ends is how it knows that the node has.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Any, Final

logger = logging.getLogger(__name__)

NEEDS: Final = ("starlette", "uvicorn", "jinja2")
"""The packages of the extra `console`."""
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 30.0
STEADY_SECONDS: Final = 60.0
"""A process that ran for so long may be started again at once."""
END_SECONDS: Final = 5.0


class ConsoleProcess:
    """Keeps a console running on a socket."""

    def __init__(self, listening: socket.socket, facts: Mapping[str, Any]) -> None:
        self._socket = listening
        self._facts = json.dumps(facts).encode() + b"\n"

    async def run(self) -> None:
        """Keep it running until cancelled."""
        loop, wait = asyncio.get_running_loop(), FIRST_WAIT
        while True:
            began = loop.time()
            try:
                ended = f"ended with code {await self._serve()}"
            except Exception as error:  # as where there is no memory for a process: the node goes on
                ended = f"failed: {str(error) or type(error).__name__}"
            if loop.time() - began > STEADY_SECONDS:
                wait = FIRST_WAIT
            logger.warning("the console's process %s; it is started again in %g s", ended, wait)
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _serve(self) -> int:
        """Have a process, and its code when it has ended."""
        process = await self._start()
        try:
            return await process.wait()
        finally:
            await self._end(process)

    async def _start(self) -> Process:
        fd = self._socket.fileno()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kavka.console", str(fd), stdin=PIPE, pass_fds=(fd,), start_new_session=True
        )
        assert process.stdin is not None
        process.stdin.write(self._facts)
        return process

    async def _end(self, process: Process) -> None:
        """Have a process end: by itself, because its input does, or by force."""
        if process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
