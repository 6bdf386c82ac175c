"""The console's HTTP server: uvicorn with limits, on a socket that is open already."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

import uvicorn
import uvloop
from uvicorn.protocols.http.h11_impl import H11Protocol

from kavka.console.app import make_app
from kavka.console.settings import ConsoleSettings
from kavka.console.tls import ServedTls

MOST_CONNECTIONS: Final = 300
HEAD_BYTES: Final = 32 * 1024
KEEP_ALIVE_SECONDS: Final = 20
PATIENCE_SECONDS: Final = 20.0
END_SECONDS: Final = 2


class PatientProtocol(H11Protocol):
    """HTTP/1.1 for clients that ask for something before long, and take what they asked for."""

    _unsent = 0
    _answered: object = None
    """The request that was answered at the last look, if only a part of the next had come."""
    _gone = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look after the connection."""
        super().connection_made(transport)
        self.loop.call_later(PATIENCE_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking."""
        self._gone = True
        super().connection_lost(exc)

    def _look(self) -> None:
        """Hang up on who has asked for nothing, or has taken nothing or not asked to the end since the last time."""
        if self._gone:
            return
        unsent = self.transport.get_write_buffer_size()
        waits = self.cycle is not None and self.cycle.response_complete and self.timeout_keep_alive_task is None
        answered = self.cycle if waits else None
        if self.cycle is None or (unsent and unsent == self._unsent) or (waits and answered is self._answered):
            self.transport.abort()
            return
        self._unsent, self._answered = unsent, answered
        self.loop.call_later(PATIENCE_SECONDS, self._look)


def serve(settings: ConsoleSettings, listening: socket.socket, lifeline: int | None = None) -> None:
    """Serve until told to stop, or until nobody holds the other end of the lifeline."""
    uvloop.run(run(settings, listening, lifeline))


async def run(settings: ConsoleSettings, listening: socket.socket, lifeline: int | None = None) -> None:
    """As `serve`, in a loop that runs."""
    app = make_app(settings, listening.getsockname()[0])
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=END_SECONDS,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    server = uvicorn.Server(config)
    config.load()
    tls = ServedTls(settings.tls) if settings.tls else None
    if tls is not None:
        config.ssl = tls.context
    if lifeline is not None:

        def heard() -> None:
            if not os.read(lifeline, 4096):
                asyncio.get_running_loop().remove_reader(lifeline)
                app.state.console.ending.set()  # nobody waits for who watches a live tail
                server.should_exit = True

        os.set_blocking(lifeline, False)
        asyncio.get_running_loop().add_reader(lifeline, heard)
    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(tls.run())] if tls is not None else []
        await server.serve(sockets=[listening])
        for task in following:
            task.cancel()
