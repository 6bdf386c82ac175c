"""Quotas are asked once per request, and what they say is in the response and done to the client."""

from __future__ import annotations

import asyncio
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.broker.context import Context
from kavka.broker.dispatch import Dispatcher
from kavka.broker.handlers.marks import NOTHING, handler
from kavka.broker.quotas import Quotas
from kavka.broker.throttling import ReadMeter, Throttled, limited
from kavka.kernels.frames import encode_fetch_response, encode_produce_response
from kavka.metadata.delta import apply
from kavka.metadata.image.metadata import EMPTY
from kavka.metadata.records.settings import ClientQuotaRecord, EntityData
from kavka.model.clock import ManualClock
from kavka.model.errors import NotController
from kavka.model.settings import broker_values
from kavka.net.responses import PENDING
from kavka.net.session import Session
from kavka.protocol.header import encode_request, encode_response, parse_response
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schema import replace
from kavka.protocol.schemas.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kavka.protocol.schemas.fetch import FetchRequest
from kavka.protocol.schemas.produce import ProduceRequest
from kavka.protocol.schemas.share_fetch import ShareFetchRequest, ShareFetchResponse

REQUEST = DescribeClusterRequest(include_cluster_authorized_operations=False)
SESSION = Session(7, "PLAINTEXT", "127.0.0.1", 50_000, "User:alice")


class Slot:
    """A place for one late answer."""

    left = False
    closed = False

    def __init__(self):
        self.pieces = None

    def answer(self, pieces):
        self.pieces = pieces


class Client:
    """A connection that takes note of how long it is muted."""

    session = SESSION
    together = False

    def __init__(self):
        self.slot = Slot()
        self.muted = []

    def open_slot(self, *, exclusive):
        return self.slot

    def when_answered(self, told):
        """Nobody asks how long it took."""

    def mute(self, throttle_ms):
        self.muted.append(throttle_ms)

    def when_closed(self, key, callback):
        raise AssertionError("nobody asked for that")


def quotas(**limits):
    """What the client "app" may use, in units of what is asked for here."""
    records = [
        ClientQuotaRecord(
            entity=[EntityData(entity_type="client-id", entity_name="app")], key=key, value=value, remove=False
        )
        for key, value in limits.items()
    ]
    image, delta = apply(EMPTY, records, 1, 1)
    made = Quotas(broker_values({}), ManualClock())
    made.apply(image, delta)
    return made


@handler(DescribeClusterRequest, NOTHING)
async def at_once(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=0, error_message=None, cluster_id="c", brokers=[], controller_id=1)


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


def dispatch(request, version, quota, function=None, hot=None, key=ApiKey.PRODUCE, together=False):
    """What the client gets, if anything, after the quota has been asked."""

    async def go():
        async with asyncio.TaskGroup() as tasks:
            dispatcher = Dispatcher(
                ["describe_cluster"],
                (),
                {} if hot is None else {key: hot},
                tasks,
                ManualClock(),
                load=lambda stem: function,
            )
            quota.subscribe(dispatcher.hold_against)
            client = Client()
            client.together = together
            data = memoryview(encode_request(version, 5, "app", request))
            reply = dispatcher(client, data, 4, len(data))
        pieces = client.slot.pieces if reply is PENDING else [reply] if isinstance(reply, bytes) else reply
        return client, pieces, len(data) - 4

    return asyncio.run(go())


BUSY = {"request_percentage": 1e-12}
"""So little of the loop's time that every request uses more."""


@pytest.mark.parametrize("function", [at_once, later, refused])
@pytest.mark.parametrize("limits", [{}, {"request_percentage": 1e9}, BUSY])
def test_an_answer_at_once_or_later_tells_the_time_and_the_client_is_muted(function, limits):
    quota = quotas(**limits)
    client, answer, _ = dispatch(REQUEST, 1, quota, function)
    response = parse_response(API[ApiKey.DESCRIBE_CLUSTER], 1, b"".join(answer)[4:])[1]
    waits = [1000] if limits == BUSY else []  # for the time of requests a client waits a window at most
    assert response.throttle_time_ms == sum(waits)
    assert client.muted == waits
    assert quota.waits["request_percentage"] == len(waits)


def test_a_client_waits_as_long_as_the_controller_says():
    @handler(DescribeClusterRequest, NOTHING)
    async def told(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        return replace(await later(request, ctx), throttle_time_ms=700)

    quota = quotas(controller_mutation_rate=1.0)
    client, answer, _ = dispatch(REQUEST, 1, quota, told)
    assert parse_response(API[ApiKey.DESCRIBE_CLUSTER], 1, b"".join(answer)[4:])[1].throttle_time_ms == 700
    assert client.muted == [700]
    assert quota.waits["controller_mutation_rate"] == 1


PRODUCE = ProduceRequest(acks=1, timeout_ms=1, topic_data=[])


@pytest.mark.parametrize("hot", [ProducesAtOnce(), ProducesLater()])
@pytest.mark.parametrize("rate", [1.0, 1e6])
def test_so_do_the_answers_of_hot_handlers(hot, rate):
    client, answer, asked = dispatch(PRODUCE, 9, quotas(producer_byte_rate=rate), hot=hot)
    waits = [] if rate > asked else [1000 * (asked - 10)]  # what goes beyond ten seconds' worth, at 1 byte a second
    response = parse_response(API[ApiKey.PRODUCE], 9, b"".join(answer)[4:])[1]
    assert response.throttle_time_ms == sum(waits)
    assert response.responses[0].partition_responses[0].base_offset == 17
    assert client.muted == waits


def test_the_longer_of_two_times_counts():
    quota = quotas(producer_byte_rate=1.0, **BUSY)
    client, _, asked = dispatch(PRODUCE, 9, quota, hot=ProducesAtOnce())
    assert client.muted == [1000 * (asked - 10)]
    assert (quota.waits["producer_byte_rate"], quota.waits["request_percentage"]) == (1, 0)


def test_a_client_that_gets_no_answer_is_muted_for_its_bytes_but_not_for_its_time():
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
    client, answer, asked = dispatch(request, 9, quotas(producer_byte_rate=1.0), hot=ProducesSilently())
    assert answer is None
    assert client.muted == [1000 * (asked - 10)]
    assert dispatch(request, 9, quotas(**BUSY), hot=ProducesSilently())[0].muted == []


@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_CLUSTER, ApiKey.PRODUCE])
def test_a_request_far_from_its_quotas_is_counted_without_an_object_for_it(key):
    quota = quotas(request_percentage=50, producer_byte_rate=1000)
    used = quota.of(SESSION, "app")
    assert limited(quota, Client(), key, 1, "app", 100) is used.request
    used.request.record(401, 0)  # of the 500 that ten seconds allow
    assert isinstance(limited(quota, Client(), key, 1, "app", 100), Throttled)
    counted = 200 if key == ApiKey.PRODUCE else 0
    assert used.produce.per_second(0) * 10 == counted


def test_the_time_of_a_request_alone_is_counted_whenever_it_is_answered():
    for function in (at_once, later, refused):
        quota = quotas(request_percentage=50)
        client, answer, _ = dispatch(REQUEST, 1, quota, function)
        assert answer
        assert quota.of(SESSION, "app").request.per_second(0) > 0
        assert (client.together, client.muted) == (False, [])
    for hot, is_counted in ((ProducesAtOnce(), True), (ProducesLater(), True), (ProducesSilently(), False)):
        quota = quotas(request_percentage=50)
        client, _, _ = dispatch(PRODUCE, 9, quota, hot=hot)
        assert (quota.of(SESSION, "app").request.per_second(0) > 0) == is_counted
        assert (client.together, client.muted) == (False, [])


def test_another_client_is_not_counted():
    quota = quotas(producer_byte_rate=1.0)
    assert quota.of(SESSION, "other") is None
    dispatch(REQUEST, 1, quota, at_once)
    assert quota.waits == dict.fromkeys(quota.waits, 0)


class Fetches:
    """Would answer with so many bytes, as Fetch does."""

    def __init__(self, size, follower=False):
        self.size = size
        self.follower = follower
        self.most = self.held = 0

    def __call__(self, connection, buffer, pos, end, version, correlation_id, client_id):
        if self.follower:
            connection.exempt()
        else:
            self.most = connection.most_fetched
            self.held = connection.hold(self.size)
        return encode_fetch_response(version, correlation_id, self.held, 0, 0, [])


FETCH = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])


def test_a_fetch_is_counted_before_it_is_answered_and_only_once():
    quota = quotas(consumer_byte_rate=100.0, request_percentage=1e9)
    fetches = Fetches(1500)
    client, answer, _ = dispatch(FETCH, 12, quota, hot=fetches, key=ApiKey.FETCH)
    assert (fetches.most, fetches.held, client.muted) == (1000, 5000, [5000])
    assert parse_response(API[ApiKey.FETCH], 12, b"".join(answer)[4:])[1].throttle_time_ms == 5000
    less = Fetches(1000)
    client, _, _ = dispatch(FETCH, 12, quota, hot=less, key=ApiKey.FETCH)
    assert (less.held, client.muted) == (0, [])  # what was not given was not used


def test_a_follower_is_exempt():
    client, _, _ = dispatch(FETCH, 12, quotas(consumer_byte_rate=1.0, **BUSY), hot=Fetches(10, True), key=ApiKey.FETCH)
    assert client.muted == []


def test_what_a_share_consumer_has_acquired_it_gets_and_waits_after_it():
    answer = ShareFetchResponse(error_code=0, acquisition_lock_timeout_ms=5, responses=[], node_endpoints=[])

    class SharesRecords:
        def __call__(self, connection, buffer, pos, end, version, correlation_id, client_id):
            return encode_response(ApiKey.SHARE_FETCH, version, correlation_id, answer)

    request = ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=0,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        max_records=1,
        batch_size=1,
        topics=[],
        forgotten_topics_data=[],
    )
    quota = quotas(consumer_byte_rate=0.1)
    client, pieces, _ = dispatch(request, 1, quota, hot=SharesRecords(), key=ApiKey.SHARE_FETCH)
    size = sum(map(len, pieces))
    told = parse_response(API[ApiKey.SHARE_FETCH], 1, b"".join(pieces)[4:])[1]
    assert (told.throttle_time_ms, told.acquisition_lock_timeout_ms) == (10_000 * (size - 1), 5)
    assert client.muted == [10_000 * (size - 1)]
    assert quota.waits["consumer_byte_rate"] == 1


def read_of(sizes, client_id="app"):
    """What one read brings: Produce requests of these sizes, each with its own before it."""
    data, frames = b"", []
    for size in sizes:
        header = struct.pack(">hhih", ApiKey.PRODUCE, 9, 1, len(client_id)) + client_id.encode()
        frame = header.ljust(size, b"x")
        data += struct.pack(">i", len(frame)) + frame
        frames.append((len(data) - len(frame), len(data)))
    return memoryview(data), frames


def metered(quota):
    meter = ReadMeter(quota)
    quota.subscribe(meter.follow)
    assert meter.on
    return meter


READS = st.lists(st.tuples(st.integers(0, 3000), st.lists(st.integers(20, 400), min_size=1, max_size=6)), max_size=30)


@given(READS, st.integers(1, 500))
def test_requests_that_are_counted_together_wait_as_if_each_were_counted(reads, rate):
    each, together = quotas(producer_byte_rate=rate), quotas(producer_byte_rate=rate)
    meter, now = metered(together), [0]
    each.now_ms = together.now_ms = lambda: now[0]
    for later_ms, sizes in reads:
        now[0] += later_ms
        buffer, frames = read_of(sizes)
        counted = meter.begin(Client(), buffer, frames)
        for start, end in frames:
            waits = []
            for quota in (each,) if counted else (each, together):
                client = Client()
                request = limited(quota, client, ApiKey.PRODUCE, 9, "app", end - start)
                if request is not None:
                    request.settle(None)
                waits.append(client.muted)
            assert waits == ([[]] if counted else [waits[0]] * 2)
        if counted:
            counted(frames[-1][1], 0)
        assert together.of(SESSION, "app").produce.per_second(now[0]) == each.of(SESSION, "app").produce.per_second(
            now[0]
        )


def test_only_what_was_served_is_counted():
    quota = quotas(producer_byte_rate=1000)
    buffer, frames = read_of([100, 200, 300])
    metered(quota).begin(Client(), buffer, frames)(frames[1][1], 0)
    assert quota.of(SESSION, "app").produce.per_second(0) * 10 == 300


def test_the_time_of_a_whole_read_is_counted_unless_its_client_is_near_its_quota():
    quota = quotas(request_percentage=50)
    meter = metered(quota)
    buffer, frames = read_of([100])
    meter.begin(Client(), buffer, frames)(frames[-1][1], 0)
    used = quota.of(SESSION, "app").request
    assert used.per_second(0) > 0
    used.record(401, 0)  # of the 500 that ten seconds allow
    assert meter.begin(Client(), buffer, frames) is None


def test_the_time_of_requests_without_an_answer_is_not_counted():
    quota = quotas(request_percentage=50, producer_byte_rate=1000)
    buffer, frames = read_of([100, 100])
    metered(quota).begin(Client(), buffer, frames)(frames[-1][1], 2)
    used = quota.of(SESSION, "app")
    assert (used.request.per_second(0), used.produce.per_second(0) * 10) == (0, 200)


def test_a_request_that_is_counted_with_others_is_counted_alone_from_when_it_has_to_wait():
    quota = quotas(request_percentage=50)
    used = quota.of(SESSION, "app").request
    for function, counts in ((at_once, False), (later, True)):
        client, answer, _ = dispatch(REQUEST, 1, quota, function, together=True)
        assert parse_response(API[ApiKey.DESCRIBE_CLUSTER], 1, b"".join(answer)[4:])[1].throttle_time_ms == 0
        assert (used.per_second(0) > 0, client.muted) == (counts, [])
    used.record(600, 0)
    client, answer, _ = dispatch(REQUEST, 1, quota, later, together=True)
    assert client.muted == [1000]
    assert parse_response(API[ApiKey.DESCRIBE_CLUSTER], 1, b"".join(answer)[4:])[1].throttle_time_ms == 1000


def test_requests_that_change_partitions_are_counted_one_by_one():
    request = memoryview(encode_request(1, 5, "app", REQUEST))
    frames = [(4, len(request))]
    assert metered(quotas(controller_mutation_rate=1e9, request_percentage=50)).begin(Client(), request, frames) is None
    assert metered(quotas(request_percentage=50)).begin(Client(), request, frames) is not None


def test_others_are_counted_one_by_one_or_not_at_all():
    meter = metered(quotas(producer_byte_rate=1))
    buffer, frames = read_of([100], "other")
    meter.begin(Client(), buffer, frames)(frames[-1][1], 0)
    assert meter.begin(Client(), *read_of([100])) is None
    fetch = memoryview(encode_request(12, 5, "app", FETCH))
    assert meter.begin(Client(), fetch, [(4, len(fetch))]) is None
