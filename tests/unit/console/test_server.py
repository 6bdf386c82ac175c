"""The console's server with clients that do not behave."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from kavka.console import server
from kavka.console.settings import ConsoleSettings

ASK = b"GET /static/vendor/uplot/uPlot.iife.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_who_asks_for_nothing_or_takes_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.2)
    near, far = os.pipe()
    hung_up_on = []

    async def clients(port: int) -> None:
        silent_reader, silent = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(silent_reader.read(), 20) == b""
        hung_up_on.append("silent")
        silent.close()
        half_reader, half = await asyncio.open_connection("127.0.0.1", port)
        half.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200" in await half_reader.readline()
        half.write(b"G")  # and nothing more of the next
        assert (await asyncio.wait_for(half_reader.read(), 20)).endswith(b"ok\n")
        hung_up_on.append("half")
        half.close()
        stuck = socket.create_connection(("127.0.0.1", port))
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.setblocking(False)
        loop = asyncio.get_running_loop()
        gone = False
        while not gone:  # ask and ask, and take nothing of the answers
            try:
                await asyncio.wait_for(loop.sock_sendall(stuck, ASK * 50), 1)
            except TimeoutError:
                pass  # nobody takes it: the server waits for us
            except OSError:
                gone = True
        hung_up_on.append("stuck")
        stuck.close()
        os.close(far)

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
                tasks.create_task(clients(listening.getsockname()[1]))
                await server.run(ConsoleSettings("127.0.0.1:1"), listening, lifeline=near)

    asyncio.run(run())
    os.close(near)
    assert hung_up_on == ["silent", "half", "stuck"]
