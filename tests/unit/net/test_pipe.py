"""Connections without sockets: what a client in the same process gets is what one on a socket would get."""

from __future__ import annotations

import asyncio
import os
import struct
from collections import deque
from typing import Any

import pytest

from kavka.client.pipe import PipeDial
from kavka.model.clock import SystemClock
from kavka.model.errors import MalformedMessage, NetworkException
from kavka.model.types import FileSlice
from kavka.net.buffers import SHARED_BUFFER_BYTES
from kavka.net.limits import ConnectionLimits
from kavka.net.pipe import UPDATE_BYTES, WINDOW_BYTES, pipe
from kavka.net.responses import PENDING
from kavka.net.server import Server, SocketOptions

ADDRESS = ("simulated", 9092)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class File:
    """A file that no operating system knows."""

    def __init__(self, data):
        self.data = data
        self.pins = 0

    def read_at(self, position, length):
        return self.data[position : position + length]

    def pin(self):
        self.pins += 1

    def unpin(self):
        self.pins -= 1

    def fileno(self):
        raise AssertionError("it has no descriptor")


class Client(asyncio.BufferedProtocol):
    """Collects what comes."""

    def __init__(self):
        self._buffer = bytearray(1000)
        self.received = bytearray()
        self.lost = False
        self.on_news = asyncio.Event()

    def get_buffer(self, sizehint):
        return memoryview(self._buffer)

    def buffer_updated(self, count):
        self.received += self._buffer[:count]
        self.on_news.set()

    def connection_lost(self, error):
        self.lost = True
        self.on_news.set()

    async def until(self, condition):
        while not condition(self):
            self.on_news.clear()
            await self.on_news.wait()


class Network:
    """Carries what it is given when it is told to."""

    def __init__(self):
        self.under_way: deque[Any] = deque()

    def __call__(self, arrive):
        self.under_way.append(arrive)

    def deliver(self):
        while self.under_way:
            self.under_way.popleft()()


def serve(dispatch, **limits):
    return Server([], dispatch, ConnectionLimits(**limits), SocketOptions(), SystemClock())


def dial(server, **carries):
    return PipeDial(lambda *address: (server, "PLAINTEXT") if address == ADDRESS else None, **carries)


def echo(connection, buffer, start, end):
    return frame(bytes(buffer[start:end]))


def run(test):
    asyncio.run(asyncio.wait_for(test(), 20))


@pytest.mark.parametrize("size", [1, SHARED_BUFFER_BYTES, 5 << 20])
def test_frames_of_any_size_come_back_in_order(size):
    async def test():
        client = Client()
        transport = await dial(serve(echo)).dial(*ADDRESS, client)
        body = os.urandom(size)
        expected = frame(b"before") + frame(body) + frame(b"after")
        for at in range(0, len(expected), 100_000):
            transport.write(expected[at : at + 100_000])
        await client.until(lambda it: len(it.received) >= len(expected))
        assert client.received == expected

    run(test)


def test_slices_are_read_from_files_without_a_descriptor_and_unpinned():
    file = File(os.urandom(3 << 20))
    pieces = [struct.pack(">i", len(file.data) + 2), b"<", FileSlice(file, 0, len(file.data)), b">"]

    async def test():
        client = Client()
        transport = await dial(serve(lambda *_: pieces)).dial(*ADDRESS, client)
        transport.write(frame(b"?"))
        await client.until(lambda it: len(it.received) == 4 + 2 + len(file.data))
        assert client.received[4:] == b"<" + file.data + b">"
        assert file.pins == 0

    run(test)


def test_a_file_that_became_shorter_closes_the_connection():
    file = File(b"x" * 100)

    async def test():
        server, client = serve(lambda *_: [struct.pack(">i", 200), FileSlice(file, 0, 200)]), Client()
        transport = await dial(server).dial(*ADDRESS, client)
        transport.write(frame(b"?"))
        await client.until(lambda it: it.lost)
        assert file.pins == 0
        assert not server.connections

    run(test)


def test_no_more_is_under_way_than_the_window_and_one_piece():
    file = File(bytes(4 << 20))
    pieces = [struct.pack(">i", len(file.data)), FileSlice(file, 0, len(file.data))]

    async def test():
        server, client, network = serve(lambda *_: pieces), Client(), Network()
        transport = await dial(server, to_client=network).dial(*ADDRESS, client)
        transport.write(frame(b"?") * 2)
        while not network.under_way:
            await asyncio.sleep(0)
        (connection,) = server.connections.values()
        assert connection.transport.sent_bytes < 2 * WINDOW_BYTES
        while len(client.received) < 2 * (4 + len(file.data)):
            network.deliver()
            await asyncio.sleep(0)
        assert file.pins == 0

    run(test)


def test_answers_keep_their_order_and_requests_behind_a_parked_one_wait():
    slots, served = [], []

    def dispatch(connection, buffer, start, end):
        served.append(bytes(buffer[start:end]))
        if served[-1] == b"parked":
            slots.append(connection.open_slot(exclusive=True))
            return PENDING
        return frame(served[-1])

    async def test():
        client = Client()
        transport = await dial(serve(dispatch)).dial(*ADDRESS, client)
        transport.write(frame(b"parked"))
        transport.write(frame(b"behind"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert served == [b"parked"]
        slots[0].answer([frame(b"late")])
        await client.until(lambda it: len(it.received) == 8 + 10)
        assert client.received == frame(b"late") + frame(b"behind")

    run(test)


def test_a_client_that_is_gone_is_served_what_it_sent_before_and_forgotten():
    served = []

    async def test():
        server, client = serve(lambda connection, buffer, start, end: served.append(bytes(buffer[start:end]))), Client()
        transport = await dial(server).dial(*ADDRESS, client)
        transport.write(frame(b"last"))
        transport.abort()
        while server.connections:
            await asyncio.sleep(0)
        assert served == [b"last"]
        assert not client.lost  # it knows

    run(test)


def test_a_server_that_closes_tells_its_client_after_what_it_sent():
    def dispatch(connection, buffer, start, end):
        if buffer[start] == ord("!"):
            raise MalformedMessage("!")
        return echo(connection, buffer, start, end)

    async def test():
        client = Client()
        transport = await dial(serve(dispatch)).dial(*ADDRESS, client)
        transport.write(frame(b"good") + frame(b"!"))
        await client.until(lambda it: it.lost)
        assert client.received == frame(b"good")

    run(test)


def test_where_nobody_listens_or_the_share_is_used_up_nobody_connects():
    async def test():
        dialer = dial(serve(echo, per_host=1))
        await dialer.dial(*ADDRESS, Client())
        with pytest.raises(NetworkException, match="refused"):
            await dialer.dial(*ADDRESS, Client())
        with pytest.raises(NetworkException, match="nobody listens"):
            await dialer.dial("elsewhere", 1, Client())

    run(test)


def test_a_client_that_left_before_it_was_accepted_is_told_of_when_it_is():
    class Owner:
        hung_up = False

        def on_hang_up(self):
            self.hung_up = True

    async def scenario():
        client, end = pipe(Client())
        client.abort()
        await asyncio.sleep(0)
        owner = Owner()
        end.open(owner)
        await asyncio.sleep(0)
        return owner.hung_up

    assert asyncio.run(scenario())


def test_that_a_client_has_room_again_is_carried_as_its_bytes_are():
    async def scenario():
        network = Network()
        client, end = pipe(Client(), to_server=network)
        end._on_its_way = UPDATE_BYTES + 10
        client.arrived(bytes(UPDATE_BYTES - 10))
        assert not network.under_way  # it is told once in a while, not with every answer
        client.arrived(b"0123456789")
        before = end._on_its_way
        network.under_way.popleft()()
        return before, end._on_its_way

    assert asyncio.run(scenario()) == (UPDATE_BYTES + 10, 10)


def test_what_is_sent_together_arrives_together_up_to_the_next_file():
    async def scenario():
        network = Network()
        _, end = pipe(Client(), to_client=network)
        end.out.extend([b"head", bytearray(b"er"), FileSlice(File(b"records"), 0, 7), memoryview(b"tail")])
        end.flush()
        return [arrival.args[0] for arrival in network.under_way]

    assert asyncio.run(scenario()) == [b"header", b"records", b"tail"]
