"""Describe cluster: every outcome is one error code."""

from __future__ import annotations

import asyncio

import pytest

from kavka.broker.context import CONTROLLER, NOT_ASKED, Context
from kavka.broker.handlers.describe_cluster import describe_cluster
from kavka.controller.brokers import ControllerRequest
from kavka.metadata.features import SUPPORTED
from kavka.model.errors import MismatchedEndpointType, UnsupportedEndpointType
from kavka.model.types import Endpoint, Uuid
from kavka.net.session import Session
from kavka.protocol.schemas.describe_cluster import DescribeClusterRequest
from kavka.security.acl import OPERATIONS, ResourceType

CLUSTER_OPERATIONS = sum(1 << operation for operation in OPERATIONS[ResourceType.CLUSTER])


def request(operations=False, **more):
    return DescribeClusterRequest(include_cluster_authorized_operations=operations, **more)


@pytest.mark.parametrize("version", range(3))
def test_brokers_in_service_are_listed(ask, loop, version):
    loop.broker(2, unfence=False)
    answer = ask(describe_cluster, request(True), version, loop, listener="LAN")
    assert [(broker.broker_id, broker.host) for broker in answer.brokers] == [(1, "lan1")]
    assert (answer.cluster_id, answer.controller_id) == (loop.cluster_id, 1)
    assert answer.cluster_authorized_operations == CLUSTER_OPERATIONS


def test_fenced_brokers_are_listed_on_request(ask, loop):
    loop.broker(2, unfence=False)
    answer = ask(describe_cluster, request(include_fenced_brokers=True), 2, loop)
    assert [(broker.broker_id, broker.is_fenced) for broker in answer.brokers] == [(1, False), (2, True)]
    assert answer.cluster_authorized_operations == NOT_ASKED


def test_a_listener_without_brokers_has_no_controller(ask, loop):
    assert ask(describe_cluster, request(), 1, loop, listener="OTHER").controller_id == -1


@pytest.mark.parametrize(("kind", "error"), [(2, MismatchedEndpointType), (9, UnsupportedEndpointType)])
def test_controllers_are_described_elsewhere(ask, loop, kind, error):
    with pytest.raises(error):
        ask(describe_cluster, request(endpoint_type=kind), 1, loop)


def test_a_controller_describes_the_controllers_and_who_leads_them(loop):
    endpoints = (Endpoint("CONTROLLER", "h", 9093, "PLAINTEXT"), Endpoint("OTHER", "h", 9094, "PLAINTEXT"))
    for id_ in (1, 2):
        loop.write(loop.machine.register_controller(ControllerRequest(id_, Uuid(b"c" * 16), endpoints, SUPPORTED)))
    ctx = Context(60, 1, "test", Session(1, "CONTROLLER", "127.0.0.1", 50_000), 0, kind=CONTROLLER)
    answer = asyncio.run(describe_cluster(request(endpoint_type=2), ctx, loop))
    assert [(broker.broker_id, broker.host, broker.port) for broker in answer.brokers] == [
        (1, "h", 9093),
        (2, "h", 9093),
    ]
    assert (answer.endpoint_type, answer.controller_id) == (2, 1)
    with pytest.raises(MismatchedEndpointType, match="controller's"):
        asyncio.run(describe_cluster(request(endpoint_type=1), ctx, loop))
