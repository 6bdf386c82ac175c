"""A standalone node registers with its own cluster: controller and broker in one, unfenced at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kavka.controller.brokers import BrokerRequest, ControllerRequest, Heartbeat, HeartbeatReply
from kavka.controller.machine import Controller
from kavka.metadata.features import SUPPORTED
from kavka.model.transition import Transition
from kavka.model.types import Endpoint, Uuid
from kavka.quorum.controller_loop import ControllerLoop


@dataclass(frozen=True, slots=True)
class Registration:
    """What a node says of itself at this start; the endpoints have the ports that are really bound."""

    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    controller_endpoints: tuple[Endpoint, ...]
    directories: tuple[Uuid, ...]
    rack: str | None = None
    previous_epoch: int = -1
    """The broker epoch in the clean-shutdown marker; -1 after an unclean stop."""


async def register_node(loop: ControllerLoop, node: Registration, cordoned: Sequence[Uuid] = ()) -> int:
    """Register and unfence this node; its broker epoch. The three steps share one flush of the log."""
    request = BrokerRequest(
        broker_id=loop.node_id,
        cluster_id=loop.cluster_id,
        incarnation_id=node.incarnation_id,
        endpoints=node.endpoints,
        features=SUPPORTED,
        directories=node.directories,
        rack=node.rack,
        previous_epoch=node.previous_epoch,
    )
    controller = ControllerRequest(loop.node_id, node.incarnation_id, node.controller_endpoints, SUPPORTED)

    def unfence(machine: Controller, now_ms: int) -> Transition[HeartbeatReply]:
        epoch = machine.image.cluster.brokers[loop.node_id].epoch
        beat = Heartbeat(loop.node_id, epoch, machine.image.offset, cordoned=tuple(cordoned))
        return machine.heartbeat(beat, now_ms)

    epoch, _, _ = await asyncio.gather(
        loop.submit(lambda machine, now_ms: machine.register_broker(request, now_ms)),
        loop.submit(lambda machine, _: machine.register_controller(controller)),
        loop.submit(unfence),
    )
    return epoch


def bound_endpoints(advertised: Sequence[Endpoint], ports: Mapping[str, int]) -> tuple[Endpoint, ...]:
    """Advertised endpoints with the port their listener is bound to wherever port 0 left the choice to the system."""
    return tuple(
        endpoint if endpoint.port else endpoint._replace(port=ports[endpoint.listener]) for endpoint in advertised
    )
