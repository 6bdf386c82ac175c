"""How a connection ends: what is owed is sent first, nothing stays pinned or blocked, and nobody else is hurt."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import threading

import pytest

from kavka.model.clock import ManualClock, SystemClock
from kavka.model.errors import MalformedMessage
from kavka.model.types import FileSlice
from kavka.net import page_cache
from kavka.net.limits import ConnectionLimits
from kavka.net.plain import SMALL_SLICE_BYTES
from kavka.net.responses import PENDING
from kavka.net.server import Server, SocketOptions, bind

LARGE = SMALL_SLICE_BYTES + 1


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class OpenFile:
    """A pinned file that counts its pins; opening it may fail."""

    def __init__(self, path, broken=False):
        self._fd = os.open(path, os.O_RDONLY)
        self.pins = 0
        self.broken = broken

    def fileno(self):
        return self._fd

    def pin(self):
        if self.broken:
            raise FileNotFoundError(2, "the file was removed")
        self.pins += 1

    def unpin(self):
        self.pins -= 1

    def read_at(self, position, length):
        raise AssertionError("it is sent, not read")


class Script:
    """A dispatcher: `slow` opens a slot, `alone` an exclusive one, `bad` and `fault` raise; the rest is echoed."""

    def __init__(self):
        self.slots = []
        self.served = []

    def __call__(self, connection, buffer, start, end):
        body = bytes(buffer[start:end])
        self.served.append(body)
        match body:
            case b"slow" | b"alone":
                self.slots.append(connection.open_slot(exclusive=body == b"alone"))
                return PENDING
            case b"bad":
                raise MalformedMessage("bad")
            case b"fault":
                raise ZeroDivisionError("ours")
        return [frame(body)]

    async def until(self, count):
        while len(self.slots) < count:
            await asyncio.sleep(0.001)


class Serving:
    """A server, its port, and clients that are closed in the end."""

    def __init__(self, server, port):
        self.server = server
        self.port = port
        self._writers = []

    async def client(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        return reader, writer

    def close(self):
        for writer in self._writers:
            writer.close()


@contextlib.asynccontextmanager
async def serving(dispatch, *, clock=None, **limits):
    listener = bind("PLAINTEXT", "127.0.0.1", 0, SocketOptions())
    server = Server([listener], dispatch, ConnectionLimits(**limits), SocketOptions(), clock or SystemClock())
    task = asyncio.ensure_future(server.run())
    await asyncio.sleep(0)
    it = Serving(server, listener.port)
    try:
        yield it
    finally:
        it.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def run(test):
    asyncio.run(asyncio.wait_for(test(), 20))


async def everything(reader):
    """The bodies of all frames up to the end of the stream."""
    data = await reader.read()
    bodies = []
    while data:
        (size,) = struct.unpack_from(">i", data)
        bodies.append(data[4 : 4 + size])
        data = data[4 + size :]
    return bodies


@pytest.mark.parametrize("last", [b"bad", b"fault"])
def test_requests_before_one_that_cannot_be_served_are_answered_first(last, caplog):
    async def test():
        script = Script()
        async with serving(script) as it:
            reader, writer = await it.client()
            writer.write(frame(b"one") + frame(b"slow") + frame(b"two") + frame(last) + frame(b"never"))
            await script.until(1)
            script.slots[0].answer([frame(b"late")])
            assert await everything(reader) == [b"one", b"late", b"two"]
            assert b"never" not in script.served
            assert not it.server.connections

    run(test)
    assert ("ZeroDivisionError" in caplog.text) == (last == b"fault")


def test_a_fault_while_serving_held_requests_does_not_reach_whoever_answered(caplog):
    async def test():
        script = Script()
        async with serving(script) as it:
            reader, writer = await it.client()
            writer.write(frame(b"alone") + frame(b"fault"))
            await script.until(1)
            script.slots[0].answer([frame(b"late")])  # raises nothing here
            assert await everything(reader) == [b"late"]

    run(test)
    assert "ZeroDivisionError" in caplog.text


def test_a_client_that_has_said_all_still_gets_its_answers():
    async def test():
        script = Script()
        async with serving(script) as it:
            reader, writer = await it.client()
            writer.write(frame(b"slow") + frame(b"two"))
            writer.write_eof()
            await script.until(1)
            await asyncio.sleep(0.02)
            script.slots[0].answer([frame(b"late")])
            assert await everything(reader) == [b"late", b"two"]
            assert not it.server.connections

    run(test)


def test_an_aborted_answer_closes_after_what_was_owed_before_it():
    async def test():
        script = Script()
        async with serving(script) as it:
            reader, writer = await it.client()
            writer.write(frame(b"slow") + frame(b"alone") + frame(b"never"))
            await script.until(2)
            script.slots[1].abort()
            script.slots[0].answer([frame(b"late")])
            assert await everything(reader) == [b"late"]
            assert b"never" not in script.served

    run(test)


@pytest.mark.parametrize("later", [False, True])
def test_a_file_that_cannot_be_opened_any_more_closes_the_connection(tmp_path, later):
    (tmp_path / "segment").write_bytes(b"x" * 100)
    good, gone = OpenFile(tmp_path / "segment"), OpenFile(tmp_path / "segment", broken=True)
    answer = [struct.pack(">i", 20), FileSlice(good, 0, 10), FileSlice(gone, 0, 10)]
    slots = []

    def dispatch(connection, buffer, start, end):
        if not later:
            return answer
        slots.append(connection.open_slot(exclusive=True))
        return PENDING

    async def test():
        async with serving(dispatch) as it:
            reader, writer = await it.client()
            writer.write(frame(b"x"))
            if later:
                while not slots:
                    await asyncio.sleep(0.001)
                slots[0].answer(answer)
            assert await reader.read() == b""
            assert good.pins == 0
            assert not it.server.connections

    run(test)


def test_a_connection_that_closes_while_its_file_is_warmed_lets_go_of_the_file(tmp_path, monkeypatch):
    (tmp_path / "segment").write_bytes(b"x" * LARGE)
    file = OpenFile(tmp_path / "segment")
    warming, go_on = threading.Event(), threading.Event()

    def warm(fd, position, length):
        warming.set()
        go_on.wait(10)
        raise OSError(5, "injected")

    monkeypatch.setattr(page_cache, "cached", lambda *_: False)
    monkeypatch.setattr(page_cache, "warm", warm)

    async def test():
        async with serving(lambda *_: [struct.pack(">i", LARGE), FileSlice(file, 0, LARGE)]) as it:
            _, writer = await it.client()
            writer.write(frame(b"x"))
            while not warming.is_set():
                await asyncio.sleep(0.001)
            assert file.pins == 2
            for connection in list(it.server.connections.values()):
                connection.close()
            assert file.pins == 1
            go_on.set()
            while file.pins:
                await asyncio.sleep(0.001)

    run(test)


def test_what_is_sent_before_a_range_that_is_warmed_is_not_held_back(tmp_path, monkeypatch):
    (tmp_path / "segment").write_bytes(b"x" * (LARGE + 1))
    file = OpenFile(tmp_path / "segment")
    warming, go_on = threading.Event(), threading.Event()

    def warm(fd, position, length):
        warming.set()
        go_on.wait(10)

    monkeypatch.setattr(page_cache, "cached", lambda fd, position, length: position == 0)
    monkeypatch.setattr(page_cache, "warm", warm)

    def dispatch(connection, buffer, start, end):
        return [struct.pack(">i", LARGE + 1), FileSlice(file, buffer[start], LARGE), b"!"]

    expected = struct.pack(">i", LARGE + 1) + b"x" * LARGE + b"!"

    async def test():
        async with serving(dispatch) as it:
            reader, writer = await it.client()
            writer.write(frame(bytes([0])) + frame(bytes([1])))
            while not warming.is_set():
                await asyncio.sleep(0.001)
            (connection,) = it.server.connections.values()
            with socket.socket(fileno=os.dup(connection.transport.fd)) as same:
                assert same.getsockopt(socket.IPPROTO_TCP, socket.TCP_CORK) == 0
            assert await reader.readexactly(len(expected)) == expected
            go_on.set()
            assert await reader.readexactly(len(expected)) == expected
            assert file.pins == 0

    run(test)


def test_a_range_that_cannot_be_warmed_is_sent_as_far_as_it_goes(tmp_path, monkeypatch, caplog):
    (tmp_path / "segment").write_bytes(b"x" * LARGE)
    file = OpenFile(tmp_path / "segment")

    def warm(fd, position, length):
        raise OSError(5, "injected")

    monkeypatch.setattr(page_cache, "cached", lambda *_: False)
    monkeypatch.setattr(page_cache, "warm", warm)

    async def test():
        async with serving(lambda *_: [struct.pack(">i", LARGE), FileSlice(file, 0, LARGE)]) as it:
            reader, writer = await it.client()
            writer.write(frame(b"x"))
            assert await reader.readexactly(4 + LARGE) == struct.pack(">i", LARGE) + b"x" * LARGE
            assert file.pins == 0

    run(test)
    assert "never retrieved" not in caplog.text


def test_one_client_cannot_open_answers_without_end():
    async def test():
        script = Script()
        async with serving(script) as it:
            reader, writer = await it.client()
            writer.write(frame(b"slow") * 20_000)
            await asyncio.sleep(0.1)
            assert len(script.slots) < 5_000
            answered = 0
            while answered < 20_000:
                await script.until(answered + 1)
                for slot in script.slots[answered:]:
                    slot.answer([frame(b"ok")])
                    answered += 1
            assert await reader.readexactly(20_000 * 6) == frame(b"ok") * 20_000

    run(test)


def test_a_request_that_waits_longer_than_a_connection_may_be_silent_is_given_up():
    async def test():
        clock, script = ManualClock(), Script()
        async with serving(script, clock=clock, idle_ms=2_000) as it:
            reader, writer = await it.client()
            writer.write(frame(b"alone"))
            await script.until(1)
            ended = asyncio.ensure_future(reader.read())
            while not ended.done():
                clock.advance(1_000)
                await asyncio.sleep(0.2)
            assert script.slots[0].closed

    run(test)


def test_draining_answers_what_was_asked_and_serves_nobody_new():
    async def test():
        script = Script()
        async with serving(script, total=2) as it:
            first, second = await it.client(), await it.client()
            first[1].write(frame(b"alone") + frame(b"held"))
            second[1].write(frame(b"one"))
            await script.until(1)
            assert await second[0].readexactly(7) == frame(b"one")
            third = await it.client()  # waits in the backlog: two are enough
            third[1].write(frame(b"new"))
            draining = asyncio.ensure_future(it.server.drain(5_000))
            assert await second[0].read() == b""
            await asyncio.sleep(0.05)
            script.slots[0].answer([frame(b"late")])
            assert await everything(first[0]) == [b"late", b"held"]
            await draining
            assert b"new" not in script.served

    run(test)


def test_a_client_that_resets_takes_nothing_with_it():
    async def test():
        script = Script()
        async with serving(script) as it:
            sock = socket.create_connection(("127.0.0.1", it.port))
            sock.sendall(frame(b"alone"))
            await script.until(1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
            script.slots[0].answer([frame(b"late")])
            while it.server.connections:
                await asyncio.sleep(0.001)
            reader, writer = await it.client()
            writer.write(frame(b"next"))
            assert await reader.readexactly(8) == frame(b"next")

    run(test)


def test_an_ipv4_client_of_an_ipv6_listener_counts_as_its_ipv4_address():
    try:
        listener = bind("PLAINTEXT", "::", 0, SocketOptions())
    except OSError:
        pytest.skip("no IPv6 here")

    async def test():
        limits = ConnectionLimits(per_host_overrides={"127.0.0.1": 0})
        server = Server([listener], Script(), limits, SocketOptions(), SystemClock())
        task = asyncio.ensure_future(server.run())
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        assert await reader.read() == b""
        writer.close()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    run(test)


def test_a_host_that_is_nowhere_is_one_clear_line():
    with pytest.raises(OSError, match=r"cannot listen on no\.such\.host\.invalid:0 \(PLAINTEXT\)"):
        bind("PLAINTEXT", "no.such.host.invalid", 0, SocketOptions())
