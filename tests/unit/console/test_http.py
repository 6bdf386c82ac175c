"""How many connections there may be, of those who are let in and of strangers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

import pytest

from kavka.console import http
from kavka.console.http import HttpConnection, HttpRequest, HttpResponse, HttpServing


class Wire:
    """A transport that has received something, and sends all at once."""

    busy = left = False
    received_bytes = sent_bytes = 0

    def __init__(self, received: bytes = b"") -> None:
        self.out: deque[Any] = deque()
        self.sent = b""
        self.received = received

    def open(self, owner: HttpConnection) -> None:
        if self.received:
            owner.on_readable()

    def receive_into(self, view: memoryview) -> int:
        view[: len(self.received)] = self.received
        return len(self.received)

    def flush(self) -> None:
        while self.out:
            self.sent += self.out.popleft()

    def read_on(self) -> None: ...

    def read_off(self) -> None: ...

    def close(self) -> None: ...


class Door:
    """Lets everybody in who asks, and answers nobody before it is told to."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.ready = asyncio.Event()

    async def let_in(self, connection: HttpConnection, headers: Mapping[str, str]) -> HttpResponse | None:
        return None

    async def respond(self, connection: HttpConnection, request: HttpRequest) -> HttpResponse:
        self.asked.set()
        await self.ready.wait()
        return HttpResponse(200, b"", "text/plain")


REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


def test_strangers_give_way_to_each_other_and_not_those_who_are_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_CLIENTS", 1)
    monkeypatch.setattr(http, "MAX_STRANGERS", 2)

    async def crowd() -> None:
        door = Door()
        serving = HttpServing(door, 1000)
        running = asyncio.create_task(serving.run())
        await asyncio.sleep(0)

        def connected(wire: Wire) -> HttpConnection:
            connection = serving.connect(None, wire, lambda _: None)
            connection.start()
            return connection

        inside = connected(Wire(REQUEST))
        await asyncio.wait_for(door.asked.wait(), 10)
        strangers = [connected(Wire()) for _ in range(3)]
        assert [each.closed for each in (inside, *strangers)] == [False, True, False, False]

        late = Wire(REQUEST)
        refused = connected(late)
        while not refused.closed:
            await asyncio.sleep(0.001)
        assert late.sent.startswith(b"HTTP/1.1 503 ")

        inside.close()  # its request is still being answered, but it takes no place
        assert not serving.clients
        assert len(serving.strangers) == 1
        running.cancel()
        await asyncio.wait({running})

    asyncio.run(crowd())
