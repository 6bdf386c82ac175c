"""A real socket pair on a real loop, with a dispatcher that the test scripts."""

import asyncio
import contextlib
import os
import socket
import struct
import time

import pytest

from kavka.model.clock import SystemClock
from kavka.model.errors import MalformedMessage
from kavka.model.types import FileSlice
from kavka.net.buffers import SHARED_BUFFER_BYTES
from kavka.net.limits import ConnectionLimits
from kavka.net.responses import PENDING
from kavka.net.server import NOT_SENT_BYTES, AddressInUseError, Server, SocketOptions, bind


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class OpenFile:
    """A pinned file that counts its pins."""

    def __init__(self, path):
        self._fd = os.open(path, os.O_RDONLY)
        self.pins = 0

    def fileno(self):
        return self._fd

    def pin(self):
        self.pins += 1

    def unpin(self):
        self.pins -= 1

    def read_at(self, position, length):
        raise AssertionError("it is sent, not read")


@contextlib.asynccontextmanager
async def serving(dispatch, **limits):
    listener = bind("PLAINTEXT", "127.0.0.1", 0, SocketOptions())
    server = Server([listener], dispatch, ConnectionLimits(**limits), SocketOptions(), SystemClock())
    task = asyncio.ensure_future(server.run())
    await asyncio.sleep(0)
    try:
        yield server, listener.port
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def run(test):
    asyncio.run(asyncio.wait_for(test, 30))


def echo(connection, buffer, start, end):
    return [frame(bytes(buffer[start:end]))]


async def read_frames(reader, count):
    return [await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0]) for _ in range(count)]


def test_pipelined_requests_are_answered_in_order():
    async def test():
        async with serving(echo) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            bodies = [b"%d" % n * (n % 50 + 1) for n in range(500)]
            writer.write(b"".join(map(frame, bodies)))
            assert await read_frames(reader, 500) == bodies
            writer.close()

    run(test())


def test_a_frame_that_comes_byte_by_byte_is_served_once_whole():
    async def test():
        async with serving(echo) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for byte in frame(b"hello"):
                writer.write(bytes([byte]))
                await writer.drain()
            assert await read_frames(reader, 1) == [b"hello"]
            writer.close()

    run(test())


@pytest.mark.parametrize("size", [SHARED_BUFFER_BYTES - 4, SHARED_BUFFER_BYTES, 1 << 20, 5 << 20])
def test_frames_larger_than_the_shared_buffer_are_served(size):
    async def test():
        async with serving(echo) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            body = os.urandom(size)
            writer.write(frame(b"before") + frame(body) + frame(b"after"))
            assert await read_frames(reader, 3) == [b"before", body, b"after"]
            writer.close()

    run(test())


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_negative_or_oversized_frame_closes_the_connection(size):
    async def test():
        async with serving(echo, max_frame_bytes=1000) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(struct.pack(">i", size) + b"x" * 10)
            assert await reader.read() == b""
            assert not server.connections
            writer.close()

    run(test())


def test_a_dispatcher_that_cannot_read_a_frame_closes_only_that_connection():
    def dispatch(connection, buffer, start, end):
        if bytes(buffer[start:end]) == b"bad":
            raise MalformedMessage("bad")
        return echo(connection, buffer, start, end)

    async def test():
        async with serving(dispatch) as (_, port):
            good = await asyncio.open_connection("127.0.0.1", port)
            bad = await asyncio.open_connection("127.0.0.1", port)
            bad[1].write(frame(b"bad"))
            assert await bad[0].read() == b""
            good[1].write(frame(b"good"))
            assert await read_frames(good[0], 1) == [b"good"]
            for _, writer in (good, bad):
                writer.close()

    run(test())


def test_a_late_answer_keeps_its_place_and_holds_back_later_requests():
    slots, served = [], []

    def dispatch(connection, buffer, start, end):
        body = bytes(buffer[start:end])
        served.append(body)
        if body.startswith(b"slow"):
            slots.append(connection.open_slot(exclusive=body == b"slow-alone"))
            return PENDING
        return [frame(body)]

    async def test():
        async with serving(dispatch) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(b"slow") + frame(b"a") + frame(b"slow-alone") + frame(b"b"))
            while len(slots) < 2:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            assert served == [b"slow", b"a", b"slow-alone"]  # b waits behind the exclusive one
            slots[1].answer([frame(b"second")])
            slots[0].answer([frame(b"first")])
            assert await read_frames(reader, 4) == [b"first", b"a", b"second", b"b"]
            writer.close()

    run(test())


def test_whole_answers_keep_their_order_among_pieces_and_late_ones():
    slots = []

    def dispatch(connection, buffer, start, end):
        body = bytes(buffer[start:end])
        if body == b"slow":
            slots.append(connection.open_slot(exclusive=False))
            return PENDING
        if body == b"at once":  # opened and answered while the frame is served
            connection.open_slot(exclusive=False).answer([frame(body)])
            return PENDING
        if body == b"wake":
            slots.pop().answer([frame(b"slow")])
        return [frame(body[:3]), frame(body[3:])] if body.startswith(b"pieces") else frame(body)

    async def test():
        async with serving(dispatch) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            bodies = [b"a", b"b", b"at once", b"c", b"pieces", b"d", b"slow", b"e", b"f", b"wake", b"g", b"h"]
            writer.write(b"".join(map(frame, bodies)))
            expected = [b"a", b"b", b"at once", b"c", b"pie", b"ces", *bodies[5:]]
            assert await read_frames(reader, len(expected)) == expected
            writer.close()

    run(test())


def test_whole_answers_to_a_reader_that_stops_and_goes_on_are_sent_once_and_in_order():
    def dispatch(connection, buffer, start, end):
        return frame(bytes(buffer[start:end]) * 20_000)

    async def test():
        async with serving(dispatch) as (_, port):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            bodies = [b"%05d" % number for number in range(400)]
            received = bytearray()
            expected = b"".join(frame(body * 20_000) for body in bodies)
            for at in range(0, len(bodies), 20):
                await loop.sock_sendall(sock, b"".join(map(frame, bodies[at : at + 20])))
                await asyncio.sleep(0)
            while len(received) < len(expected):
                received += await loop.sock_recv(sock, 1 << 20)
            assert received == expected
            sock.close()

    run(test())


def test_an_answer_to_a_connection_that_is_gone_is_dropped():
    slots = []

    def dispatch(connection, buffer, start, end):
        slots.append(connection.open_slot(exclusive=True))
        return PENDING

    async def test():
        async with serving(dispatch) as (server, port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(b"x"))
            while not slots:
                await asyncio.sleep(0.001)
            for connection in list(server.connections.values()):
                connection.close()
            slots[0].answer([frame(b"late")])
            assert slots[0].closed
            writer.close()

    run(test())


def test_file_slices_are_sent_between_bytes_and_unpinned(tmp_path):
    data = os.urandom(3 << 20)
    path = tmp_path / "segment"
    path.write_bytes(data)
    file = OpenFile(path)

    def dispatch(connection, buffer, start, end):
        head = struct.pack(">i", 4 + 2 * len(data) - 10)
        return [head + b"ab", FileSlice(file, 0, len(data)), b"cd", FileSlice(file, 10, len(data) - 10)]

    async def test():
        async with serving(dispatch) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(b"x"))
            assert await read_frames(reader, 1) == [b"ab" + data + b"cd" + data[10:]]
            assert file.pins == 0
            writer.close()

    run(test())


DATA_SEGS_IN = struct.Struct("152xI")  # of Linux's struct tcp_info


@pytest.mark.parametrize("last", [b"", b"tail"])
def test_an_answer_with_a_file_comes_in_no_more_segments_than_it_needs(tmp_path, last):
    data = os.urandom(20_000)  # less than half of a new connection's window: the kernel cuts there
    path = tmp_path / "segment"
    path.write_bytes(data)
    file = OpenFile(path)

    def dispatch(connection, buffer, start, end):
        head = struct.pack(">i", len(data) + len(last))
        return [head, FileSlice(file, 0, len(data)), *([last] if last else [])]

    async def test():
        async with serving(dispatch) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            client = writer.get_extra_info("socket")
            for number in (1, 2):
                writer.write(frame(b"x"))
                assert await read_frames(reader, 1) == [data + last]
                info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, DATA_SEGS_IN.size)
                assert DATA_SEGS_IN.unpack(info) == (number,)
            writer.close()

    run(test())


def test_what_the_network_does_not_take_yet_stays_small():
    async def test():
        async with serving(echo) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(b"x"))
            await read_frames(reader, 1)
            (connection,) = server.connections.values()
            with socket.socket(fileno=os.dup(connection.transport.fd)) as same:
                assert same.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == NOT_SENT_BYTES
            writer.close()

    run(test())


def test_many_small_slices_leave_in_order_without_a_system_call_more_for_each(tmp_path, monkeypatch):
    data = os.urandom(100_000)
    path = tmp_path / "segment"
    path.write_bytes(data)
    file = OpenFile(path)
    pieces = [piece for at in range(0, 100_000, 100) for piece in (b"<%05d>" % at, FileSlice(file, at, 100))]
    expected = b"".join(b"<%05d>" % at + data[at : at + 100] for at in range(0, 100_000, 100))

    def dispatch(connection, buffer, start, end):
        return [struct.pack(">i", len(expected)), *pieces]

    def fail(*_):
        raise AssertionError("no sendfile for small slices")

    monkeypatch.setattr(os, "sendfile", fail)

    async def test():
        async with serving(dispatch) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(b"x"))
            assert await read_frames(reader, 1) == [expected]
            assert file.pins == 0
            writer.close()

    run(test())


def test_one_client_with_many_requests_at_once_lets_the_others_have_their_turn():
    served = []

    def dispatch(connection, buffer, start, end):
        served.append(connection.session.id)
        deadline = time.perf_counter() + 0.0005
        while time.perf_counter() < deadline:
            pass
        return [frame(b"ok")]

    async def test():
        async with serving(dispatch) as (_, port):
            hog = await asyncio.open_connection("127.0.0.1", port)
            other = await asyncio.open_connection("127.0.0.1", port)
            hog[1].write(frame(b"?") * 1000)
            other[1].write(frame(b"?"))
            assert await read_frames(other[0], 1) == [b"ok"]
            assert len(served) < 500
            assert await read_frames(hog[0], 1000) == [b"ok"] * 1000
            for _, writer in (hog, other):
                writer.close()

    run(test())


def test_a_file_that_became_shorter_closes_the_connection(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(b"x" * 100)
    file = OpenFile(path)

    def dispatch(connection, buffer, start, end):
        return [struct.pack(">i", 200), FileSlice(file, 0, 200)]

    async def test():
        async with serving(dispatch) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(b"x"))
            assert await reader.read() == struct.pack(">i", 200) + b"x" * 100
            assert file.pins == 0
            writer.close()

    run(test())


def test_a_reader_that_does_not_read_stops_being_served_until_it_does():
    body = b"x" * 100_000
    served = 0

    def dispatch(connection, buffer, start, end):
        nonlocal served
        served += 1
        return [frame(body)]

    async def test():
        async with serving(dispatch) as (_, port):
            sock = socket.create_connection(("127.0.0.1", port))
            sock.setblocking(False)
            loop = asyncio.get_running_loop()
            for _ in range(2000):
                await loop.sock_sendall(sock, frame(b"?"))
            await asyncio.sleep(0.05)
            stalled_at = served
            assert stalled_at < 200
            received = 0
            while received < 2000 * (len(body) + 4):
                received += len(await loop.sock_recv(sock, 1 << 20))
            assert served == 2000
            sock.close()

    run(test())


def test_answers_that_pile_up_behind_a_late_one_stop_the_reading():
    served, slots = 0, []

    def dispatch(connection, buffer, start, end):
        nonlocal served
        served += 1
        if not slots:
            slots.append(connection.open_slot(exclusive=False))
            return PENDING
        return [frame(b"x" * 100_000)]

    async def test():
        async with serving(dispatch) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in range(100):
                writer.write(frame(b"?"))
                await writer.drain()
            await asyncio.sleep(0.05)
            assert served < 20
            slots[0].answer([frame(b"first")])
            assert (await read_frames(reader, 100))[0] == b"first"
            writer.close()

    run(test())


def test_a_request_that_comes_while_another_is_parked_waits_without_keeping_the_loop_busy():
    served, slots = [], []

    def dispatch(connection, buffer, start, end):
        served.append(bytes(buffer[start:end]))
        if served[-1] == b"parked":
            slots.append(connection.open_slot(exclusive=True))
            return PENDING
        return [frame(served[-1])]

    async def test():
        async with serving(dispatch) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for turn in range(1, 4):
                writer.write(frame(b"parked"))
                while len(slots) < turn:
                    await asyncio.sleep(0.001)
                writer.write(frame(b"behind"))
                cpu = time.process_time()
                await asyncio.sleep(0.1)
                assert time.process_time() - cpu < 0.05
                assert served[-1] == b"parked"
                slots[-1].answer([frame(b"late")])
                assert await read_frames(reader, 2) == [b"late", b"behind"]
            writer.close()

    run(test())


def test_one_address_gets_its_share_and_the_rest_is_closed():
    async def test():
        async with serving(echo, per_host=1) as (_, port):
            first = await asyncio.open_connection("127.0.0.1", port)
            second = await asyncio.open_connection("127.0.0.1", port)
            assert await second[0].read() == b""
            first[1].write(frame(b"ok"))
            assert await read_frames(first[0], 1) == [b"ok"]
            for _, writer in (first, second):
                writer.close()

    run(test())


def test_over_the_total_newcomers_wait_until_somebody_leaves():
    async def test():
        async with serving(echo, total=1) as (_, port):
            first = await asyncio.open_connection("127.0.0.1", port)
            first[1].write(frame(b"1"))
            await read_frames(first[0], 1)
            second = await asyncio.open_connection("127.0.0.1", port)
            second[1].write(frame(b"2"))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(read_frames(second[0], 1), 0.05)
            first[1].close()
            assert await read_frames(second[0], 1) == [b"2"]
            second[1].close()

    run(test())


def test_an_idle_connection_is_closed():
    async def test():
        async with serving(echo, idle_ms=1) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() == b""
            writer.close()

    run(test())


def test_an_address_in_use_is_one_clear_line():
    taken = bind("PLAINTEXT", "127.0.0.1", 0, SocketOptions())
    with pytest.raises(AddressInUseError, match=rf"cannot listen on 127.0.0.1:{taken.port} \(OTHER\)"):
        bind("OTHER", "127.0.0.1", taken.port, SocketOptions())
    taken.socket.close()
