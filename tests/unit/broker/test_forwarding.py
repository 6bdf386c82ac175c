"""Requests that reach the active controller from nodes that are not it, over real connections."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kavka.broker.context import CONTROLLER, Context
from kavka.broker.dispatch import Dispatcher
from kavka.broker.forwarding import Forwarding, pack_host, pack_principal, unpack_host, unpack_principal
from kavka.broker.gate import Gate
from kavka.broker.handlers import load
from kavka.broker.handlers.marks import NOTHING, handler
from kavka.client.connector import Connector
from kavka.model.clock import ManualClock
from kavka.model.errors import (
    InvalidRequest,
    NotController,
    PrincipalDeserializationFailure,
    RequestTimedOut,
    SaslAuthenticationFailed,
    UnknownServerError,
    UnsupportedVersion,
)
from kavka.net.limits import ConnectionLimits
from kavka.net.server import Server, SocketOptions, bind
from kavka.net.session import Session
from kavka.protocol.header import encode_request
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kavka.protocol.schemas.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kavka.protocol.schemas.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kavka.protocol.schemas.envelope import EnvelopeRequest, EnvelopeResponse
from kavka.protocol.schemas.list_groups import ListGroupsRequest
from kavka.quorum.channel import ControllerChannel, refuses

LIMITS = ConnectionLimits(total=100, per_host=100, per_host_overrides={}, max_frame_bytes=1 << 20, idle_ms=-1)
BEAT = BrokerHeartbeatRequest(
    broker_id=1, broker_epoch=5, current_metadata_offset=9, want_fence=False, want_shut_down=False
)
TOPICS = CreateTopicsRequest(topics=[], timeout_ms=1000, validate_only=False)
CLIENT = Context(ApiKey.CREATE_TOPICS, 7, "app", Session(4, "PLAINTEXT", "10.1.2.3", 50_000, "User:alice"), 0)


class Quorum:
    """Who leads, as a test decides."""

    def __init__(self):
        self.is_active = False
        self.leader_endpoint = None
        self._told = []

    def on_leader_change(self, callback):
        self._told.append(callback)

    def lead(self, endpoint=None):
        self.is_active, self.leader_endpoint = endpoint is None, endpoint
        for callback in self._told:
            callback()


def created(name, code=0):
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=name, error_code=code, error_message=None)])


def handlers(name, *, code=0, closed=None, hang=False, login=0):
    """The handlers of a controller that says who it is."""

    @handler(ApiVersionsRequest, NOTHING)
    async def api_versions(request: ApiVersionsRequest, ctx: Context) -> ApiVersionsResponse:
        keys = (ApiKey.API_VERSIONS, ApiKey.ENVELOPE, ApiKey.BROKER_HEARTBEAT)
        return ApiVersionsResponse(
            error_code=login, api_keys=[ApiVersion(api_key=k, min_version=0, max_version=0) for k in keys]
        )

    @handler(BrokerHeartbeatRequest, NOTHING)
    async def broker_heartbeat(request: BrokerHeartbeatRequest, ctx: Context) -> BrokerHeartbeatResponse:
        assert ctx.kind == CONTROLLER
        if closed is not None:
            ctx.on_close("beat", lambda: closed.append((name, request.broker_id)))
        if hang:
            await asyncio.get_running_loop().create_future()
        return BrokerHeartbeatResponse(error_code=code, should_shut_down=False)

    @handler(CreateTopicsRequest, NOTHING)
    async def create_topics(request: CreateTopicsRequest, ctx: Context) -> CreateTopicsResponse:
        return created(f"{name} for {ctx.principal} at {ctx.client_host} by {ctx.client_id}", code)

    found = {each.__name__: each for each in (api_versions, broker_heartbeat, create_topics)}
    return lambda stem: found[stem] if stem in found else load(stem)


@asynccontextmanager
async def controller(*args, **options):
    """A controller on a free port; yields its address."""
    listener = bind("CONTROLLER", "127.0.0.1", 0, SocketOptions())
    async with asyncio.TaskGroup() as tasks:
        stems = ["api_versions", "broker_heartbeat", "create_topics", "envelope"]
        dispatcher = Dispatcher(
            stems, (Gate(None),), {}, tasks, ManualClock(), handlers(*args, **options), kind=CONTROLLER
        )
        server = Server([listener], dispatcher, LIMITS, SocketOptions(), ManualClock())
        running = tasks.create_task(server.run())
        yield ("127.0.0.1", listener.port)
        dispatcher.give_up()
        running.cancel()


def channel(quorum, local=None, timeout_ms=5000):
    return ControllerChannel(quorum, local, Connector(), timeout_ms=timeout_ms)


def go(work):
    return asyncio.run(asyncio.wait_for(work, 30))


def test_a_request_goes_to_the_node_that_leads_and_follows_the_leadership():
    async def work():
        quorum = Quorum()
        asked = []

        async def local(request):
            asked.append(request)
            return BrokerHeartbeatResponse(throttle_time_ms=7, error_code=0, should_shut_down=False)

        to_controller = channel(quorum, local)
        closed: list[Any] = []
        async with controller("a", closed=closed) as a, controller("b", closed=closed) as b:
            answer = asyncio.create_task(to_controller.call(BEAT))
            await asyncio.sleep(0)
            assert not answer.done()
            quorum.lead(a)
            assert (await answer).throttle_time_ms == 0
            quorum.lead(b)
            await to_controller.call(BEAT)
            assert closed == [("a", 1)]
            quorum.lead()
            assert (await to_controller.call(BEAT)).throttle_time_ms == 7
            assert asked == [BEAT]
            to_controller.close()

    go(work())


def test_a_request_that_hangs_at_a_leader_is_asked_of_the_next_one():
    async def work():
        quorum, closed = Quorum(), []
        to_controller = channel(quorum)
        async with controller("a", closed=closed, hang=True) as a, controller("b") as b:
            quorum.lead(a)
            answer = asyncio.create_task(to_controller.call(BEAT))
            while not to_controller.line.connection or not to_controller.line.connection.in_flight:
                await asyncio.sleep(0.001)
            quorum.lead(b)
            assert (await answer).error_code == 0
            to_controller.close()

    go(work())


def test_a_connection_that_the_controller_ends_is_noticed_at_once():
    async def work():
        quorum, lost = Quorum(), asyncio.Event()
        to_controller = channel(quorum)
        to_controller.on_lost = lost.set
        async with controller("a") as a:
            quorum.lead(a)
            await to_controller.call(BEAT)
            quorum.lead(("127.0.0.1", 1))
            await asyncio.sleep(0)
            assert not lost.is_set()  # it hung up itself
            quorum.lead(a)
            await to_controller.call(BEAT)
        await lost.wait()
        to_controller.close()

    go(work())


def test_a_node_that_does_not_lead_any_more_is_asked_again_until_time_is_up():
    async def work():
        quorum = Quorum()
        to_controller = channel(quorum, timeout_ms=200)
        with pytest.raises(RequestTimedOut, match="no controller"):
            await to_controller.call(BEAT)
        async with controller("a", code=NotController.code) as a:
            quorum.lead(a)
            with pytest.raises(RequestTimedOut, match="does not lead"):
                await to_controller.call(BEAT)
        with pytest.raises(RequestTimedOut, match="cannot connect"):
            await to_controller.call(BEAT)
        to_controller.close()
        with pytest.raises(RequestTimedOut):
            await to_controller.call(BEAT)

    go(work())


def wrapped(forwarding, outcomes):
    """A handler of this node that answers or raises what a test says."""

    async def here(request, ctx):
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return forwarding.wrap(ApiKey.CREATE_TOPICS, here)


def test_a_clients_request_is_served_by_the_controller_in_the_clients_name():
    async def work():
        quorum = Quorum()
        forwarding = Forwarding(quorum, channel(quorum))
        async with controller("far") as far:
            quorum.lead(far)
            answer = await wrapped(forwarding, [])(TOPICS, CLIENT)
        assert [row.name for row in answer.topics] == ["far for User:alice at 10.1.2.3 by app"]

    go(work())


def test_what_the_controller_answers_a_client_is_told():
    told = []

    async def work():
        quorum = Quorum()
        forwarding = Forwarding(quorum, channel(quorum), lambda response, ctx: told.append((response, ctx)))
        ask = wrapped(forwarding, [created("near")])
        quorum.lead()
        await ask(TOPICS, CLIENT)
        assert told == [], "what this node has decided itself is told by its gate"
        async with controller("far") as far:
            quorum.lead(far)
            await ask(TOPICS, CLIENT)

    go(work())
    ((response, ctx),) = told
    assert (response.topics[0].name, ctx) == ("far for User:alice at 10.1.2.3 by app", CLIENT)


@pytest.mark.parametrize("lost", [NotController(), created("x", NotController.code)])
def test_a_node_that_loses_its_leadership_meanwhile_sends_the_request_on(lost):
    async def work():
        quorum = Quorum()
        forwarding = Forwarding(quorum, channel(quorum))
        quorum.lead()
        ask = wrapped(forwarding, [created("near"), lost])
        assert (await ask(TOPICS, CLIENT)).topics[0].name == "near"
        async with controller("far") as far:
            asyncio.get_running_loop().call_soon(quorum.lead, far)
            quorum.is_active = True
            answer = asyncio.create_task(ask(TOPICS, CLIENT))
            assert (await answer).topics[0].name.startswith("far")

    go(work())


def test_without_a_controller_the_handler_says_so_in_its_own_way():
    async def work():
        quorum = Quorum()
        forwarding = Forwarding(quorum, channel(quorum, timeout_ms=50))
        answer = await wrapped(forwarding, [created("x", NotController.code)])(TOPICS, CLIENT)
        assert answer.topics[0].error_code == NotController.code

    go(work())


def test_a_node_alone_and_apis_of_brokers_are_left_as_they_are():
    async def here(request, ctx):
        raise AssertionError

    assert Forwarding().wrap(ApiKey.CREATE_TOPICS, here) is here
    quorum = Quorum()

    async def work():
        assert Forwarding(quorum, channel(quorum)).wrap(ApiKey.METADATA, here) is here
        with pytest.raises(NotController):
            await Forwarding().send(TOPICS, CLIENT)

    go(work())


ALICE = pack_principal("User:alice")


def envelope(data=None, principal=ALICE, host=bytes(4)):
    data = data if data is not None else encode_request(7, 3, "app", TOPICS)[4:]
    return EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=host)


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (envelope(host=b"abc"), InvalidRequest.code),
        (envelope(principal=b"\0\1xx"), PrincipalDeserializationFailure.code),
        (envelope(principal=None), PrincipalDeserializationFailure.code),
        (envelope(principal=b"\0\0\5"), PrincipalDeserializationFailure.code),
        (envelope(data=b"\0"), UnsupportedVersion.code),
        (envelope(data=b"\0\x13\0\x63" + bytes(20)), UnsupportedVersion.code),
        (envelope(data=b"\0\x13\0\x07" + bytes(9)), UnsupportedVersion.code),
        (envelope(data=b"\0\x10\0\x00" + bytes(20)), InvalidRequest.code),
    ],
)
def test_a_bad_envelope_is_refused_with_kafkas_codes(bad, code):
    async def work():
        quorum = Quorum()
        async with controller("a") as a:
            quorum.lead(a)
            answer = await channel(quorum).call(bad)
        assert (answer.error_code, answer.response_data) == (code, None)

    go(work())


@pytest.mark.parametrize(("code", "error"), [(35, UnsupportedVersion), (42, UnknownServerError)])
def test_an_error_of_the_envelope_itself_is_not_the_clients(code, error):
    async def work():
        quorum = Quorum()

        async def local(request):
            return EnvelopeResponse(error_code=code)

        quorum.lead()
        with pytest.raises(error):
            await Forwarding(quorum, channel(quorum, local)).send(TOPICS, CLIENT)

    go(work())


def test_a_controller_that_does_not_let_this_node_in_is_not_the_clients_fault():
    async def work():
        quorum = Quorum()
        forwarding = Forwarding(quorum, channel(quorum))
        async with controller("far", login=SaslAuthenticationFailed.code) as far:
            quorum.lead(far)
            with pytest.raises(UnknownServerError, match="does not let this node in"):
                await wrapped(forwarding, [])(TOPICS, CLIENT)

    go(work())


def test_a_principal_and_an_address_come_back_as_they_were():
    assert unpack_principal(pack_principal("User:al:ice")) == ("User:al:ice", False)
    assert unpack_principal(pack_principal("User:al:ice", token_authenticated=True)) == ("User:al:ice", True)
    for host in ("10.0.0.1", "::1"):
        assert unpack_host(pack_host(host)) == host
    assert unpack_host(pack_host("nowhere")) == "0.0.0.0"


def test_an_error_is_found_wherever_it_is_in_a_response():
    assert asyncio.run(refuses(BrokerHeartbeatResponse(error_code=41, should_shut_down=False), 41))
    assert asyncio.run(refuses(created("x", 41), 41))
    assert not asyncio.run(refuses(created("x", 40), 41))
    assert not asyncio.run(refuses(ListGroupsRequest(), 41))
