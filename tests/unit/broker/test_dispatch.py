"""Frames through the dispatcher, with handlers that the test gives it."""

import asyncio
import gc
import warnings

import pytest

from kavka.broker.context import Context
from kavka.broker.dispatch import Dispatcher, bind
from kavka.broker.handlers.marks import NOTHING, handler, on_cluster
from kavka.model.clock import ManualClock
from kavka.model.errors import (
    ClusterAuthorizationFailed,
    InvalidRequest,
    MalformedMessage,
    NotController,
    UnsupportedVersion,
)
from kavka.net.responses import PENDING
from kavka.net.session import Session
from kavka.protocol.frame_caps import FrameCaps
from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kavka.protocol.schemas.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kavka.protocol.schemas.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kavka.security.acl import Operation, ResourceType

REQUEST = DescribeClusterRequest(include_cluster_authorized_operations=False)


class Answers:
    """A place for one late answer."""

    def __init__(self):
        self.pieces = None
        self.aborted = False
        self.left = False

    def answer(self, pieces):
        self.pieces = pieces

    def abort(self):
        self.aborted = True


class Client:
    """What a dispatcher needs of a connection."""

    def __init__(self):
        self.session = Session(7, "PLAINTEXT", "127.0.0.1", 50_000)
        self.slot = Answers()
        self.closed = False
        self.large = 0
        self.told = []

    def when_answered(self, told):
        self.told.append(told)

    def serve_large(self, size):
        self.large += size

    def close(self):
        self.closed = True

    def when_closed(self, key, callback):
        raise AssertionError("nobody asked for that")

    def open_slot(self, *, exclusive):
        assert exclusive
        return self.slot


class Words:
    def __init__(self, word):
        self.word = word


def described(cluster_id):
    return DescribeClusterResponse(error_code=0, error_message=None, cluster_id=cluster_id, brokers=[], controller_id=1)


def frame(request, version, client_id="test", correlation_id=5):
    return memoryview(bytearray(encode_request(version, correlation_id, client_id, request)))


def run(function, request, version, services=(), raw=None, guard=None):
    """What the dispatcher sends back for one request, decoded."""

    async def go():
        async with asyncio.TaskGroup() as tasks:
            stems = ["describe_cluster", "api_versions", "list_offsets"]
            dispatcher = Dispatcher(stems, services, {}, tasks, ManualClock(), load=lambda stem: function)
            client = Client()
            client.session.guard = guard
            data = raw if raw is not None else frame(request, version)
            reply = dispatcher(client, data, 4, len(data))
        return (client.slot.pieces, client.slot.aborted) if reply is PENDING else (reply, False)

    return asyncio.run(go())


def decoded(pieces, api, version):
    return parse_response(API[api], version, b"".join(pieces)[4:])


def test_a_handler_that_does_not_wait_is_answered_at_once():
    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        assert (ctx.api_version, ctx.client_id, ctx.client_host, ctx.connection_id) == (1, "test", "127.0.0.1", 7)
        return described("now")

    pieces, _ = run(describe_cluster, REQUEST, 1)
    correlation_id, response = decoded(pieces, ApiKey.DESCRIBE_CLUSTER, 1)
    assert (correlation_id, response.cluster_id) == (5, "now")


def test_the_time_of_a_request_is_counted_when_it_is_answered():
    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        if ctx.api_version == 1:
            await asyncio.sleep(0)
        return described("in time")

    async def go():
        async with asyncio.TaskGroup() as tasks:
            dispatcher = Dispatcher(
                ["describe_cluster"], (), {}, tasks, ManualClock(), load=lambda stem: describe_cluster
            )
            client, times = Client(), dispatcher.times[ApiKey.DESCRIBE_CLUSTER]
            for version, counted in ((0, 1), (1, 1)):
                data = frame(REQUEST, version)
                dispatcher(client, data, 4, len(data))
                assert times.count == counted
            client.told[0]()
            assert times.count == 2
            data[6:8] = (99).to_bytes(2, "big")
            with pytest.raises(UnsupportedVersion):
                dispatcher(client, data, 4, len(data))
            assert dispatcher.unsupported == 1

    asyncio.run(go())


def test_a_handler_that_waits_more_than_once_is_answered_through_its_slot():
    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, NotController())
        with pytest.raises(NotController):
            await future
        return described("later")

    pieces, _ = run(describe_cluster, REQUEST, 1)
    assert decoded(pieces, ApiKey.DESCRIBE_CLUSTER, 1)[1].cluster_id == "later"


def test_who_waited_for_what_failed_has_not_held_the_loop(monkeypatch, caplog):
    now = [1000.0]
    for module in ("dispatch", "holding"):
        monkeypatch.setattr(f"kavka.broker.{module}.monotonic", lambda: now[0])

    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def fail():
            now[0] += 30
            future.set_exception(NotController())

        loop.call_soon(loop.call_soon, fail)  # when it is waited for
        with pytest.raises(NotController):
            await future
        return described("later")

    pieces, _ = run(describe_cluster, REQUEST, 1)
    assert decoded(pieces, ApiKey.DESCRIBE_CLUSTER, 1)[1].cluster_id == "later"
    assert not caplog.records


def test_who_held_the_loop_and_then_failed_is_named(monkeypatch, caplog):
    now = [1000.0]
    for module in ("dispatch", "holding"):
        monkeypatch.setattr(f"kavka.broker.{module}.monotonic", lambda: now[0])

    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        await asyncio.sleep(0)
        now[0] += 30
        raise NotController("no")

    run(describe_cluster, REQUEST, 1)
    assert "event loop held by DescribeCluster v1" in caplog.text


@pytest.mark.parametrize("wait", [False, True])
def test_an_error_becomes_that_apis_response(wait):
    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        if wait:
            await asyncio.sleep(0)
        raise NotController("ask another")

    pieces, _ = run(describe_cluster, REQUEST, 1)
    response = decoded(pieces, ApiKey.DESCRIBE_CLUSTER, 1)[1]
    assert (response.error_code, response.error_message) == (NotController.code, "ask another")


def test_a_fault_of_ours_is_logged_and_answered_without_its_words(caplog):
    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        raise ZeroDivisionError("secret")

    pieces, _ = run(describe_cluster, REQUEST, 1)
    response = decoded(pieces, ApiKey.DESCRIBE_CLUSTER, 1)[1]
    assert (response.error_code, response.error_message) == (-1, None)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("wait", [False, True])
def test_where_a_response_has_no_place_for_an_error_of_its_own_each_row_says_it(wait):
    @handler(ListOffsetsRequest, NOTHING)
    async def list_offsets(request: ListOffsetsRequest, ctx: Context) -> ListOffsetsResponse:
        if wait:
            await asyncio.sleep(0)
        raise InvalidRequest("no")

    partition = ListOffsetsPartition(partition_index=3, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])])
    pieces, aborted = run(list_offsets, request, 7)
    ((topic,),) = [decoded(pieces, ApiKey.LIST_OFFSETS, 7)[1].topics]
    assert not aborted
    assert (topic.name, [(partition.partition_index, partition.error_code) for partition in topic.partitions]) == (
        "t",
        [(3, InvalidRequest.code)],
    )


class Guard:
    """Allows what it is told to, and remembers what it was asked."""

    def __init__(self, *allowed):
        self.allowed = allowed
        self.asked = []

    def allows(self, operation, resource_type, name, api_key, asked=True):
        self.asked.append((operation, resource_type, name, api_key))
        return operation in self.allowed


@pytest.mark.parametrize(("allowed", "code"), [((Operation.ALTER,), 0), ((), ClusterAuthorizationFailed.code)])
def test_a_right_that_the_whole_request_needs_is_asked_for_before_it_is_served(allowed, code):
    served = []

    @handler(DescribeClusterRequest, on_cluster(Operation.ALTER))
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        served.append(request)
        return described("yes")

    guard = Guard(*allowed)
    pieces, _ = run(describe_cluster, REQUEST, 1, guard=guard)
    assert decoded(pieces, ApiKey.DESCRIBE_CLUSTER, 1)[1].error_code == code
    assert bool(served) == (code == 0)
    assert guard.asked == [(Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster", ApiKey.DESCRIBE_CLUSTER)]


def test_an_unknown_version_of_api_versions_is_answered_at_v0_with_code_35():
    @handler(ApiVersionsRequest, NOTHING)
    async def api_versions(request: ApiVersionsRequest, ctx: Context) -> ApiVersionsResponse:
        assert ctx.api_version == 0
        keys = [ApiVersion(api_key=key, min_version=0, max_version=4) for key in (0, ApiKey.API_VERSIONS)]
        return ApiVersionsResponse(error_code=0, api_keys=keys)

    raw = bytearray(frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4))
    raw[6:8] = (99).to_bytes(2, "big")
    pieces, _ = run(api_versions, None, 0, raw=memoryview(raw))
    answer = decoded(pieces, ApiKey.API_VERSIONS, 0)[1]
    assert answer.error_code == UnsupportedVersion.code
    assert [row.api_key for row in answer.api_keys] == [ApiKey.API_VERSIONS]


def test_of_a_client_id_the_beginning_is_kept_with_the_connection():
    kept = []

    @handler(ApiVersionsRequest, NOTHING)
    async def api_versions(request: ApiVersionsRequest, ctx: Context) -> ApiVersionsResponse:
        kept.append((ctx.client_id, ctx.session.client_id))
        return ApiVersionsResponse(error_code=0, api_keys=[])

    name = "x" * 6000
    asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    run(api_versions, None, 0, raw=frame(asked, 4, name))
    assert kept == [(name, name[:512])]


@pytest.mark.parametrize(
    ("key", "version", "error"), [(60, 99, UnsupportedVersion), (999, 0, MalformedMessage), (-1, 0, MalformedMessage)]
)
def test_an_unknown_key_or_version_closes_the_connection(key, version, error):
    raw = bytearray(frame(REQUEST, 1))
    raw[4:8] = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big")
    with pytest.raises(ExceptionGroup) as raised:
        run(None, None, 0, raw=memoryview(raw))
    assert isinstance(raised.value.exceptions[0], error)


def test_services_are_given_by_type():
    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context, words: Words) -> DescribeClusterResponse:
        return described(words.word)

    pieces, _ = run(describe_cluster, REQUEST, 1, services=[object(), Words("given")])
    assert decoded(pieces, ApiKey.DESCRIBE_CLUSTER, 1)[1].cluster_id == "given"


def test_a_missing_service_fails_when_binding():
    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context, words: Words) -> DescribeClusterResponse:
        return described(words.word)

    with pytest.raises(TypeError, match="describe_cluster needs Words"):
        bind(describe_cluster, [])


def test_a_function_without_the_mark_is_no_handler():
    async def stray(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        return described("")

    with pytest.raises(TypeError, match="stray is not marked"):
        bind(stray, [])


def test_who_still_waits_when_the_node_stops_is_given_up():
    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        await asyncio.get_running_loop().create_future()
        return described("never")

    async def go():
        async with asyncio.TaskGroup() as tasks:
            dispatcher = Dispatcher(["describe_cluster"], (), {}, tasks, ManualClock(), load=lambda _: describe_cluster)
            client, data = Client(), frame(REQUEST, 1)
            assert dispatcher(client, data, 4, len(data)) is PENDING
            await asyncio.sleep(0)
            dispatcher.give_up()
        assert client.slot.pieces is None

    asyncio.run(asyncio.wait_for(go(), 10))


def test_what_comes_when_the_node_has_stopped_closes_the_connection_and_leaves_nothing_behind():
    ended = []

    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(request)
        return described("never")

    async def go():
        async with asyncio.TaskGroup() as tasks:
            dispatcher = Dispatcher(["describe_cluster"], (), {}, tasks, ManualClock(), lambda stem: describe_cluster)
        client, data = Client(), frame(REQUEST, 1)
        assert dispatcher(client, data, 4, len(data)) is PENDING
        assert client.closed
        assert ended == [REQUEST]

    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        asyncio.run(asyncio.wait_for(go(), 10))
        gc.collect()
    assert not complaints


@pytest.mark.parametrize("wait", [False, True])
def test_an_answer_that_cannot_be_encoded_is_our_fault_and_nobody_elses(wait, caplog):
    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        if wait:
            await asyncio.sleep(0)
        return described(17)

    pieces, aborted = run(describe_cluster, REQUEST, 1)
    assert not aborted
    assert decoded(pieces, ApiKey.DESCRIBE_CLUSTER, 1)[1].error_code == -1
    assert "DescribeCluster failed" in caplog.text


def test_an_answer_that_cannot_be_sent_ends_a_connection_and_not_the_node(caplog):
    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        await asyncio.sleep(0)
        return described("later")

    class Broken(Answers):
        def answer(self, pieces):
            raise ZeroDivisionError

    async def go():
        async with asyncio.TaskGroup() as tasks:
            dispatcher = Dispatcher(["describe_cluster"], (), {}, tasks, ManualClock(), load=lambda _: describe_cluster)
            client, data = Client(), frame(REQUEST, 1)
            client.slot = Broken()
            assert dispatcher(client, data, 4, len(data)) is PENDING
        assert client.slot.aborted

    asyncio.run(go())
    assert "ZeroDivisionError" in caplog.text


def many_offsets(count):
    partitions = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(count)]
    topics = [ListOffsetsTopic(name="t", partitions=partitions)]
    return ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)


def test_a_large_request_is_read_later_and_counted_until_it_is_answered():
    @handler(ListOffsetsRequest, NOTHING)
    async def list_offsets(request: ListOffsetsRequest, ctx: Context) -> ListOffsetsResponse:
        assert len(request.topics[0].partitions) == 5_000
        return ListOffsetsResponse(topics=[])

    async def test():
        async with asyncio.TaskGroup() as tasks:
            dispatcher = Dispatcher(["list_offsets"], (), {}, tasks, ManualClock(), load=lambda stem: list_offsets)
            client, data = Client(), frame(many_offsets(5_000), 7)
            assert dispatcher(client, data, 4, len(data)) is PENDING
            data[:] = bytes(len(data))  # the connection uses its buffer again
            assert client.large > 5_000
        assert decoded(client.slot.pieces, ApiKey.LIST_OFFSETS, 7)[1] == ListOffsetsResponse(topics=[])

    asyncio.run(test())


@pytest.mark.parametrize("cut", [0, 1000])
def test_a_large_request_that_cannot_be_read_or_has_too_many_items_closes_its_connection(cut):
    @handler(ListOffsetsRequest, NOTHING)
    async def list_offsets(request: ListOffsetsRequest, ctx: Context) -> ListOffsetsResponse:
        raise AssertionError("it should not have been read")

    async def test():
        async with asyncio.TaskGroup() as tasks:
            caps = FrameCaps(lists=256 << 10)  # that is, 2,048 items
            dispatcher = Dispatcher(
                ["list_offsets"], (), {}, tasks, ManualClock(), load=lambda stem: list_offsets, caps=caps
            )
            client, data = Client(), frame(many_offsets(5_000), 7)
            assert dispatcher(client, data, 4, len(data) - cut) is PENDING
        assert client.slot.aborted

    asyncio.run(test())


def test_nobody_goes_on_with_a_long_request_whose_client_is_gone():
    served = []

    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        served.append("begun")
        await asyncio.sleep(0)
        served.append("gone on with")
        return described("later")

    async def test():
        async with asyncio.TaskGroup() as tasks:
            load = lambda stem: describe_cluster  # noqa: E731
            dispatcher = Dispatcher(["describe_cluster"], (), {}, tasks, ManualClock(), load=load)
            client, data = Client(), frame(REQUEST, 1)
            assert dispatcher(client, data, 4, len(data)) is PENDING
            client.slot.left = True
        assert client.slot.pieces is None
        assert client.slot.aborted

    asyncio.run(test())
    assert served == ["begun"]


def test_a_request_waits_for_services_that_are_still_loaded_and_holds_nobody_up():
    class Coordinators:
        """A service that takes long to load."""

    class Late:
        loaded = False

        def __init__(self):
            self.go_on = asyncio.Event()

        async def load(self):
            await self.go_on.wait()
            self.loaded = True

        def __iter__(self):
            assert self.loaded, "loading holds the loop"
            yield Coordinators()

    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(
        request: DescribeClusterRequest, ctx: Context, coordinators: Coordinators
    ) -> DescribeClusterResponse:
        return described("late")

    @handler(ListOffsetsRequest, NOTHING)
    async def list_offsets(request: ListOffsetsRequest, ctx: Context) -> ListOffsetsResponse:
        return ListOffsetsResponse(topics=[])

    handlers = {"describe_cluster": describe_cluster, "list_offsets": list_offsets}

    async def test():
        late = Late()
        async with asyncio.TaskGroup() as tasks:
            dispatcher = Dispatcher(handlers, (), {}, tasks, ManualClock(), load=handlers.__getitem__, late=late)
            waits, other = Client(), Client()
            data, asked = frame(REQUEST, 1), frame(many_offsets(1), 7)
            assert dispatcher(waits, data, 4, len(data)) is PENDING
            assert dispatcher(other, asked, 4, len(asked)) is PENDING
            while other.slot.pieces is None:
                await asyncio.sleep(0)
            assert waits.slot.pieces is None
            late.go_on.set()
        assert decoded(waits.slot.pieces, ApiKey.DESCRIBE_CLUSTER, 1)[1] == described("late")

    asyncio.run(asyncio.wait_for(test(), 10))


def test_a_handler_that_cannot_be_loaded_costs_one_connection_and_is_loaded_for_the_next(caplog):
    @handler(DescribeClusterRequest, NOTHING)
    async def describe_cluster(request: DescribeClusterRequest, ctx: Context) -> DescribeClusterResponse:
        return described("loaded")

    class Late:
        loaded = True

        async def load(self):
            raise AssertionError("nobody needs more")

        def __iter__(self):
            return iter(())

    tries = []

    def load(stem):
        tries.append(stem)
        if len(tries) == 1:
            raise OSError(24, "Too many open files")
        return describe_cluster

    async def test():
        first, second = Client(), Client()
        async with asyncio.TaskGroup() as tasks:
            dispatcher = Dispatcher(["describe_cluster"], (), {}, tasks, ManualClock(), load=load, late=Late())
            for client in (first, second):
                data = frame(REQUEST, 1)
                assert dispatcher(client, data, 4, len(data)) is PENDING
                while not (client.slot.aborted or client.slot.pieces):
                    await asyncio.sleep(0)
        assert first.slot.aborted
        assert decoded(second.slot.pieces, ApiKey.DESCRIBE_CLUSTER, 1)[1] == described("loaded")

    asyncio.run(asyncio.wait_for(test(), 10))
    assert "loading what serves DescribeCluster failed" in caplog.text


def test_what_is_loaded_first_and_fails_is_told_of_and_no_fault_of_the_node(caplog):
    def load(stem):
        raise OSError(24, "Too many open files")

    async def test():
        async with asyncio.TaskGroup() as tasks:
            await Dispatcher(["api_versions"], (), {}, tasks, ManualClock(), load=load).load_first()

    asyncio.run(asyncio.wait_for(test(), 10))
    assert "loading what serves ApiVersions failed" in caplog.text
