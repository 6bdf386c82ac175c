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

MOST_CONNECTIONS: Final = 300
HEAD_BYTES: Final = 32 * 1024
KEEP_ALIVE_SECONDS: Final = 20
FIRST_REQUEST_SECONDS: Final = 20.0
END_SECONDS: Final = 2


class PatientProtocol(H11Protocol):
    """HTTP/1.1 for clients that ask for something before long."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self.loop.call_later(FIRST_REQUEST_SECONDS, self._hang_up_if_silent)

    def _hang_up_if_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.abort()


def serve(settings: ConsoleSettings, listening: socket.socket, lifeline: int | None = None) -> None:
    """Serve until told to stop, or until nobody holds the other end of the lifeline."""
    uvloop.run(run(settings, listening, lifeline))


async def run(settings: ConsoleSettings, listening: socket.socket, lifeline: int | None = None) -> None:
    """As `serve`, in a loop that runs."""
    config = uvicorn.Config(
        make_app(settings, listening.getsockname()[0]),
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
    if lifeline is not None:

        def heard() -> None:
            if not os.read(lifeline, 4096):
                asyncio.get_running_loop().remove_reader(lifeline)
                server.should_exit = True

        os.set_blocking(lifeline, False)
        asyncio.get_running_loop().add_reader(lifeline, heard)
    await server.serve(sockets=[listening])
