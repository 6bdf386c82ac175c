"""Asking other brokers: where they are registered, while they are in service."""

import asyncio
from dataclasses import replace

import pytest

from kavka.client.connector import Connector
from kavka.metadata.image import EMPTY, BrokerRegistration
from kavka.model.errors import BrokerNotAvailable, NetworkException
from kavka.model.types import Endpoint, Uuid
from kavka.protocol.header import encode_response, parse_request_header
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.api_versions import ApiVersion, ApiVersionsResponse
from kavka.protocol.schemas.list_groups import ListGroupsRequest, ListGroupsResponse
from kavka.runtime.broker_channels import BrokerChannels

OFFERED = [
    ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
    ApiVersion(api_key=ApiKey.LIST_GROUPS, min_version=0, max_version=4),
]


class Network:
    """Every address is a broker that knows of no groups."""

    def __init__(self):
        self.dialled = []
        self.wires = []

    async def dial(self, host, port, receiver):
        self.dialled.append((host, port))
        self.wires.append(Wire(receiver))
        return self.wires[-1]


class Wire:
    def __init__(self, receiver):
        self.receiver = receiver
        self.aborted = False

    def write(self, data):
        header, _ = parse_request_header(bytes(data), 4)
        answer = ListGroupsResponse(error_code=0, groups=[])
        if header.api_key == ApiKey.API_VERSIONS:
            answer = ApiVersionsResponse(error_code=0, api_keys=OFFERED)
        frame = b"".join(map(bytes, encode_response(header.api_key, header.api_version, header.correlation_id, answer)))
        self.receiver.get_buffer(-1)[: len(frame)] = frame
        self.receiver.buffer_updated(len(frame))

    def abort(self):
        self.aborted = True


class Cluster:
    """The metadata as this node knows it."""

    def __init__(self):
        self.image = EMPTY

    def register(self, node, port, *, fenced=False):
        endpoints = (Endpoint("CLIENTS", "h", 1, "PLAINTEXT"), Endpoint("BROKERS", "h", port, "PLAINTEXT"))
        broker = BrokerRegistration(node, 5, Uuid(b"i" * 16), endpoints, {}, None, fenced, False, ())
        brokers = {**self.image.cluster.brokers, node: broker}
        self.image = replace(self.image, cluster=replace(self.image.cluster, brokers=brokers))


def test_each_broker_has_one_line_to_where_it_is_registered_now(play):
    async def work():
        cluster, network = Cluster(), Network()
        channels = BrokerChannels(lambda: cluster.image, "BROKERS", Connector(network), timeout_ms=1000)
        cluster.register(1, 9001)
        cluster.register(2, 9002)
        for node in (1, 2, 1, 2):
            assert (await channels.ask(node, ListGroupsRequest())).groups == []
        assert network.dialled == [("h", 9001), ("h", 9002)]
        cluster.register(2, 9022)
        await asyncio.gather(*(channels.ask(2, ListGroupsRequest()) for _ in range(3)))
        assert network.dialled[2:] == [("h", 9022)]
        assert [wire.aborted for wire in network.wires] == [False, True, False]
        channels.close()
        assert all(wire.aborted for wire in network.wires)

    play(work())


def test_a_broker_that_is_not_in_service_is_not_asked(play):
    async def work():
        cluster, network = Cluster(), Network()
        channels = BrokerChannels(lambda: cluster.image, "BROKERS", Connector(network), timeout_ms=1000)
        cluster.register(1, 9001, fenced=True)
        for node in (1, 2):
            with pytest.raises(BrokerNotAvailable, match=f"broker {node}"):
                await channels.ask(node, ListGroupsRequest())
        cluster.register(1, 9001)
        await channels.ask(1, ListGroupsRequest())
        cluster.register(1, 9001, fenced=True)
        with pytest.raises(BrokerNotAvailable):
            await channels.ask(1, ListGroupsRequest())
        assert network.dialled == [("h", 9001)]

    play(work())


def test_a_broker_that_goes_away_is_an_error_and_is_dialled_again(play):
    async def work():
        cluster, network = Cluster(), Network()
        channels = BrokerChannels(lambda: cluster.image, "BROKERS", Connector(network), timeout_ms=1000)
        cluster.register(1, 9001)
        await channels.ask(1, ListGroupsRequest())
        wire = network.wires[0]
        wire.write = lambda data: wire.receiver.connection_lost(None)
        with pytest.raises(NetworkException):
            await channels.ask(1, ListGroupsRequest())
        await channels.ask(1, ListGroupsRequest())
        assert len(network.dialled) == 2

    play(work())
