"""TLS as a transport: nothing before the handshake, frames of any size, files, and peers that do not play along."""

from __future__ import annotations

import _ssl
import asyncio
import contextlib
import ctypes
import os
import socket
import ssl
import struct
from dataclasses import replace

import pytest

from kavka.model.clock import SystemClock
from kavka.model.types import FileSlice
from kavka.net import tls as tls_module
from kavka.net.limits import ConnectionLimits
from kavka.net.lobby import Lobby
from kavka.net.responses import PENDING
from kavka.net.server import Server, SocketOptions, bind
from kavka.net.tls import RefusedError, TlsListener
from kavka.pacing.turns import Turns
from kavka.testing.authority import Authority


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    """The server's side and the client's."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    (folder / "server.pem").write_text(authority.issue("localhost").pem)
    (folder / "client.pem").write_text(authority.issue("alice").pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem")
    server.load_verify_locations(cadata=authority.pem)
    server.verify_mode = ssl.CERT_OPTIONAL
    client = ssl.create_default_context(cadata=authority.pem)
    client.load_cert_chain(folder / "client.pem")
    return server, client


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


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@contextlib.asynccontextmanager
async def serving(
    dispatch, context, identify=lambda session, certificate: None, timeout_ms=60_000, limit=1_000, enough=True
):
    lobby = Lobby("SSL", timeout_ms, limit)
    shared = TlsListener(
        lambda: context,
        identify=identify,
        line=Turns().line(),
        lobby=lobby,
        enough=enough,
        failure_delay_ms=1,
    )
    bound = bind("SSL", "127.0.0.1", 0, SocketOptions())
    listener = replace(bound, secure=shared.secure, welcome=lobby.welcome)
    server = Server([listener], dispatch, ConnectionLimits(), SocketOptions(), SystemClock())
    task = asyncio.ensure_future(server.run())
    await asyncio.sleep(0)
    try:
        yield server, listener.port
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def connect(port, context):
    return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")


async def answers(reader, count):
    return [await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0]) for _ in range(count)]


def run(test):
    asyncio.run(asyncio.wait_for(test(), 30))


def echo(connection, buffer, start, end):
    return frame(bytes(buffer[start:end]))


@pytest.mark.parametrize("size", [1, 300_000, 3 << 20])
def test_frames_of_any_size_come_back_in_order(contexts, size):
    async def test():
        async with serving(echo, contexts[0]) as (_, port):
            reader, writer = await connect(port, contexts[1])
            bodies = [b"before", os.urandom(size), *(b"%d" % number for number in range(500))]
            writer.write(b"".join(map(frame, bodies)))
            assert await answers(reader, len(bodies)) == bodies
            writer.close()

    run(test)


def test_files_are_encrypted_and_unpinned(contexts, tmp_path):
    data = os.urandom(3 << 20)
    (tmp_path / "segment").write_bytes(data)
    file = OpenFile(tmp_path / "segment")

    async def test():
        pieces = [struct.pack(">i", len(data) + 2), b"<", FileSlice(file, 0, len(data)), b">"]
        async with serving(lambda *_: pieces, contexts[0]) as (_, port):
            reader, writer = await connect(port, contexts[1])
            writer.write(frame(b"?") * 3)
            assert await answers(reader, 3) == [b"<" + data + b">"] * 3
            assert file.pins == 0
            writer.close()

    run(test)


def test_requests_that_openssl_holds_while_one_is_parked_are_served_afterwards(contexts):
    served, slots = [], []

    def dispatch(connection, buffer, start, end):
        served.append(bytes(buffer[start:end]))
        if served[-1] == b"parked":
            slots.append(connection.open_slot(exclusive=True))
            return PENDING
        return frame(served[-1])

    async def test():
        async with serving(dispatch, contexts[0]) as (_, port):
            reader, writer = await connect(port, contexts[1])
            for turn in range(1, 4):
                writer.write(frame(b"parked"))
                while len(slots) < turn:
                    await asyncio.sleep(0.001)
                writer.write(frame(b"x" * 200_000) + frame(b"behind"))
                slots[-1].answer([frame(b"late")])
                assert await answers(reader, 3) == [b"late", b"x" * 200_000, b"behind"]
            writer.close()

    run(test)


def whoami(connection, buffer, start, end):
    return frame(connection.session.principal.encode())


def by_size(session, certificate):
    session.principal = f"User:{len(certificate or b'') > 100}"


def test_the_session_knows_who_is_there_before_the_first_frame(contexts):
    async def test():
        async with serving(whoami, contexts[0], by_size) as (_, port):
            for context, name in ((contexts[1], b"User:True"), (unknown(contexts[1]), b"User:False")):
                reader, writer = await connect(port, context)
                writer.write(frame(b"?"))
                assert await answers(reader, 1) == [name]
                writer.close()

    run(test)


def unknown(context):
    """As a client, with no certificate."""
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(cadata=context.get_ca_certs(binary_form=True)[0])
    return bare


def test_who_is_not_let_in_is_served_nothing(contexts):
    def refuse(session, certificate):
        raise RefusedError("nobody")

    async def test():
        async with serving(whoami, contexts[0], refuse) as (server, port):
            reader, writer = await connect(port, contexts[1])
            writer.write(frame(b"?"))
            assert await reader.read() == b""
            assert not server.connections
            writer.close()

    run(test)


def test_plain_text_is_served_nothing(contexts):
    async def test():
        async with serving(echo, contexts[0]) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(b"hello"))
            assert frame(b"hello") not in await reader.read()
            assert not server.connections
            writer.close()

    run(test)


def test_a_client_that_resets_leaves_nothing_behind(contexts):
    async def test():
        async with serving(echo, contexts[0]) as (server, port):
            _, writer = await connect(port, contexts[1])
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.write(struct.pack(">i", 16 << 20) + bytes(300_000))
            await writer.drain()
            writer.transport.abort()
            while server.connections:
                await asyncio.sleep(0.001)

    run(test)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_end_is_said_and_heard(contexts, version):
    context = unknown(contexts[1])
    context.maximum_version = version

    def dispatch(connection, buffer, start, end):
        asyncio.get_running_loop().call_soon(connection.refuse)
        return frame(b"bye")

    async def test():
        async with serving(dispatch, contexts[0]) as (_, port):
            raw = socket.create_connection(("127.0.0.1", port))
            raw.setblocking(True)
            loop = asyncio.get_running_loop()

            def talk():
                with context.wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False) as sock:
                    sock.sendall(frame(b"x"))
                    return sock.recv(100) + sock.recv(100)

            assert await loop.run_in_executor(None, talk) == frame(b"bye")

    run(test)


def test_a_slow_reader_has_no_more_than_a_chunk_encrypted_for_it(contexts, tmp_path):
    data = os.urandom(8 << 20)
    (tmp_path / "segment").write_bytes(data)
    file = OpenFile(tmp_path / "segment")

    async def test():
        pieces = [struct.pack(">i", len(data)), FileSlice(file, 0, len(data))]
        async with serving(lambda *_: pieces, contexts[0]) as (server, port):
            reader, writer = await connect(port, contexts[1])
            writer.transport.pause_reading()
            writer.write(frame(b"?"))
            while not server.connections:
                await asyncio.sleep(0)
            (connection,) = server.connections.values()
            while not connection.transport.busy:
                await asyncio.sleep(0.001)
            held = sum(map(len, connection.transport._unsent))
            assert 0 < held <= tls_module.CHUNK_BYTES + 8192
            writer.transport.resume_reading()
            assert await answers(reader, 1) == [data]
            assert file.pins == 0
            writer.close()

    run(test)


def test_a_file_that_has_become_shorter_ends_the_connection(contexts, tmp_path):
    (tmp_path / "segment").write_bytes(b"short")
    file = OpenFile(tmp_path / "segment")

    async def test():
        pieces = [struct.pack(">i", 1000), FileSlice(file, 0, 1000)]
        async with serving(lambda *_: pieces, contexts[0]) as (server, port):
            reader, writer = await connect(port, contexts[1])
            writer.write(frame(b"?"))
            with pytest.raises(asyncio.IncompleteReadError):
                await answers(reader, 1)
            assert file.pins == 0
            assert not server.connections
            writer.close()

    run(test)


# -- those who never get on -----------------------------------------------------------------


@pytest.mark.parametrize("said", [b"", b"\x16", b"\x16\x03\x01\x02\x00", b"\x16\x03\x01\x00\x05\x01\x00"])
def test_a_handshake_that_stalls_has_its_while(contexts, said):
    async def test():
        async with serving(echo, contexts[0], timeout_ms=20) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            assert await reader.read() == b""
            assert not server.connections
            writer.close()

    run(test)


@pytest.mark.parametrize(
    "said",
    [b"\x16\x03\x01\x00\x05garbage", b"\x16\x03\x01\xff\xff", b"\x15\x03\x01\x00\x02\x01\x00", b"\0" * 64, b"GET / "],
)
def test_garbage_is_hung_up_on(contexts, said):
    async def test():
        async with serving(echo, contexts[0]) as (server, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            assert len(await reader.read()) < 20  # an alert at most
            while server.connections:
                await asyncio.sleep(0.001)
            writer.close()

    run(test)


def test_garbage_behind_a_good_handshake_ends_it(contexts):
    async def test():
        async with serving(echo, contexts[0]) as (server, port):
            reader, writer = await connect(port, contexts[1])
            writer.write(frame(b"hello"))
            assert await answers(reader, 1) == [b"hello"]
            os.write(writer.get_extra_info("socket").fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))
            while server.connections:
                await asyncio.sleep(0.001)
            writer.close()

    run(test)


def test_a_drip_gets_in_and_a_crowd_of_stalled_ones_does_not_keep_it_out(contexts):
    async def test():
        async with serving(echo, contexts[0], limit=10) as (_, port):
            stalled = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
            for _, writer in stalled:
                writer.write(b"\x16\x03")
            assert await drip(port, contexts[1], frame(b"hello")) == frame(b"hello")
            for _, client in stalled:
                client.close()

    run(test)


async def drip(port, context, request):
    """What a client is answered whose every byte travels alone."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")

    async def step(action):
        while True:
            try:
                result = action()
            except ssl.SSLWantReadError:
                result = None
            for byte in outgoing.read():
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0)
            if result is not None:
                return result
            incoming.write(await reader.read(4096))

    await step(lambda: tls.do_handshake() or True)
    await step(lambda: tls.write(request))
    answer = await step(lambda: tls.read(len(request)))
    writer.close()
    return answer


# -- those who send more than they should ---------------------------------------------------


class KeyUpdates:
    """A client that has the node change its keys, over and over, and reads nothing of what it says to that."""

    LIBRARY = ctypes.CDLL(_ssl.__file__)
    WANTS_AN_ANSWER = 1

    def __init__(self, port, context):
        self.sock = socket.socket()
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            self.sock.setsockopt(socket.SOL_SOCKET, buffer, 64 * 1024)
        self.sock.connect(("127.0.0.1", port))
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.sock.sendall(self._outgoing.read())
                self._incoming.write(self.sock.recv(65536))
            else:
                break
        self.sock.sendall(self._outgoing.read())
        self.sock.setblocking(False)

    def encrypted(self, count, data=b""):
        """So many changes of keys, and data behind them."""
        tls = ctypes.c_void_p.from_address(id(self._tls._sslobj) + 3 * ctypes.sizeof(ctypes.c_void_p))
        for _ in range(count):
            assert self.LIBRARY.SSL_key_update(tls, self.WANTS_AN_ANSWER) == 1
            self._tls.do_handshake()
        if data:
            self._tls.write(data)
        return self._outgoing.read()


async def send_until_full(sock, more):
    """Send without reading until nothing is taken for a while; how much that was."""
    sent = 0
    waiting = memoryview(b"")
    for _ in range(200):
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting = waiting or memoryview(more())
                count = sock.send(waiting)
                sent, waiting = sent + count, waiting[count:]
                if sent > 4 << 20:
                    return sent
        await asyncio.sleep(0.001)
    return sent


@contextlib.asynccontextmanager
async def largest_step(transport):
    """The most bytes that one turn of the loop took of a connection."""
    steps, loop = [0], asyncio.get_running_loop()

    def look(before):
        steps[0] = max(steps[0], transport.received_bytes - before)
        if not transport.closed:
            loop.call_soon(look, transport.received_bytes)

    look(transport.received_bytes)
    yield steps


@pytest.mark.parametrize("enough", [True, False])
def test_who_changes_keys_over_and_over_takes_neither_memory_nor_the_loop(contexts, enough):
    async def test():
        loop = asyncio.get_running_loop()
        async with serving(echo, contexts[0], enough=enough) as (server, port):
            client = await loop.run_in_executor(None, KeyUpdates, port, contexts[1])
            (connection,) = server.connections.values()
            async with largest_step(connection.transport) as largest:
                with client.sock:
                    sent = await send_until_full(client.sock, lambda: client.encrypted(300))
                    transport = connection.transport
                    held = sum(map(len, transport._unsent)) + transport._outgoing.pending
            assert sent < 4 << 20  # it is read no more until it takes what it is sent
            assert held <= tls_module.SLICE_BYTES
            assert largest[0] <= tls_module.CAREFUL_BYTES

    run(test)


def test_who_changes_keys_now_and_then_is_served(contexts):
    async def test():
        loop = asyncio.get_running_loop()
        async with serving(echo, contexts[0]) as (server, port):
            client = await loop.run_in_executor(None, KeyUpdates, port, contexts[1])
            (connection,) = server.connections.values()
            request = frame(bytes(16_000))
            for _ in range(20):
                await loop.sock_sendall(client.sock, client.encrypted(1, request))
            while connection.transport.sent_bytes < 20 * len(request):
                await loop.sock_recv(client.sock, 1 << 20)
            client.sock.close()

    run(test)


def test_a_fast_sender_leaves_the_others_their_turn(contexts):
    size = 32 << 20

    async def test():
        async with serving(lambda *_: frame(b"thanks"), contexts[0]) as (server, port):
            reader, writer = await connect(port, contexts[1])
            (connection,) = server.connections.values()
            async with largest_step(connection.transport) as largest:
                writer.write(frame(bytes(size)))
                assert await answers(reader, 1) == [b"thanks"]
            assert tls_module.CAREFUL_BYTES < largest[0] <= 2 * tls_module.TURN_BYTES
            writer.close()

    run(test)
