"""Who serves the frames of a connection: its listener's choice at first, and whoever takes over from there."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from dataclasses import replace

from kavka.model.clock import SystemClock
from kavka.model.errors import SaslAuthenticationFailed
from kavka.net.limits import ConnectionLimits
from kavka.net.server import Server, SocketOptions, bind


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Login:
    """Lets in whoever says who they are, in two steps."""

    def __init__(self, dispatcher):
        self._dispatcher = dispatcher
        self._hello = False

    def __call__(self, connection, buffer, start, end):
        said = bytes(buffer[start:end])
        if not self._hello:
            self._hello = True
        elif said == b"mallory":
            raise SaslAuthenticationFailed("no")
        else:
            connection.session.principal = f"User:{said.decode()}"
            connection.receiver = self._dispatcher
        return frame(b"ok")


def log_in(connection):
    connection.receiver = Login(connection.receiver)


def whoami(connection, buffer, start, end):
    return frame(connection.session.principal.encode())


@contextlib.asynccontextmanager
async def serving():
    """Two listeners of one server: one where clients log in, one where they do not."""
    bound = [bind(name, "127.0.0.1", 0, SocketOptions()) for name in ("SASL", "PLAINTEXT")]
    listeners = [replace(bound[0], welcome=log_in), bound[1]]
    server = Server(listeners, whoami, ConnectionLimits(), SocketOptions(), SystemClock())
    task = asyncio.ensure_future(server.run())
    await asyncio.sleep(0)
    try:
        yield server, [listener.port for listener in listeners]
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def everything(port, *bodies):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(map(frame, bodies)))
    writer.write_eof()
    answers = await reader.read()
    writer.close()
    return answers


def run(test):
    asyncio.run(asyncio.wait_for(test(), 20))


def test_a_log_in_hands_over_to_the_dispatcher_within_one_read():
    async def test():
        async with serving() as (_, (sasl, plain)):
            said = await everything(sasl, b"hello", b"alice", b"who am I?", b"and now?")
            assert said == frame(b"ok") * 2 + frame(b"User:alice") * 2
            assert await everything(plain, b"who am I?") == frame(b"User:ANONYMOUS")

    run(test)


def test_each_connection_logs_in_for_itself_and_one_that_fails_reaches_nobody():
    async def test():
        async with serving() as (_, (sasl, _)):
            alice, mallory, bob = await asyncio.gather(
                everything(sasl, b"hello", b"alice", b"?"),
                everything(sasl, b"hello", b"mallory", b"?"),
                everything(sasl, b"hello", b"bob", b"?"),
            )
            assert alice == frame(b"ok") * 2 + frame(b"User:alice")
            assert bob == frame(b"ok") * 2 + frame(b"User:bob")
            assert mallory == frame(b"ok")

    run(test)


def test_a_session_knows_its_listener_and_where_its_client_is():
    async def test():
        async with serving() as (server, (_, plain)):
            _, writer = await asyncio.open_connection("127.0.0.1", plain)
            while not server.connections:
                await asyncio.sleep(0)
            ((number, connection),) = server.connections.items()
            session = connection.session
            assert (session.id, session.listener) == (number, "PLAINTEXT")
            assert (session.client_host, session.client_port) == writer.get_extra_info("sockname")
            writer.close()

    run(test)
