"""How many connections there may be, of those who are let in and of strangers, and that who is refused hears of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

import pytest

from kavka.net import http
from kavka.net.http import HttpConnection, HttpRequest, HttpResponse, HttpServing, query_of
from kavka.net.session import Session
from kavka.net.transport import END, Owner


class Wire:
    """A transport that has received something, and sends all at once."""

    busy = left = False
    received_bytes = sent_bytes = 0

    def __init__(self, received: bytes = b"") -> None:
        self.out: deque[Any] = deque()
        self.sent = b""
        self.received = received

    def open(self, owner: Owner) -> None:
        self._owner = owner
        if self.received:
            owner.on_readable()

    def receive(self, data: bytes) -> None:
        self.received = data
        self._owner.on_readable()

    def receive_into(self, view: memoryview) -> int:
        view[: len(self.received)] = self.received
        return len(self.received) or END

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
            connection = serving.connect(Session(1, "REGISTRY", "127.0.0.1", 1), wire, lambda _: None)
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


def test_who_sends_too_much_has_the_answer_before_the_connection_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_FORGOTTEN_BYTES", 5000)

    async def refused(rest: list[bytes]) -> tuple[bytes, list[bool]]:
        serving = HttpServing(Door(), 1000)
        running = asyncio.create_task(serving.run())
        await asyncio.sleep(0)
        head = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100000\r\n\r\n"
        wire = Wire(head + bytes(2000))
        connection = serving.connect(Session(1, "REGISTRY", "127.0.0.1", 1), wire, lambda _: None)
        connection.start()
        closed = []
        for data in (None, *rest):
            if data is not None:
                wire.receive(data)
            for _ in range(10):
                await asyncio.sleep(0)
            closed.append(connection.closed)
        running.cancel()
        await asyncio.wait({running})
        return wire.sent, closed

    sent, closed = asyncio.run(refused([bytes(2000), bytes(2000), b""]))
    assert sent.startswith(b"HTTP/1.1 413 ")
    assert closed == [False, False, False, True]
    assert asyncio.run(refused([bytes(2500)] * 3))[1] == [False, False, False, True]


def test_strangers_hold_no_more_than_a_head_of_some_kilobytes_each() -> None:
    async def told(size: int) -> tuple[bytes, bool]:
        serving = HttpServing(Door(), 1000)
        running = asyncio.create_task(serving.run())
        await asyncio.sleep(0)
        wire = Wire(b"GET / HTTP/1.1\r\nHost: here\r\nAuthorization: ".ljust(size, b"x"))
        connection = serving.connect(Session(1, "REGISTRY", "127.0.0.1", 1), wire, lambda _: None)
        connection.start()
        for _ in range(10):
            await asyncio.sleep(0)
        closed = connection.closed
        running.cancel()
        await asyncio.wait({running})
        return wire.sent, closed

    assert asyncio.run(told(17 * 1024)) == (b"", False)  # there may be a long token in it
    sent, closed = asyncio.run(told(32 * 1024))
    assert sent.startswith(b"HTTP/1.1 431 ")
    assert closed
    assert http.MAX_STRANGERS * 4 * http.MAX_HEAD_BYTES <= 50_000_000


def test_the_values_of_a_parameter_that_comes_several_times_are_lines() -> None:
    assert query_of("key=a&value=1&key=b&value=2,3&empty=") == {"key": "a\nb", "value": "1\n2,3", "empty": ""}
    assert query_of("") == {}
