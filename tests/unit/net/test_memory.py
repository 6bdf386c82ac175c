"""One budget for what clients hold: who waits, who goes first, who has to go."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable

import pytest

from kavka.model.clock import SystemClock
from kavka.net import memory as memory_module
from kavka.net.buffers import SCARCE_BYTES, SHARED_BUFFER_BYTES
from kavka.net.connection import Connection
from kavka.net.limits import ConnectionLimits
from kavka.net.memory import MOVES_BYTES, RequestMemory
from kavka.net.responses import PENDING, Pending, Slot
from kavka.net.server import Server, SocketOptions, bind

MIB = 1 << 20
PRODUCE = b"\0\0"


class Client:
    """Somebody who holds memory."""

    def __init__(self, memory: RequestMemory, *, serving: bool = False) -> None:
        self.moved_bytes = 0
        self.since = memory.tick()
        self.serving = serving
        self.closed = False
        self._memory = memory

    def close(self) -> None:
        self.closed = True
        self._memory.forget(self)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks that do not keep the tests waiting."""
    monkeypatch.setattr(memory_module, "LOOK_SECONDS", 0.05)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


def test_a_large_frame_waits_for_its_share_and_the_smallest_wish_is_the_first() -> None:
    async def test() -> None:
        memory, order = RequestMemory(100), list[str]()
        first, large, small = (Client(memory, serving=True) for _ in range(3))
        memory.hold(first, 70)
        assert not memory.has_room(large, 20)
        memory.wait(large, 20, lambda: order.append("large"))
        memory.wait(small, 10, lambda: order.append("small"))
        memory.release(first, 70)
        await until(lambda: len(order) == 2)
        assert order == ["small", "large"]
        assert memory.waits == 2

    asyncio.run(test())


def test_the_only_large_frame_has_room_however_large_it_is() -> None:
    memory = RequestMemory(100)
    assert memory.has_room(Client(memory), 1000)


def test_it_is_said_when_all_is_used_and_when_it_no_longer_is() -> None:
    async def test() -> None:
        said: list[bool] = []
        memory = RequestMemory(100, said.append)
        client = Client(memory, serving=True)
        memory.hold(client, 101)
        memory.release(client, 1)
        assert said == [True, False]

    asyncio.run(test())


def test_who_stands_still_is_closed_for_who_waits_and_who_moves_is_not() -> None:
    async def test() -> None:
        memory, woken = RequestMemory(100), asyncio.Event()
        still, moving, waiting = Client(memory), Client(memory), Client(memory)
        memory.hold(still, 40)
        memory.hold(moving, 30)
        memory.wait(waiting, 40, woken.set)
        while not woken.is_set():
            moving.moved_bytes += MOVES_BYTES
            await asyncio.sleep(0)
        assert still.closed
        assert not moving.closed
        assert memory.closed == 1

    asyncio.run(test())


def test_a_request_that_is_served_does_not_stand_still() -> None:
    async def test() -> None:
        memory, woken = RequestMemory(100), asyncio.Event()
        served, still = Client(memory, serving=True), Client(memory)
        memory.hold(served, 40)
        memory.hold(still, 35)
        memory.wait(Client(memory), 20, woken.set)
        await until(woken.is_set)
        assert still.closed
        assert not served.closed

    asyncio.run(test())


def test_where_all_wait_for_each_other_the_first_gives_way() -> None:
    async def test() -> None:
        memory, woken = RequestMemory(100), list[int]()
        clients = [Client(memory) for _ in range(3)]
        for number, client in enumerate(clients):
            memory.hold(client, 25)
            memory.wait(client, 25, lambda number=number: woken.append(number))  # type: ignore[misc]
        await until(lambda: bool(woken))
        assert [client.closed for client in clients] == [True, False, False]

    asyncio.run(test())


def test_who_is_gone_holds_nothing_and_waits_for_nothing() -> None:
    async def test() -> None:
        memory = RequestMemory(100)
        client = Client(memory)
        memory.hold(client, 80)
        memory.wait(client, 80, lambda: pytest.fail("nobody is there"))
        memory.forget(client)
        await asyncio.sleep(0.02)
        assert memory.held == 0

    asyncio.run(test())


# -- on connections -------------------------------------------------------------------------------


def serve(limits: ConnectionLimits, test: Callable[[Server, int], Awaitable[None]]) -> list[int]:
    """Run a test against a server that answers with the size of each frame; the sizes that it served."""
    served: list[int] = []

    def sizes(connection: Connection, buffer: memoryview, start: int, end: int) -> bytes:
        served.append(end - start)
        return struct.pack(">ii", 4, end - start)

    async def run() -> None:
        listener = bind("PLAINTEXT", "127.0.0.1", 0, SocketOptions(backlog=200))
        server = Server([listener], sizes, limits, SocketOptions(), SystemClock())
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.run())
            await asyncio.sleep(0)
            await test(server, listener.port)
            serving.cancel()

    asyncio.run(run())
    return served


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port)


def announced(size: int) -> bytes:
    return struct.pack(">i", size) + PRODUCE


def test_many_unfinished_frames_stay_within_the_budget_and_a_finished_one_is_served() -> None:
    limits = ConnectionLimits(queued_bytes=8 * MIB)

    async def test(server: Server, port: int) -> None:
        attackers = [socket.create_connection(("127.0.0.1", port)) for _ in range(30)]
        for attacker in attackers:
            attacker.setblocking(False)
            with memoryview(announced(20 * MIB) + bytes(2 * MIB)) as data:
                sent = 0
                while sent < len(data):
                    try:
                        sent += attacker.send(data[sent:])
                    except BlockingIOError:
                        break
            await asyncio.sleep(0)
        await until(lambda: server.memory.waits > 0)
        assert server.memory.held <= 8 * MIB + 30 * SHARED_BUFFER_BYTES
        reader, writer = await connect(port)
        writer.write(announced(3 * MIB) + bytes(3 * MIB - 2))
        answer = await asyncio.wait_for(reader.readexactly(8), 30)
        assert answer == struct.pack(">ii", 4, 3 * MIB)
        assert server.memory.closed > 0
        writer.close()
        for attacker in attackers:
            attacker.close()
        await until(lambda: not server.connections)
        assert server.memory.held == 0

    assert serve(limits, test) == [3 * MIB]


def test_where_memory_is_scarce_little_is_received_at_once_and_small_requests_are_served() -> None:
    limits = ConnectionLimits(queued_bytes=8 * MIB)

    async def test(server: Server, port: int) -> None:
        holder = Client(server.memory, serving=True)
        server.memory.hold(holder, 9 * MIB)
        reader, writer = await connect(port)
        writer.write(announced(10 * SCARCE_BYTES) + bytes(3 * SCARCE_BYTES))
        await until(lambda: server.memory.waits > 0)
        assert server.memory.held <= 9 * MIB + SCARCE_BYTES
        other, ask = await connect(port)
        ask.write(announced(100) + bytes(98))
        assert await asyncio.wait_for(other.readexactly(8), 30) == struct.pack(">ii", 4, 100)
        server.memory.forget(holder)
        writer.write(bytes(7 * SCARCE_BYTES - 2))
        assert await asyncio.wait_for(reader.readexactly(8), 30) == struct.pack(">ii", 4, 10 * SCARCE_BYTES)
        writer.close()
        ask.close()

    assert serve(limits, test) == [100, 10 * SCARCE_BYTES]


def test_a_frame_larger_than_its_api_may_have_is_not_received() -> None:
    limits = ConnectionLimits(cap_of=lambda key: 100 * MIB if key == 0 else MIB)

    async def test(server: Server, port: int) -> None:
        reader, writer = await connect(port)
        writer.write(struct.pack(">ih", 2 * MIB, 3) + bytes(100))
        assert await asyncio.wait_for(reader.read(), 30) == b""
        writer.close()
        reader, writer = await connect(port)
        writer.write(announced(2 * MIB) + bytes(2 * MIB - 2))
        await asyncio.wait_for(reader.readexactly(8), 30)
        writer.close()

    assert serve(limits, test) == [2 * MIB]


def test_a_size_alone_is_no_reason_to_refuse_yet() -> None:
    limits = ConnectionLimits(cap_of=lambda key: MIB)

    async def test(server: Server, port: int) -> None:
        reader, writer = await connect(port)
        for part in (struct.pack(">i", MIB), b"\0", b"\3" + bytes(MIB - 2)):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        assert await asyncio.wait_for(reader.readexactly(8), 30) == struct.pack(">ii", 4, MIB)
        writer.close()

    assert serve(limits, test) == [MIB]


def test_answers_that_nobody_takes_are_counted_and_given_up() -> None:
    limits = ConnectionLimits(queued_bytes=8 * MIB)

    async def run() -> None:
        listener = bind("PLAINTEXT", "127.0.0.1", 0, SocketOptions(send_buffer_bytes=64 << 10))
        body = bytes(6 * MIB)
        answer = struct.pack(">i", len(body)) + body
        server = Server(
            [listener], lambda connection, buffer, start, end: answer, limits, SocketOptions(), SystemClock()
        )
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.run())
            await asyncio.sleep(0)
            clients = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(4)]
            for client in clients:
                client.sendall(struct.pack(">i", 1) + b"?")
            await until(lambda: server.memory.closed > 0)
            await until(lambda: server.memory.held <= 8 * MIB)
            for client in clients:
                client.close()
            await until(lambda: not server.connections)
            assert server.memory.held == 0
            serving.cancel()

    asyncio.run(run())


def test_so_are_answers_that_come_late() -> None:
    limits = ConnectionLimits(queued_bytes=64 * MIB)
    slots: list[Slot] = []

    def later(connection: Connection, buffer: memoryview, start: int, end: int) -> Pending:
        slots.append(connection.open_slot(exclusive=True))
        return PENDING

    async def run() -> None:
        listener = bind("PLAINTEXT", "127.0.0.1", 0, SocketOptions())
        server = Server([listener], later, limits, SocketOptions(), SystemClock())
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.run())
            await asyncio.sleep(0)
            with socket.create_connection(("127.0.0.1", listener.port)) as client:
                client.sendall(struct.pack(">i", 1) + b"?")
                await until(lambda: bool(slots))
                slots[0].answer([struct.pack(">i", 40 * MIB), bytes(40 * MIB)])
                assert server.memory.held >= 40 * MIB
            await until(lambda: not server.connections)
            assert server.memory.held == 0
            serving.cancel()

    asyncio.run(run())
