"""Logging in by SASL: what is answered, what is refused and when the connection ends."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from kavka.model.clock import ManualClock
from kavka.model.errors import KafkaError
from kavka.net.connection import Connection
from kavka.net.limits import ConnectionLimits
from kavka.net.lobby import Lobby
from kavka.net.login import Logins, Offer
from kavka.net.responses import Reply
from kavka.net.server import Server, SocketOptions, bind
from kavka.net.session import Session
from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import API
from kavka.protocol.schemas.metadata import MetadataRequest
from kavka.protocol.schemas.sasl_authenticate import SaslAuthenticateRequest
from kavka.protocol.schemas.sasl_handshake import SaslHandshakeRequest
from kavka.security.sasl.exchange import Authenticated
from kavka.security.sasl.plain import PlainServer
from kavka.security.sasl.scram import Credential, Credentials, Mechanism, ScramClient, ScramServer

ALICE, SCRAM = b"\0alice\0wonderland", "SCRAM-SHA-256"
CREDENTIAL = Credential.of_password(Mechanism.SCRAM_SHA_256, "builder", b"salt" * 6)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def whoami(connection: Connection, buffer: memoryview, start: int, end: int) -> Reply:
    """What the dispatcher would be: says who asks, whatever is asked."""
    return frame(connection.session.principal.encode())


class Ending(PlainServer):
    """PLAIN with credentials that end."""

    def __init__(self, expires_at_ms: int) -> None:
        super().__init__(lambda name, password: password == "wonderland")
        self._expires_at_ms = expires_at_ms

    def respond(self, token: bytes) -> bytes:
        answer = super().respond(token)
        if self.authenticated is not None:
            self.authenticated = Authenticated(self.authenticated.name, self._expires_at_ms)
        return answer


class Client:
    """Speaks frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, body: bytes) -> None:
        self.writer.write(frame(body))

    async def receive(self) -> bytes:
        return await self.reader.readexactly(struct.unpack(">i", await self.reader.readexactly(4))[0])

    async def raw(self, body: bytes) -> bytes:
        self.send(body)
        return await self.receive()

    async def ask(self, request: Any, version: int) -> Any:
        self.writer.write(encode_request(version, 7, "test", request))
        answer = await self.receive()
        return parse_response(API[request.__api__[0]], version, answer)[1]

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return await self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    async def authenticate(self, token: bytes, version: int = 2) -> Any:
        return await self.ask(SaslAuthenticateRequest(auth_bytes=token), version)

    async def hung_up_on(self) -> bool:
        return await self.reader.read() == b""


class World:
    def __init__(self, server: Server, port: int, logins: Logins, clock: ManualClock) -> None:
        self.server, self.port, self.logins, self.clock = server, port, logins, clock
        self.admitted: list[str] = []
        self.told: list[tuple[str, str, KafkaError | None, str]] = []

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Client(reader, writer)
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def serving(
    *, max_reauth_ms: int = 0, expires_at_ms: int | None = None, timeout_ms: int = 60_000, limit: int = 100
) -> AsyncIterator[World]:
    clock = ManualClock()
    users = Credentials({"bob": CREDENTIAL}.get, lambda _: None, lambda: b"secret")

    def plain(session: Session) -> PlainServer:
        if expires_at_ms is not None:
            return Ending(expires_at_ms)
        return PlainServer(lambda name, password: password == "wonderland")

    offers = {
        "PLAIN": Offer(plain, max_reauth_ms),
        SCRAM: Offer(lambda _: ScramServer(Mechanism.SCRAM_SHA_256, users, "server"), max_reauth_ms),
    }
    logins = Logins(
        offers,
        max_receive_bytes=1_000,
        failure_delay_ms=1,
        lobby=Lobby("SASL_PLAINTEXT", timeout_ms, limit),
        clock=clock,
        admit=lambda session: world.admitted.append(session.principal),
        tell=lambda session, mechanism, refused, why: world.told.append((session.principal, mechanism, refused, why)),
    )
    listener = replace(bind("SASL", "127.0.0.1", 0, SocketOptions()), welcome=logins.welcome)
    server = Server([listener], whoami, ConnectionLimits(), SocketOptions(), clock)
    world = World(server, listener.port, logins, clock)
    task = asyncio.ensure_future(server.run())
    await asyncio.sleep(0)
    try:
        yield world
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 30))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_that_proves_who_it_is_is_served(version: int) -> None:
    async def test() -> None:
        async with serving() as world, world.client() as client:
            chosen = await client.handshake()
            assert (chosen.error_code, chosen.mechanisms) == (0, ["PLAIN", SCRAM])
            answer = await client.authenticate(ALICE, version)
            assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
            assert await client.raw(b"who am I?") == b"User:alice"
            assert world.admitted == ["User:alice"]
            assert [(who, refused) for who, _, refused, _ in world.told] == [("User:alice", None)]
            assert len(world.logins.lobby) == 0
            assert (world.logins.succeeded, world.logins.failed) == ({"PLAIN": 1}, {})

    run(test)


def test_tokens_have_no_headers_after_a_handshake_of_version_0() -> None:
    async def test() -> None:
        async with serving() as world, world.client() as client:
            assert (await client.handshake(version=0)).error_code == 0
            assert await client.raw(ALICE) == b""
            assert await client.raw(b"who am I?") == b"User:alice"
        async with serving() as world, world.client() as client:
            await client.handshake(version=0)
            client.send(b"\0alice\0looking glass")
            assert await client.hung_up_on()
            assert world.logins.failed == {"PLAIN": 1}

    run(test)


def test_scram_takes_two_rounds() -> None:
    async def test() -> None:
        async with serving() as world, world.client() as client:
            await client.handshake(SCRAM)
            scram = ScramClient(Mechanism.SCRAM_SHA_256, "bob", "builder", "client")
            first = await client.authenticate(scram.begin())
            proof = scram.respond(first.auth_bytes)
            assert proof is not None
            assert scram.respond((await client.authenticate(proof)).auth_bytes) is None
            assert await client.raw(b"who am I?") == b"User:bob"

    run(test)


@pytest.mark.parametrize(("name", "password"), [("bob", "wrong"), ("eve", "builder")])
def test_nobody_learns_whether_it_was_the_name_or_the_password(name: str, password: str) -> None:
    async def test() -> None:
        async with serving() as world, world.client() as client:
            await client.handshake(SCRAM)
            scram = ScramClient(Mechanism.SCRAM_SHA_256, name, password, "client")
            proof = scram.respond((await client.authenticate(scram.begin())).auth_bytes)
            assert proof is not None
            answer = await client.authenticate(proof)
            words = (
                f"Authentication failed during authentication due to invalid credentials with SASL mechanism {SCRAM}"
            )
            assert (answer.error_code, answer.error_message, answer.auth_bytes) == (58, words, b"")
            assert await client.hung_up_on()

    run(test)


def test_an_unknown_mechanism_is_told_which_there_are_and_hung_up_on() -> None:
    async def test() -> None:
        async with serving() as world, world.client() as client:
            answer = await client.handshake("CRAM-MD5")
            assert (answer.error_code, answer.mechanisms) == (33, ["PLAIN", SCRAM])
            assert await client.hung_up_on()
            assert not world.server.connections

    run(test)


@pytest.mark.parametrize(
    "said",
    [
        encode_request(9, 1, "test", MetadataRequest(topics=None)),
        encode_request(2, 1, "test", SaslAuthenticateRequest(auth_bytes=ALICE)),
        frame(b"GET / HTTP/1.1\r\n"),
        frame(struct.pack(">hhih", 17, 99, 1, -1)),
        frame(b""),
        struct.pack(">i", 1_001) + bytes(1_001),
        struct.pack(">i", -1),
    ],
)
def test_whatever_else_comes_first_reaches_nobody(said: bytes) -> None:
    async def test() -> None:
        async with serving() as world, world.client() as client:
            client.writer.write(said + frame(b"who am I?"))
            assert b"User:" not in await client.reader.read()
            assert not world.admitted
            assert all(refused is not None for _, _, refused, _ in world.told)

    run(test)


def test_a_request_in_the_middle_of_a_log_in_ends_it() -> None:
    async def test() -> None:
        async with serving() as world, world.client() as client:
            await client.handshake()
            assert (await client.handshake()).error_code == 34
            assert await client.hung_up_on()

    run(test)


def test_frames_may_be_large_again_once_the_client_is_in() -> None:
    async def test() -> None:
        async with serving() as world, world.client() as client:
            await client.handshake()
            await client.authenticate(ALICE)
            assert await client.raw(bytes(100_000)) == b"User:alice"

    run(test)


# -- sessions that end (KIP-368) ------------------------------------------------------------


def test_a_session_that_has_ended_serves_nothing_more() -> None:
    async def test() -> None:
        async with serving(max_reauth_ms=5_000) as world, world.client() as client:
            await client.handshake()
            assert (await client.authenticate(ALICE)).session_lifetime_ms == 5_000
            world.clock.advance(5_000)
            assert await client.raw(b"who am I?") == b"User:alice"
            world.clock.advance(1)
            client.send(b"who am I?")
            assert await client.hung_up_on()

    run(test)


def test_the_end_of_the_credentials_counts_if_it_is_sooner() -> None:
    async def test() -> None:
        now_ms = ManualClock().now_ms()
        async with serving(max_reauth_ms=5_000, expires_at_ms=now_ms + 3_000) as world, world.client() as client:
            await client.handshake()
            assert (await client.authenticate(ALICE)).session_lifetime_ms == 3_000
        async with serving(expires_at_ms=now_ms - 1) as world, world.client() as client:
            await client.handshake()
            assert (await client.authenticate(ALICE)).session_lifetime_ms == 0
            world.clock.advance(1)
            client.send(b"who am I?")
            assert await client.hung_up_on()

    run(test)


def test_whoever_logs_in_again_in_time_goes_on() -> None:
    async def test() -> None:
        async with serving(max_reauth_ms=5_000) as world, world.client() as client:
            await client.handshake()
            await client.authenticate(ALICE)
            for _ in range(3):
                world.clock.advance(4_999)
                assert (await client.handshake()).error_code == 0
                assert (await client.authenticate(ALICE)).session_lifetime_ms == 5_000
                assert await client.raw(b"who am I?") == b"User:alice"
            # within a second of the last one it is a request like any other
            assert await client.raw(encode_request(1, 1, "test", SaslHandshakeRequest(mechanism="PLAIN"))[4:]) == (
                b"User:alice"
            )

    run(test)


@pytest.mark.parametrize(
    ("mechanism", "token", "words"),
    [
        ("PLAIN", b"\0bob\0wonderland", "Cannot change principals during re-authentication from User.alice: User.bob"),
        (
            SCRAM,
            b"n,,n=alice,r=nonce",
            f"SASL mechanism '{SCRAM}' requested by client is not supported for re-authentication of mechanism 'PLAIN'",
        ),
        ("PLAIN", b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
    ],
)
def test_who_logs_in_again_must_be_who_it_was(mechanism: str, token: bytes, words: str) -> None:
    async def test() -> None:
        async with serving(max_reauth_ms=5_000) as world, world.client() as client:
            await client.handshake()
            await client.authenticate(ALICE)
            assert (await client.handshake(mechanism)).error_code == 0
            answer = await client.authenticate(token)
            assert (answer.error_code, answer.error_message) == (58, words)
            assert await client.hung_up_on()

    run(test)


# -- those who never get on -----------------------------------------------------------------


def test_a_client_that_says_nothing_has_its_while() -> None:
    async def test() -> None:
        async with serving(timeout_ms=20) as world, world.client() as client:
            assert await client.hung_up_on()
            assert world.logins.lobby.timed_out == 1

    run(test)


def test_the_oldest_gives_way_when_there_are_too_many() -> None:
    async def test() -> None:
        async with serving(limit=2) as world, contextlib.AsyncExitStack() as stack:
            silent = [await stack.enter_async_context(world.client()) for _ in range(5)]
            for client in silent[:3]:
                assert await client.hung_up_on()
            assert (await silent[4].handshake()).error_code == 0
            assert (await silent[4].authenticate(ALICE)).error_code == 0
            assert world.logins.lobby.crowded_out == 3

    run(test)
