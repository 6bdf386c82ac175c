"""A quota that the test plays: asked once per request, and what it says is in the response and done to the client."""

from __future__ import annotations

import asyncio

import pytest

from kavka.broker.context import Context
from kavka.broker.dispatch import Dispatcher
from kavka.broker.handlers.marks import NOTHING, handler
from kavka.kernels.frames import encode_produce_response
from kavka.model.clock import ManualClock
from kavka.model.errors import NotController
from kavka.net.responses import PENDING
from kavka.net.session import Session
from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kavka.protocol.schemas.produce import ProduceRequest

REQUEST = DescribeClusterRequest(include_cluster_authorized_operations=False)
SESSION = Session(7, "PLAINTEXT", "127.0.0.1", 50_000, "User:alice")


class Slot:
    """A place for one late answer."""

    closed = False

    def __init__(self):
        self.pieces = None

    def answer(self, pieces):
        self.pieces = pieces


class Client:
    """A connection that takes note of how long it is muted."""

    session = SESSION

    def __init__(self):
        self.slot = Slot()
        self.muted = []

    def open_slot(self, *, exclusive):
        return self.slot

    def mute(self, throttle_ms):
        self.muted.append(throttle_ms)

    def when_closed(self, key, callback):
        raise AssertionError("nobody asked for that")


class Quota:
    """Says what it is told to, and remembers what it was asked."""

    def __init__(self, throttle_ms):
        self.throttle_ms = throttle_ms
        self.asked = []

    def __call__(self, session, client_id, api_key, request_bytes, response):
        size = None if response is None else sum(map(len, response))
        self.asked.append((session, client_id, api_key, request_bytes, size))
        return self.throttle_ms


@handler(DescribeClusterRequest, NOTHING)
async def at_once(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        throttle_time_ms=0, error_code=0, error_message=None, cluster_id="c", brokers=[], controller_id=1
    )


@handler(DescribeClusterRequest, NOTHING)
async def later(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
    await asyncio.sleep(0)
    return await at_once(request, ctx)


@handler(DescribeClusterRequest, NOTHING)
async def refused(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
    raise NotController


def produced(version, correlation_id):
    return encode_produce_response(version, correlation_id, [("orders", [(0, 0, 17, -1, 0)])])


class ProducesLater:
    """Answers through a slot, as Produce does when it waits for replicas."""

    def __call__(self, connection, buffer, pos, end, version, correlation_id, client_id):
        slot = connection.open_slot(exclusive=False)
        assert not slot.closed
        slot.answer([produced(version, correlation_id)])
        return PENDING


class ProducesAtOnce:
    def __call__(self, connection, buffer, pos, end, version, correlation_id, client_id):
        assert connection.session is SESSION
        return produced(version, correlation_id)


class ProducesSilently:
    """As Produce with acks=0."""

    def __call__(self, connection, buffer, pos, end, version, correlation_id, client_id):
        return None


def dispatch(request, version, quota, function=None, hot=None):
    """What the client gets, if anything, after the quota has been asked."""

    async def go():
        async with asyncio.TaskGroup() as tasks:
            dispatcher = Dispatcher(
                ["describe_cluster"],
                (),
                {} if hot is None else {ApiKey.PRODUCE: hot},
                tasks,
                ManualClock(),
                load=lambda stem: function,
                throttle=quota,
            )
            client = Client()
            data = memoryview(encode_request(version, 5, "app", request))
            reply = dispatcher(client, data, 4, len(data))
        return client, client.slot.pieces if reply is PENDING else reply, len(data) - 4

    return asyncio.run(go())


@pytest.mark.parametrize("function", [at_once, later, refused])
@pytest.mark.parametrize("throttle_ms", [0, 250])
def test_an_answer_at_once_or_later_tells_the_time_and_the_client_is_muted(function, throttle_ms):
    quota = Quota(throttle_ms)
    client, answer, asked = dispatch(REQUEST, 1, quota, function)
    whole = b"".join(answer)
    response = parse_response(API[ApiKey.DESCRIBE_CLUSTER], 1, whole[4:])[1]
    assert response.throttle_time_ms == throttle_ms
    assert client.muted == ([throttle_ms] if throttle_ms else [])
    assert quota.asked == [(SESSION, "app", ApiKey.DESCRIBE_CLUSTER, asked, len(whole))]


@pytest.mark.parametrize("hot", [ProducesAtOnce(), ProducesLater()])
@pytest.mark.parametrize("throttle_ms", [0, 250])
def test_so_do_the_answers_of_hot_handlers(hot, throttle_ms):
    quota = Quota(throttle_ms)
    client, answer, asked = dispatch(ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 9, quota, hot=hot)
    whole = b"".join(answer)
    response = parse_response(API[ApiKey.PRODUCE], 9, whole[4:])[1]
    assert response.throttle_time_ms == throttle_ms
    assert response.responses[0].partition_responses[0].base_offset == 17
    assert client.muted == ([throttle_ms] if throttle_ms else [])
    assert quota.asked == [(SESSION, "app", ApiKey.PRODUCE, asked, len(whole))]


def test_a_client_that_gets_no_answer_is_muted_too():
    quota = Quota(250)
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
    client, answer, asked = dispatch(request, 9, quota, hot=ProducesSilently())
    assert answer is None
    assert client.muted == [250]
    assert quota.asked == [(SESSION, "app", ApiKey.PRODUCE, asked, None)]
