"""DescribeCluster: v0-2.

Behaviour:  the brokers with the addresses of the listener that was asked on; fenced ones only on request (v2). On a
            controller listener the controllers, and who leads them.
Errors:     MISMATCHED_ENDPOINT_TYPE when a broker is asked for controllers or a controller for brokers, and
            UNSUPPORTED_ENDPOINT_TYPE for a type that nobody knows.
"""

from __future__ import annotations

from kavka.broker.context import CONTROLLER, Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.topology import all_brokers, controller_id
from kavka.metadata.image import MetadataImage
from kavka.model.errors import MismatchedEndpointType, UnsupportedEndpointType
from kavka.protocol.schemas.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation, ResourceType

BROKERS = 1
CONTROLLERS = 2


@handler(DescribeClusterRequest, needs=PER_ITEM)
async def describe_cluster(
    request: DescribeClusterRequest, ctx: Context, controller: ControllerLoop
) -> DescribeClusterResponse:
    """Describe the cluster."""
    if ctx.kind == CONTROLLER:
        ctx.require(Operation.ALTER, ResourceType.CLUSTER)
    if request.endpoint_type not in (BROKERS, CONTROLLERS):
        raise UnsupportedEndpointType(f"there are no endpoints of type {request.endpoint_type}")
    if (request.endpoint_type == CONTROLLERS) != (ctx.kind == CONTROLLER):
        raise MismatchedEndpointType(f"this address is a {ctx.kind}'s, and describes the nodes of its kind only")
    image = controller.image
    if ctx.kind == CONTROLLER:
        rows, chosen = controller_rows(image, ctx.listener), controller.status().leader_id
    else:
        rows = broker_rows(image, ctx.listener, fenced=request.include_fenced_brokers)
        chosen = controller_id(image, controller.node_id)
    return DescribeClusterResponse(
        error_code=0,
        endpoint_type=request.endpoint_type,
        cluster_id=controller.cluster_id,
        controller_id=chosen if chosen in {row.broker_id for row in rows} else -1,
        brokers=rows,
        cluster_authorized_operations=ctx.cluster_operations(wanted=request.include_cluster_authorized_operations),
    )


def broker_rows(image: MetadataImage, listener: str, *, fenced: bool) -> list[DescribeClusterBroker]:
    """The brokers that have a listener."""
    return [
        DescribeClusterBroker(
            broker_id=broker.id,
            host=endpoint.host,
            port=endpoint.port,
            rack=broker.rack,
            is_fenced=broker.fenced,
        )
        for broker, endpoint in all_brokers(image, listener)
        if fenced or not broker.fenced
    ]


def controller_rows(image: MetadataImage, listener: str) -> list[DescribeClusterBroker]:
    """The controllers that have registered with a listener."""
    return [
        DescribeClusterBroker(broker_id=controller.id, host=endpoint.host, port=endpoint.port, rack=None)
        for controller in image.cluster.controllers.values()
        for endpoint in controller.endpoints
        if endpoint.listener == listener
    ]
