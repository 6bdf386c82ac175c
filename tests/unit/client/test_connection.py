"""One connection, over a network that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kavka.client.connection import Connection
from kavka.client.connector import Connector
from kavka.model.errors import CorruptMessage, NetworkException, RequestTimedOut, UnsupportedVersion
from kavka.protocol.header import encode_response, parse_request_header
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker

VERSIONS = ApiVersionsResponse(
    error_code=0,
    api_keys=[
        ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
        ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=12),
        ApiVersion(api_key=ApiKey.INIT_PRODUCER_ID, min_version=0, max_version=6),
        ApiVersion(api_key=ApiKey.PRODUCE, min_version=20, max_version=21),
    ],
    finalized_features=[FinalizedFeatureKey(name="metadata.version", max_version_level=30, min_version_level=30)],
)


class Broker:
    """The other end: sees each request's header and answers what the test says."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, int, int]] = []
        self.aborted = False
        self.receiver: asyncio.BufferedProtocol | None = None
        self.answers_versions = True

    async def dial(self, host: str, port: int, receiver: asyncio.BufferedProtocol) -> Broker:
        self.receiver = receiver
        return self

    def write(self, data: bytes | bytearray | memoryview) -> None:
        header, _ = parse_request_header(bytes(data), 4)
        self.requests.append((header.api_key, header.api_version, header.correlation_id))
        if header.api_key == ApiKey.API_VERSIONS and self.answers_versions:
            self.answer(ApiKey.API_VERSIONS, header.api_version, header.correlation_id, VERSIONS)

    def abort(self) -> None:
        self.aborted = True

    def answer(self, key: int, version: int, correlation_id: int, message: object) -> None:
        pieces = encode_response(key, version, correlation_id, message)
        self.deliver(b"".join(bytes(piece) for piece in pieces))  # type: ignore[arg-type]

    def deliver(self, data: bytes, step: int = 1 << 20) -> None:
        assert self.receiver is not None
        while data:
            buffer = self.receiver.get_buffer(-1)
            size = min(len(buffer), len(data), step)
            buffer[:size] = data[:size]
            data = data[size:]
            self.receiver.buffer_updated(size)


def cluster(hosts: int = 1) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=index, host="h" * 200, port=1) for index in range(hosts)]
    return MetadataResponse(brokers=brokers, topics=[])


def converse(talk: Callable[[Broker, Connection], Awaitable[None]], timeout_ms: int = 30_000) -> None:
    async def run() -> None:
        broker = Broker()
        connection = await Connector(broker).connect("broker", 9092, request_timeout_ms=timeout_ms)
        await talk(broker, connection)

    asyncio.run(run())


ALL = MetadataRequest(topics=None)


def test_a_new_connection_knows_the_brokers_versions_and_features() -> None:
    async def talk(broker: Broker, connection: Connection) -> None:
        assert connection.version(ApiKey.METADATA) == 12
        assert connection.version(ApiKey.METADATA, at_most=9) == 9
        assert connection.version(ApiKey.INIT_PRODUCER_ID) == 5, "6 is not stable yet"
        assert connection.features == {"metadata.version": 30}

    converse(talk)


def test_an_api_that_the_broker_does_not_offer_is_an_unsupported_version() -> None:
    async def talk(broker: Broker, connection: Connection) -> None:
        with pytest.raises(UnsupportedVersion, match="no Fetch"):
            connection.version(ApiKey.FETCH)
        with pytest.raises(UnsupportedVersion, match="only in versions 20 to 21"):
            connection.version(ApiKey.PRODUCE)

    converse(talk)


def test_an_older_broker_is_asked_again_in_the_version_it_names() -> None:
    async def run() -> None:
        broker = Broker()
        broker.answers_versions = False
        opening = asyncio.ensure_future(Connector(broker).connect("broker", 9092))
        while not broker.requests:
            await asyncio.sleep(0)
        known = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=2)
        refusal = ApiVersionsResponse(error_code=35, api_keys=[known])
        broker.answer(ApiKey.API_VERSIONS, 0, 0, refusal)
        while len(broker.requests) < 2:
            await asyncio.sleep(0)
        broker.answer(ApiKey.API_VERSIONS, 2, 1, VERSIONS)
        connection = await opening
        assert broker.requests == [(ApiKey.API_VERSIONS, 4, 0), (ApiKey.API_VERSIONS, 2, 1)]
        assert connection.version(ApiKey.METADATA) == 12

    asyncio.run(run())


def test_requests_are_pipelined_and_answers_find_their_way() -> None:
    async def talk(broker: Broker, connection: Connection) -> None:
        first, second = (connection.send(ALL, MetadataResponse) for _ in range(2))
        assert connection.in_flight == 2
        for hosts, (key, version, correlation_id) in enumerate(broker.requests[1:], 1):
            broker.answer(key, version, correlation_id, cluster(hosts))
        assert [len((await answer).brokers) for answer in (first, second)] == [1, 2]
        assert connection.in_flight == 0

    converse(talk)


@pytest.mark.parametrize("step", [1, 7, 65_536])
@pytest.mark.parametrize("hosts", [1, 100, 2000], ids=["small", "medium", "larger than the shared buffer"])
def test_an_answer_may_arrive_in_any_pieces(step: int, hosts: int) -> None:
    if step < 10 and hosts == 2000:
        hosts = 400  # still larger than the shared buffer

    async def talk(broker: Broker, connection: Connection) -> None:
        answers = [connection.send(ALL, MetadataResponse) for _ in range(3)]
        stream = b""
        for key, version, correlation_id in broker.requests[1:]:
            pieces = encode_response(key, version, correlation_id, cluster(hosts))
            stream += b"".join(bytes(piece) for piece in pieces)  # type: ignore[arg-type]
        broker.deliver(stream, step)
        assert [len((await answer).brokers) for answer in answers] == [hosts] * 3

    converse(talk)


def test_an_answer_out_of_order_closes_the_connection() -> None:
    async def talk(broker: Broker, connection: Connection) -> None:
        answer = connection.send(ALL, MetadataResponse)
        broker.answer(ApiKey.METADATA, 12, 77, cluster())
        with pytest.raises(CorruptMessage, match="answered 77 instead of 1"):
            await answer
        assert connection.closed
        assert broker.aborted

    converse(talk)


def test_an_answer_that_nobody_asked_for_closes_the_connection() -> None:
    async def talk(broker: Broker, connection: Connection) -> None:
        broker.answer(ApiKey.METADATA, 12, 1, cluster())
        assert connection.closed

    converse(talk)


def test_an_answer_that_cannot_be_read_closes_the_connection() -> None:
    async def talk(broker: Broker, connection: Connection) -> None:
        answer = connection.send(ALL, MetadataResponse)
        broker.deliver((9).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\0\xff\xff\xff\xff")
        with pytest.raises(CorruptMessage, match="Metadata answer that cannot be read"):
            await answer

    converse(talk)


@pytest.mark.parametrize("size", [-1, 0, 3, 2**31 - 1])
def test_an_impossible_frame_size_closes_the_connection_before_memory_is_taken(size: int) -> None:
    async def talk(broker: Broker, connection: Connection) -> None:
        answer = connection.send(ALL, MetadataResponse)
        broker.deliver(size.to_bytes(4, "big", signed=True) + b"\0\0\0\1")
        with pytest.raises(CorruptMessage, match=f"{size} bytes"):
            await answer

    converse(talk)


def test_a_request_without_an_answer_times_out_and_closes_the_connection() -> None:
    async def talk(broker: Broker, connection: Connection) -> None:
        slow = connection.send(ALL, MetadataResponse)
        with pytest.raises(RequestTimedOut, match="Metadata"):
            await connection.request(ALL, MetadataResponse, timeout_ms=10)
        assert connection.closed
        with pytest.raises(RequestTimedOut):
            await slow

    converse(talk)


def test_a_lost_connection_fails_what_is_in_flight_and_what_comes_after() -> None:
    async def talk(broker: Broker, connection: Connection) -> None:
        answer = connection.send(ALL, MetadataResponse)
        assert broker.receiver is not None
        broker.receiver.connection_lost(None)
        with pytest.raises(NetworkException, match="broker:9092 closed the connection"):
            await answer
        with pytest.raises(NetworkException):
            connection.send(ALL, MetadataResponse)

    converse(talk)


def test_a_broker_that_accepts_and_says_nothing_is_given_up() -> None:
    async def run() -> None:
        broker = Broker()
        broker.answers_versions = False
        with pytest.raises(NetworkException, match="did not answer within 20 ms"):
            await Connector(broker).connect("broker", 9092, connect_timeout_ms=20)
        assert broker.aborted

    asyncio.run(run())
