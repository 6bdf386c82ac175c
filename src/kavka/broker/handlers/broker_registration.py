"""BrokerRegistration: v0-4.

Behaviour:  a broker says who it is, at each of its starts; it is fenced until its heartbeats show that it has read its
            own registration. The broker epoch tells this incarnation from the others. It counts as a heartbeat: until
            its session ends, or its connection closes, another incarnation is refused.
Errors:     104 another cluster, 101 the last incarnation's session has not ended, 119 directories or features that
            cannot be, 35 features that do not fit the cluster, 102 a broker of the times of ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.controller.brokers import BrokerRequest
from kavka.metadata.image.cluster import SECURITY_PROTOCOLS
from kavka.model.errors import BrokerIdNotRegistered, InvalidRegistration
from kavka.model.types import Endpoint
from kavka.protocol.schemas.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation


class Listener(Protocol):
    """A listener as registrations name it."""

    @property
    def name(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def security_protocol(self) -> int: ...


class SupportedFeature(Protocol):
    """The levels of a feature as registrations name them."""

    @property
    def name(self) -> str: ...
    @property
    def min_supported_version(self) -> int: ...
    @property
    def max_supported_version(self) -> int: ...


@handler(BrokerRegistrationRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def broker_registration(
    request: BrokerRegistrationRequest, ctx: Context, controller: ControllerLoop
) -> BrokerRegistrationResponse:
    """Register a broker."""
    if request.is_migrating_zk_broker:
        raise BrokerIdNotRegistered("brokers that use ZooKeeper are not registered here")
    wanted = BrokerRequest(
        broker_id=request.broker_id,
        cluster_id=request.cluster_id,
        incarnation_id=request.incarnation_id,
        endpoints=endpoints(request.listeners),
        features=supported(request.features),
        directories=tuple(request.log_dirs),
        rack=request.rack,
        previous_epoch=request.previous_broker_epoch,
        connection=ctx.connection_id,
    )
    epoch = await controller.submit(lambda machine, now_ms: machine.register_broker(wanted, now_ms))
    watch(ctx, controller, request.broker_id, epoch)
    return BrokerRegistrationResponse(error_code=0, broker_epoch=epoch)


def watch(ctx: Context, controller: ControllerLoop, broker_id: int, epoch: int) -> None:
    """Have the controller told when the connection that a broker was just heard on closes."""
    ctx.on_close(("broker", broker_id), lambda: controller.broker_disconnected(broker_id, epoch, ctx.connection_id))


def endpoints(listeners: Iterable[Listener]) -> tuple[Endpoint, ...]:
    """Where a node is reached; raises InvalidRegistration."""
    found: dict[str, Endpoint] = {}
    for listener in listeners:
        if not 0 <= listener.security_protocol < len(SECURITY_PROTOCOLS):
            raise InvalidRegistration(
                f"listener {listener.name} has unknown security protocol {listener.security_protocol}"
            )
        if listener.name in found:
            raise InvalidRegistration(f"there are two listeners named {listener.name}")
        found[listener.name] = Endpoint(
            listener.name, listener.host, listener.port, SECURITY_PROTOCOLS[listener.security_protocol]
        )
    return tuple(found.values())


def supported(features: Iterable[SupportedFeature]) -> dict[str, tuple[int, int]]:
    """The levels of each feature that a node supports."""
    return {feature.name: (feature.min_supported_version, feature.max_supported_version) for feature in features}
