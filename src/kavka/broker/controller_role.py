"""A node's part in the quorum: its own way to the active controller, and the listener that other nodes ask on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from kavka.broker.config import NodeConfig
from kavka.broker.context import CONTROLLER, Context
from kavka.broker.dispatch import Dispatcher, Handler
from kavka.broker.forwarding import Forwarding
from kavka.broker.gate import Gate
from kavka.broker.handlers import HANDLERS
from kavka.broker.limits import connection_limits, frame_caps, socket_options
from kavka.broker.quotas import Quotas
from kavka.client.connector import Connector
from kavka.metadata.live import LiveSettings
from kavka.model.clock import Clock
from kavka.net.server import BoundListener, Server
from kavka.net.session import Session
from kavka.protocol.registry import API
from kavka.protocol.schema import declared
from kavka.quorum.channel import ControllerChannel
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.recovery import UncleanRecovery
from kavka.runtime.broker_channels import BrokerChannels

NO_CONNECTION: Final = -1


class ControllerRole:
    """Serves the controllers' APIs: to this node itself, and to others where there are listeners for it."""

    def __init__(
        self,
        config: NodeConfig,
        settings: LiveSettings,
        controller: ControllerLoop,
        listeners: list[BoundListener],
        tasks: asyncio.TaskGroup,
        clock: Clock,
        connector: Connector,
        gate: Gate,
        quotas: Quotas,
        brokers: BrokerChannels,
        wrap: Callable[[int, Handler], Handler] | None = None,
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._connector = connector
        self._channels: list[ControllerChannel] = []
        self._brokers = brokers
        self.recovery = UncleanRecovery(controller, brokers.ask)
        values = config.values
        services = (controller, controller.quorum, settings, Forwarding(), gate, quotas, self.recovery)
        caps = frame_caps(values)
        self.dispatcher = Dispatcher(HANDLERS, services, {}, tasks, clock, kind=CONTROLLER, wrap=wrap, caps=caps)
        limits, options = connection_limits(values), socket_options(values)
        self.server = Server(listeners, self.dispatcher, limits, options, clock, gate.admit)

    def channel(self, timeout_ms: int) -> ControllerChannel:
        """A new way to the active controller, for requests that must not wait for others."""
        name = f"kavka-node-{self._controller.node_id}"
        channel = ControllerChannel(
            self._controller, self._here, self._connector, timeout_ms=timeout_ms, client_id=name
        )
        self._channels.append(channel)
        return channel

    def close(self) -> None:
        """Ask no controller any more."""
        self._brokers.close()
        for channel in self._channels:
            channel.close()

    async def _here(self, request: Any) -> Any:
        """The answer of this node, which is the active controller."""
        key = declared(type(request)).key
        context = Context(
            api_key=key,
            api_version=API[key].latest_stable_version,
            client_id=f"kavka-node-{self._controller.node_id}",
            session=Session(NO_CONNECTION, listener="", client_host="127.0.0.1", client_port=0),
            now_ms=self._clock.now_ms(),
            kind=CONTROLLER,
        )
        return await self.dispatcher.serve(request, context)
