"""Connections that come too fast: none of them holds up anybody else."""

from __future__ import annotations

import asyncio

from kavka.model.clock import SystemClock
from kavka.net.limits import ConnectionLimits
from kavka.net.server import Server, SocketOptions, bind
from kavka.security.quota.rate import Windows


def echo(connection, buffer, start, end):
    return b"\0\0\0\1" + bytes(buffer[start:end])


async def asked(port: int) -> bool:
    """Whether somebody answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"\0\0\0\1x")
        return await reader.read(5) == b"\0\0\0\1x"
    except ConnectionError:
        return False
    finally:
        writer.close()


async def until(state) -> None:
    async with asyncio.timeout(60):
        while not state():
            await asyncio.sleep(0.001)


def serving(work, limits: ConnectionLimits, names=("A",)) -> None:
    async def go() -> None:
        listeners = [bind(name, "127.0.0.1", 0, SocketOptions()) for name in names]
        server = Server(listeners, echo, limits, SocketOptions(), SystemClock())
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(server.run())
            async with asyncio.timeout(60):
                await work(server, *(listener.port for listener in listeners))
            running.cancel()

    asyncio.run(go())


def test_an_address_that_connects_too_fast_is_kept_waiting_and_closed_while_others_are_served():
    limits = ConnectionLimits(host_rates={"127.0.0.1": 1}, windows=Windows(2, 300))

    async def work(server: Server, port: int) -> None:
        answers = await asyncio.gather(*(asked(port) for _ in range(5)))
        assert answers.count(False) >= 4  # 0.3 connections are allowed in the one window that is sure to count
        assert server.turned_away == answers.count(False)
        server.limit(ConnectionLimits())
        assert await asked(port)

    serving(work, limits)


def test_a_listener_over_its_rate_waits_and_another_does_not():
    limits = ConnectionLimits(listener_rates={"A": 1}, windows=Windows(2, 100))

    async def work(server: Server, slow: int, other: int) -> None:
        waiting = asyncio.ensure_future(asked(slow))
        await until(lambda: server.delayed)
        assert await asked(other)
        assert await waiting  # in the end
        assert server.turned_away == 0

    serving(work, limits, ("A", "B"))


def test_who_is_still_waiting_when_the_server_stops_is_let_go():
    limits = ConnectionLimits(listener_rates={"A": 1}, windows=Windows(2, 100))

    async def work(server: Server, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: server.delayed)
        await server.drain(1)
        assert await reader.read() == b""
        writer.close()

    serving(work, limits)


def test_a_full_listener_takes_the_next_when_somebody_leaves():
    limits = ConnectionLimits(per_listener={"A": 1})

    async def work(server: Server, port: int, other: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: len(server.connections) == 1)
        second = asyncio.ensure_future(asked(port))
        assert await asked(other)
        assert not second.done()
        writer.close()
        assert await second
        assert await reader.read() == b""

    serving(work, limits, ("A", "B"))


def test_listeners_come_and_go():
    async def work(server: Server, port: int) -> None:
        added = bind("B", "127.0.0.1", 0, SocketOptions())
        server.listen(added)
        assert await asked(added.port)
        reader, writer = await asyncio.open_connection("127.0.0.1", added.port)
        writer.write(b"\0\0\0\1x")
        assert await reader.readexactly(5) == b"\0\0\0\1x"
        server.unlisten("B")
        assert await reader.read() == b""
        writer.close()
        assert await asked(port)
        bind("B", "127.0.0.1", added.port, SocketOptions()).socket.close()  # its port is free

    serving(work, ConnectionLimits())
