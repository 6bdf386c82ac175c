"""Calling other nodes: connections that are kept, dialled anew, and not dialled too often."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, suppress

import pytest

from kavka.client.connector import Connector
from kavka.client.dial import TcpDial
from kavka.model.errors import NetworkException, RequestTimedOut
from kavka.model.types import Endpoint
from kavka.protocol.compiler import encode
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from kavka.protocol.schemas.vote import VoteRequest, VoteResponse
from kavka.quorum.peers import RECONNECT, Peers

ANSWER = VoteResponse(error_code=104, topics=[])
REQUEST = VoteRequest(topics=[])


class CountingDial(TcpDial):
    """TCP that remembers whom it dialled."""

    def __init__(self):
        self.dialled = []

    async def dial(self, host, port, receiver):
        self.dialled.append((host, port))
        return await super().dial(host, port, receiver)


@asynccontextmanager
async def node(*, silent=False):
    """A node that knows ApiVersions and, unless it is silent, Vote; its endpoint."""

    served = []

    async def serve(reader, writer):
        served.append(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                key, version = int.from_bytes(frame[:2], "big"), int.from_bytes(frame[2:4], "big")
                correlation = frame[4:8]
                if key == 18:
                    keys = [ApiVersion(api_key=18, min_version=0, max_version=4)]
                    keys.append(ApiVersion(api_key=52, min_version=0, max_version=1))
                    body = correlation + encode(ApiVersionsResponse(error_code=0, api_keys=keys), version)
                elif silent:
                    continue
                else:
                    body = correlation + b"\x00" + encode(ANSWER, version)
                writer.write(len(body).to_bytes(4, "big") + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield Endpoint("CONTROLLER", "127.0.0.1", server.sockets[0].getsockname()[1], "")
        for writer in served:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


def run(scenario):
    async def wrapped():
        dial = CountingDial()
        peers = Peers(Connector(dial, lambda: 0.5), "test", "CONTROLLER", 500)
        try:
            await scenario(peers, dial)
        finally:
            peers.close()
            await asyncio.sleep(0)

    asyncio.run(wrapped())


def test_a_connection_is_kept_and_the_version_is_the_best_of_both():
    async def scenario(peers, dial):
        async with node() as endpoint:
            for _ in range(3):
                assert await peers.call([endpoint], REQUEST, VoteResponse) == (ANSWER, 1)
            assert len(dial.dialled) == 1
            other = endpoint._replace(listener="OTHER", port=1)
            await peers.call([other, endpoint], REQUEST, VoteResponse)  # that of our listener is chosen
            assert len(dial.dialled) == 1
            peers.close()

    run(scenario)


def test_a_request_is_not_held_up_by_one_that_waits():
    async def scenario(peers, dial):
        async with node(silent=True) as endpoint:
            first = asyncio.create_task(peers.call([endpoint], REQUEST, VoteResponse))
            while not peers.waiting:
                await asyncio.sleep(0)
            second = asyncio.create_task(peers.call([endpoint], REQUEST, VoteResponse))
            with pytest.raises(NetworkException):
                await first
            with pytest.raises(RequestTimedOut):
                await second
            assert len(dial.dialled) == 2
            peers.close()

    run(scenario)


def test_an_address_that_refuses_is_dialled_again_only_after_a_while():
    async def scenario(peers, dial):
        with socket.socket() as taken:  # a port where nobody listens
            taken.bind(("127.0.0.1", 0))
            endpoint = Endpoint("CONTROLLER", "127.0.0.1", taken.getsockname()[1], "")
        loop = asyncio.get_running_loop()
        times = []
        for _ in range(3):
            with pytest.raises(NetworkException):
                await peers.call([endpoint], REQUEST, VoteResponse)
            times.append(loop.time())
        assert len(dial.dialled) == 3  # each time by its name
        assert times[1] - times[0] >= RECONNECT.first_ms / 1000 * 0.9
        assert times[2] - times[1] >= RECONNECT.first_ms / 1000 * 1.8

    run(scenario)


def test_a_node_without_an_address_cannot_be_called():
    async def scenario(peers, dial):
        with pytest.raises(NetworkException, match="not known"):
            await peers.call([], REQUEST, VoteResponse)

    run(scenario)


def test_after_the_end_nobody_is_called():
    async def scenario(peers, dial):
        async with node() as endpoint:
            peers.close()
            with pytest.raises(NetworkException, match="shutting down"):
                await peers.call([endpoint], REQUEST, VoteResponse)

    run(scenario)
