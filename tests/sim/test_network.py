"""The simulated network: connections keep their order, partings hold things up, ends are heard of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from kavka.model.errors import NetworkException
from kavka.net.connection import Connection
from kavka.net.limits import ConnectionLimits
from kavka.net.server import Server, SocketOptions
from kavka.testing.sim.machine import Process
from kavka.testing.sim.network import Network, SimDial
from kavka.testing.sim.world import World

PORT = 9092


class Received(asyncio.BufferedProtocol):
    """What came for a client."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.lost = False
        self._buffer = bytearray(64)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self._buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


def echo(connection: Connection, buffer: memoryview, start: int, end: int) -> bytes:
    return bytes(buffer[start - 4 : end])


class Pair:
    """A server and a client, each on a machine."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.network = Network(self.world)
        self.here = self.network.machine(1, "10.0.0.1")
        self.there = self.network.machine(2, "10.0.0.2")
        self.server = self.boot_server()

    def boot_server(self) -> Process:
        async def serve(process: Process) -> None:
            listener = self.network.listen(process, "PLAINTEXT", "10.0.0.2", PORT, SocketOptions())
            await Server([listener], echo, ConnectionLimits(), SocketOptions(), process).run()

        process = self.there.boot(serve, lambda error: None)
        self.network.join(process)
        return process

    def client(self, main: Callable[[SimDial], Coroutine[Any, Any, None]]) -> list[BaseException | None]:
        ends: list[BaseException | None] = []
        process = self.here.boot(lambda process: main(SimDial(self.network, process)), ends.append)
        self.network.join(process)
        return ends


@pytest.fixture
def pair() -> Iterator[Pair]:
    with World(0) as world:
        yield Pair(world)


def frame(text: str) -> bytes:
    return len(text).to_bytes(4, "big") + text.encode()


def test_what_is_sent_arrives_in_order(pair: Pair) -> None:
    received = Received()
    pair.network.slow = 0.5

    async def main(dial: SimDial) -> None:
        transport = await dial.dial("10.0.0.2", PORT, received)
        for number in range(50):
            transport.write(frame(str(number)))
        await asyncio.sleep(60)

    pair.client(main)
    pair.world.run_until(50)
    assert bytes(received.data) == b"".join(frame(str(number)) for number in range(50))


def test_a_parting_holds_up_what_is_sent_until_it_heals(pair: Pair) -> None:
    received = Received()

    async def main(dial: SimDial) -> None:
        transport = await dial.dial("10.0.0.2", PORT, received)
        pair.network.part([pair.there], one_way=True)  # what it answers does not come back
        transport.write(frame("a"))
        await asyncio.sleep(60)

    pair.client(main)
    pair.world.run_until(5)
    assert not received.data
    pair.network.heal()
    pair.world.run_until(6)
    assert bytes(received.data) == frame("a")


def test_nobody_is_reached_where_nobody_listens(pair: Pair) -> None:
    async def main(dial: SimDial) -> None:
        with pytest.raises(NetworkException, match="refused"):
            await dial.dial("10.0.0.2", PORT + 1, Received())
        with pytest.raises(NetworkException, match="no such host"):
            await dial.dial("10.0.0.9", PORT, Received())

    ends = pair.client(main)
    pair.world.run_until(5)
    assert ends == [None]


@pytest.mark.parametrize("silent", [False, True])
def test_the_end_of_a_process_is_heard_of_at_once_or_when_its_machine_is_back(pair: Pair, silent: bool) -> None:
    received = Received()

    async def main(dial: SimDial) -> None:
        await dial.dial("10.0.0.2", PORT, received)
        await asyncio.sleep(60)

    pair.client(main)
    pair.world.run_until(1)
    pair.server.silent = silent
    pair.server.die()
    pair.world.run_until(2)
    assert received.lost is not silent
    pair.network.back(pair.there)
    pair.boot_server()
    pair.world.run_until(3)
    assert received.lost


def test_a_reset_ends_a_connection_on_both_sides(pair: Pair) -> None:
    received = Received()

    async def main(dial: SimDial) -> None:
        await dial.dial("10.0.0.2", PORT, received)
        await asyncio.sleep(60)

    pair.client(main)
    pair.world.run_until(1)
    pair.network.reset_some(1.0)
    pair.world.run_until(2)
    assert received.lost
