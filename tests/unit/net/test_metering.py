"""What is counted of the requests that one read brought: those that were served, each once."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct

import pytest

from kavka.model.clock import SystemClock
from kavka.model.errors import MalformedMessage
from kavka.net.limits import ConnectionLimits
from kavka.net.responses import PENDING
from kavka.net.server import Server, SocketOptions, bind

SIZE_BYTES = 4


def frame(body):
    return struct.pack(">i", len(body)) + body


class Tally:
    """A meter that takes note of how many bytes of requests it is told of, and how many have no answer."""

    on = True

    def __init__(self, rng):
        self.rng = rng
        self.bytes = self.requests = self.unanswered = 0

    def begin(self, connection, buffer, frames):
        if not self.rng.randrange(4):
            return None

        def counted(end, unanswered):
            served = sum(each_end <= end for _, each_end in frames)
            self.requests += served
            self.bytes += end - served * SIZE_BYTES
            self.unanswered += unanswered

        return counted


class Served:
    """A dispatcher that does what the requests say, and takes note of those that are counted together."""

    def __init__(self):
        self.bytes = self.requests = self.unanswered = 0
        self.bodies = []

    def __call__(self, connection, buffer, start, end):
        body = bytes(buffer[start:end])
        self.bodies.append(body)
        if connection.together:
            self.requests += 1
            self.bytes += end - start
            self.unanswered += body.startswith(b"none")
        if body.startswith(b"bad"):
            raise MalformedMessage("bad")
        if body.startswith(b"close"):
            connection.close()
        if body.startswith(b"mute"):
            connection.mute(1)
        if body.startswith(b"none"):
            return None
        if body.startswith(b"later"):
            slot = connection.open_slot(exclusive=True)
            asyncio.get_running_loop().call_soon(slot.answer, [frame(b"later")])
            return PENDING
        return frame(b"done")


@contextlib.asynccontextmanager
async def serving(dispatch, meter):
    listener = bind("PLAINTEXT", "127.0.0.1", 0, SocketOptions())
    server = Server([listener], dispatch, ConnectionLimits(), SocketOptions(), SystemClock(), meter=meter)
    task = asyncio.ensure_future(server.run())
    await asyncio.sleep(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("last", [b"bad", b"close", b"whole"])
def test_every_request_that_is_served_is_counted_once_however_it_comes_and_is_held_back(last, seed):
    rng = random.Random(seed)
    kinds = [b"now"] * 6 + [b"none", b"later", b"mute"]
    bodies = [rng.choice(kinds) + b"x" * rng.randrange(rng.choice((10, 10_000))) for _ in range(300)]
    served, meter = Served(), Tally(rng)

    async def test():
        async with serving(served, meter) as (reader, writer):
            left = b"".join(map(frame, [*bodies, last, *bodies[:20]]))
            eaten = asyncio.ensure_future(reader.read(-1))
            with contextlib.suppress(ConnectionError):
                while left:
                    size = rng.choice((rng.randrange(1, 50), rng.randrange(1, 100_000)))
                    writer.write(left[:size])
                    await writer.drain()
                    left = left[size:]
                writer.write_eof()
            with contextlib.suppress(ConnectionError):
                await eaten

    asyncio.run(asyncio.wait_for(test(), 30))
    expected = [*bodies, last]
    assert served.bodies == (expected if last != b"whole" else [*expected, *bodies[:20]])
    assert served.requests > 0
    assert (meter.requests, meter.bytes, meter.unanswered) == (served.requests, served.bytes, served.unanswered)
