"""A connection that is made to wait: its answer leaves at once, and nothing more is served or read for a while."""

from __future__ import annotations

import asyncio
import contextlib
import struct

from kavka.model.clock import SystemClock
from kavka.net.limits import ConnectionLimits
from kavka.net.responses import PENDING
from kavka.net.server import Server, SocketOptions, bind

AN_HOUR_MS = 3_600_000


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Script:
    """A dispatcher: a number mutes for so many milliseconds; `later` does when its answer comes."""

    def __init__(self):
        self.served = []
        self.slots = []

    def __call__(self, connection, buffer, start, end):
        body = bytes(buffer[start:end])
        self.served.append((body, asyncio.get_running_loop().time()))
        if body == b"later":
            self.slots.append((connection, connection.open_slot(exclusive=True)))
            return PENDING
        for throttle_ms in body.split():
            if throttle_ms.isdigit():
                connection.mute(int(throttle_ms))
        return frame(body)


@contextlib.asynccontextmanager
async def serving(script, **limits):
    listener = bind("PLAINTEXT", "127.0.0.1", 0, SocketOptions())
    server = Server([listener], script, ConnectionLimits(**limits), SocketOptions(), SystemClock())
    task = asyncio.ensure_future(server.run())
    await asyncio.sleep(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    try:
        yield server, reader, writer
    finally:
        writer.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def run(test):
    asyncio.run(asyncio.wait_for(test(), 20))


def test_the_answer_leaves_at_once_and_the_next_request_is_served_when_the_time_is_over():
    async def test():
        script = Script()
        async with serving(script) as (server, reader, writer):
            for together in (True, False):  # behind it in one read, and in a read of its own
                script.served.clear()
                writer.write(frame(b"50") + (frame(b"next") if together else b""))
                assert await reader.readexactly(6) == frame(b"50")
                (connection,) = server.connections.values()
                assert connection.muted
                assert len(script.served) == 1
                if not together:
                    writer.write(frame(b"next"))
                assert await reader.readexactly(8) == frame(b"next")
                assert not connection.muted
                (_, began), (_, served) = script.served
                assert served - began > 0.04

    run(test)


def test_of_two_times_the_longer_counts():
    async def test():
        script = Script()
        async with serving(script) as (_, reader, writer):
            for times in (b"60 20", b"20 60"):
                script.served.clear()
                writer.write(frame(times) + frame(b"next"))
                await reader.readexactly(4 + len(times) + 8)
                (_, began), (_, served) = script.served
                assert served - began > 0.05

    run(test)


def test_a_late_answer_can_be_followed_by_a_silence_too():
    async def test():
        script = Script()
        async with serving(script) as (_, reader, writer):
            writer.write(frame(b"later") + frame(b"next"))
            while not script.slots:
                await asyncio.sleep(0)
            connection, slot = script.slots[0]
            connection.mute(50)
            answered = asyncio.get_running_loop().time()
            slot.answer([frame(b"late")])
            assert await reader.readexactly(8) == frame(b"late")
            assert await reader.readexactly(8) == frame(b"next")
            assert script.served[-1][1] - answered > 0.04

    run(test)


def test_a_connection_that_waits_is_not_closed_as_idle():
    async def test():
        async with serving(Script(), idle_ms=1) as (server, reader, writer):
            (idle_reader, idle_writer) = await asyncio.open_connection(*writer.get_extra_info("peername"))
            writer.write(frame(b"%d" % AN_HOUR_MS))
            await reader.readexactly(4 + 7)
            assert await idle_reader.read() == b""
            (connection,) = server.connections.values()
            assert connection.muted
            idle_writer.close()

    run(test)


def test_a_connection_that_closes_while_it_waits_waits_no_more():
    async def test():
        async with serving(Script()) as (server, reader, writer):
            writer.write(frame(b"%d" % AN_HOUR_MS))
            await reader.readexactly(4 + 7)
            (connection,) = server.connections.values()
            connection.close()
            connection.mute(AN_HOUR_MS)
            assert not connection.muted

    run(test)


def test_a_client_that_leaves_while_it_waits_is_noticed():
    async def test():
        async with serving(Script(), idle_ms=1) as (server, reader, writer):
            writer.write(frame(b"%d" % AN_HOUR_MS))
            await reader.readexactly(4 + 7)
            writer.close()
            while server.connections:
                await asyncio.sleep(0.01)

    run(test)


def test_what_a_client_asked_before_it_left_is_served_all_the_same():
    async def test():
        script = Script()
        async with serving(script, idle_ms=1) as (server, reader, writer):
            writer.write(frame(b"2500"))
            await reader.readexactly(4 + 4)
            writer.write(frame(b"next"))
            writer.write_eof()
            assert await reader.read() == frame(b"next")
            assert not server.connections

    run(test)
