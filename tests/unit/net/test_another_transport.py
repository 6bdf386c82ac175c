"""The door for other transports, tried with the one that asks most of it: TLS, added without a change anywhere else.

What it must show: nothing is served before the handshake, text that OpenSSL holds back is drained, files are encrypted
no more than one chunk ahead of the socket, and a session learns who is there before the first frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import ssl
import struct
import subprocess
from dataclasses import replace

import pytest

from kavka.model.clock import SystemClock
from kavka.model.types import FileSlice
from kavka.net.limits import ConnectionLimits
from kavka.net.responses import PENDING
from kavka.net.server import Server, SocketOptions, bind
from kavka.net.sockets import SocketTransport
from kavka.net.transport import END

CHUNK = 64 * 1024


class TlsTransport(SocketTransport):
    """TLS by way of memory, on a socket that is ours."""

    __slots__ = ("_incoming", "_on_open", "_outgoing", "_raw", "_unsent", "tls")

    def __init__(self, loop, sock, hangups, context, on_open):
        super().__init__(loop, sock, hangups)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._on_open = on_open
        self._raw = memoryview(bytearray(CHUNK))
        self._unsent = memoryview(b"")

    def read_on(self):
        paused, self._paused = self._paused, False
        super().read_on()
        if paused and (self._incoming.pending or self.tls.pending()):
            self._loop.call_soon(self._drain)

    def _on_readable(self):
        if self._paused:
            self._unwatch()
            return
        try:
            received = self._sock.recv_into(self._raw)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._owner.close()
            return
        self.received_bytes += received
        if received:
            self._incoming.write(self._raw[:received])
        else:
            self._incoming.write_eof()
        self._drain()

    def _drain(self):
        if self.closed:
            return
        if self._on_open is not None and not self._shake_hands():
            return
        while not self.closed and not self._paused and (self._incoming.pending or self._incoming.eof):
            before = self._incoming.pending
            self._owner.on_readable()
            if self._incoming.pending == before:
                break  # the rest of a record has not come yet
        while not self.closed and not self._paused and self.tls.pending():
            self._owner.on_readable()
        if not self.closed and not self.busy:
            self._send_encrypted()

    def _shake_hands(self):
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_encrypted()
            return False
        except ssl.SSLError:
            self._send_encrypted()
            self._owner.close()
            return False
        self._on_open()
        self._on_open = None
        return True

    def receive_into(self, view):
        filled = 0
        while filled < len(view):
            try:
                count = self.tls.read(len(view) - filled, view[filled:])
            except ssl.SSLWantReadError:
                break
            if not count:
                return filled or END
            filled += count
        return filled

    def flush(self):
        out = self.out
        while out and not self.busy and not self.closed and self._send_encrypted():
            piece = out[0]
            if type(piece) is FileSlice:
                size = min(piece.length, CHUNK)
                data = os.pread(piece.file.fileno(), size, piece.position)
                if len(data) < size:
                    self._owner.close()
                    return
                if size < piece.length:
                    out[0] = FileSlice(piece.file, piece.position + size, piece.length - size)
                else:
                    out.popleft()
                    piece.file.unpin()
            else:
                data = out.popleft()
            self.tls.write(data)
        if not self.busy and not self.closed:
            self._send_encrypted()

    def _send_encrypted(self):
        """Whether the socket has taken all that is encrypted."""
        while self._unsent or self._outgoing.pending:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
            try:
                sent = self._sock.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:
                self._owner.close()
                return False
            self.sent_bytes += sent
            self._unsent = self._unsent[sent:]
            if self._unsent:
                self._wait_writable()
                return False
        return True


@pytest.fixture(scope="module")
def contexts(tmp_path_factory):
    """The server's side and the client's."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -days 2"
    subprocess.run(
        [*command.split(), "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return server, ssl.create_default_context(cafile=folder / "cert.pem")


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
async def serving(dispatch, context):
    def secure(loop, sock, hangups, session):
        def on_open():
            session.principal = f"User:{transport.tls.version()}"

        transport = TlsTransport(loop, sock, hangups, context, on_open)
        return transport

    listener = replace(bind("SSL", "127.0.0.1", 0, SocketOptions()), secure=secure)
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


def test_the_session_knows_who_is_there_before_the_first_frame(contexts):
    async def test():
        whoami = lambda connection, *_: frame(connection.session.principal.encode())  # noqa: E731
        async with serving(whoami, contexts[0]) as (_, port):
            reader, writer = await connect(port, contexts[1])
            writer.write(frame(b"?"))
            assert await answers(reader, 1) == [b"User:TLSv1.3"]
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
