"""TLS as the connecting side has it, against a server that nobody here wrote."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from kavka.client.dial import TcpDial
from kavka.client.tls import SslHandshakeFailed, TlsReceiver
from kavka.testing.authority import Authority

AUTHORITY = Authority()


class Sink(asyncio.BufferedProtocol):
    """Takes plain text."""

    def __init__(self) -> None:
        self.got = bytearray()
        self._buffer = bytearray(1000)
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.got += self._buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


def server_side(tmp_path: os.PathLike[str], **issue: object) -> ssl.SSLContext:
    file = os.path.join(tmp_path, "server.pem")
    with open(file, "w") as opened:
        opened.write(AUTHORITY.issue("server", **issue).pem)  # type: ignore[arg-type]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


def client_side() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=AUTHORITY.pem)


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def connected(
    serve: Serve, server: ssl.SSLContext | None, client: ssl.SSLContext
) -> AsyncIterator[tuple[Sink, TlsReceiver]]:
    async def quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.transport.abort()

    listening = await asyncio.start_server(quietly, "127.0.0.1", 0, ssl=server)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        sink = Sink()
        tls = TlsReceiver(client, "localhost", f"localhost:{port}", sink)
        try:
            await tls.open(await TcpDial().dial("127.0.0.1", port, tls))
            yield sink, tls
        finally:
            tls.abort()
            await asyncio.sleep(0)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))


@pytest.mark.parametrize("size", [1, 100_000, 3_000_000])
def test_what_is_written_comes_back(tmp_path: os.PathLike[str], size: int) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(size))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def test() -> None:
        async with connected(echo, server_side(tmp_path), client_side()) as (sink, tls):
            data = os.urandom(size)
            tls.write(data)
            await sink.lost
            assert sink.got == data

    run(test)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.parametrize(
    ("issue", "words"),
    [({"hosts": ["elsewhere"]}, "Hostname mismatch"), ({"days": -1}, "expired")],
)
def test_a_server_that_is_not_what_it_should_be_is_not_believed(
    tmp_path: os.PathLike[str], issue: dict[str, object], words: str
) -> None:
    async def test() -> None:
        with pytest.raises(SslHandshakeFailed, match=words):
            async with connected(silent, server_side(tmp_path, **issue), client_side()):
                pass

    run(test)


def test_a_server_of_any_name_is_believed_where_names_do_not_matter(tmp_path: os.PathLike[str]) -> None:
    context = client_side()
    context.check_hostname = False

    async def test() -> None:
        async with connected(silent, server_side(tmp_path, hosts=["elsewhere"]), context):
            pass

    run(test)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_server_that_speaks_no_tls_is_told_apart(said: bytes) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(said)
        await writer.drain()

    async def test() -> None:
        with pytest.raises(SslHandshakeFailed):
            async with connected(plain, None, client_side()):
                pass

    run(test)


def test_the_end_is_told_once(tmp_path: os.PathLike[str]) -> None:
    async def test() -> None:
        async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"bye")
            await writer.drain()

        async with connected(leave, server_side(tmp_path), client_side()) as (sink, _):
            await sink.lost
            assert sink.got == b"bye"

    run(test)
