"""Clients that reset: nothing of them stays, whichever loop serves them, and what they sent before is served."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import weakref

import pytest
import uvloop

from kavka.model.clock import SystemClock
from kavka.net import connection as connection_module
from kavka.net.buffers import SHARED_BUFFER_BYTES, ReceiveBuffers
from kavka.net.limits import ConnectionLimits
from kavka.net.responses import PENDING
from kavka.net.server import Server, SocketOptions, bind

CLIENTS = 200
FREE_WITHIN_SECONDS = 2
LARGE_FRAME = 16 << 20
ANSWER_BYTES = 1 << 20
SENT_BYTES = 64 << 10
"""How much of its answer a client that does not read is sent."""


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Buffer(bytearray):
    """One that can be watched."""


@pytest.fixture
def buffers(monkeypatch):
    """The buffers of large frames that are still held."""
    taken = []
    take = ReceiveBuffers.take

    def watched(self):
        buffer = Buffer(take(self))
        taken.append(weakref.ref(buffer))
        return buffer

    monkeypatch.setattr(ReceiveBuffers, "take", watched)
    return lambda: sum(reference() is not None for reference in taken)


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request):
    def go(test):
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(test, 30))

    return go


@contextlib.asynccontextmanager
async def serving(dispatch):
    options = SocketOptions(send_buffer_bytes=SENT_BYTES, backlog=CLIENTS)
    listener = bind("PLAINTEXT", "127.0.0.1", 0, options)
    server = Server([listener], dispatch, ConnectionLimits(queued_bytes=1 << 30), options, SystemClock())
    task = asyncio.ensure_future(server.run())
    await asyncio.sleep(0)
    try:
        yield server, listener.port
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def connect(port):
    """A client whose close is a reset."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return sock


async def send(client, data):
    client.setblocking(False)
    await asyncio.get_running_loop().sock_sendall(client, data)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


async def until(condition):
    while not condition():
        await asyncio.sleep(0.002)


def test_clients_that_reset_within_a_large_frame_leave_nothing_behind(run, buffers):
    async def test():
        async with serving(lambda *_: frame(b"unread")) as (server, port):
            before = descriptors()
            clients = [connect(port) for _ in range(CLIENTS)]
            for client in clients:
                await send(client, frame(b"?") + struct.pack(">i", LARGE_FRAME) + bytes(SHARED_BUFFER_BYTES))
            await until(lambda: buffers() == CLIENTS)
            for client in clients:
                client.send(bytes(1000))
                client.close()
            async with asyncio.timeout(FREE_WITHIN_SECONDS):
                await until(lambda: not server.connections and descriptors() <= before and not buffers())

    run(test())


def test_clients_that_reset_with_unread_answers_leave_nothing_behind(run):
    served = []
    answer = frame(bytes(ANSWER_BYTES))

    def dispatch(connection, buffer, start, end):
        served.append(connection.session.id)
        return answer

    async def test():
        async with serving(dispatch) as (server, port):
            before = descriptors()
            clients = [connect(port) for _ in range(CLIENTS)]
            for client in clients:
                client.sendall(frame(b"?") * 2)  # the second is behind what the first is not sent of
            await until(lambda: len(set(served)) == len(clients))
            for client in clients:
                client.sendall(frame(b"?"))
                client.close()
            async with asyncio.timeout(FREE_WITHIN_SECONDS):
                await until(lambda: not server.connections and descriptors() <= before)

    run(test())


def test_a_client_that_resets_while_its_request_waits_is_not_waited_for(run):
    slots = []

    def dispatch(connection, buffer, start, end):
        slots.append(connection.open_slot(exclusive=True))
        return PENDING

    async def test():
        async with serving(dispatch) as (server, port):
            client = connect(port)
            client.sendall(frame(b"parked"))
            await until(lambda: slots)
            client.close()
            async with asyncio.timeout(FREE_WITHIN_SECONDS):
                await until(lambda: slots[0].closed and not server.connections)

    run(test())


def test_what_a_client_sent_before_it_reset_is_served(run, monkeypatch):
    monkeypatch.setattr(connection_module, "TURN_SECONDS", 0)  # and the others have their turn in between
    served = 0

    def dispatch(connection, buffer, start, end):
        nonlocal served
        served += 1

    async def test():
        async with serving(dispatch) as (server, port):
            client = connect(port)
            await until(lambda: server.connections)
            client.sendall(frame(bytes(36)) * 1000)
            client.close()
            async with asyncio.timeout(FREE_WITHIN_SECONDS):
                await until(lambda: not server.connections)
            assert served == 1000

    run(test())
