"""A controller's registration, and what those of brokers and controllers have in common."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from kavka.metadata.delta import MetadataDelta
from kavka.metadata.features import SUPPORTED
from kavka.metadata.image import MetadataImage
from kavka.metadata.image.cluster import SECURITY_PROTOCOLS
from kavka.model.errors import KafkaError, raise_for
from kavka.model.types import Endpoint
from kavka.quorum.channel import ControllerChannel
from kavka.quorum.registration import Registration

logger = logging.getLogger(__name__)

REGISTER_AGAIN_SECONDS: Final = 0.25
"""Between two tries to register: the session of the last incarnation may have to end first."""


class Metadata(Protocol):
    """What a node knows of the cluster."""

    @property
    def node_id(self) -> int:
        """This node."""

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""

    @property
    def image(self) -> MetadataImage:
        """The newest committed image."""

    def subscribe(self, subscriber: Callable[[MetadataImage, MetadataDelta], Iterator[None] | None]) -> None:
        """Tell of every change committed from now on."""

    def on_leader_change(self, callback: Callable[[], None]) -> None:
        """Tell of every change of the quorum leader."""


class ControllerMembership:
    """Keeps a controller registered under the addresses it has now (KIP-919)."""

    def __init__(self, metadata: Metadata, channel: ControllerChannel, registration: Registration) -> None:
        self._metadata = metadata
        self._channel = channel
        self._registration = registration
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Register whenever the image does not have this incarnation of the controller, until cancelled."""
        self._metadata.subscribe(self._changed)
        said: type[KafkaError] | None = None
        while True:
            self._wake.clear()
            try:
                if not self._known():
                    await self._register()
                said = None
                await self._wake.wait()
            except KafkaError as error:
                if said is not type(error):  # once, however long it lasts
                    said = type(error)
                    logger.warning("controller registration failed, retrying: %s", error)
                await asyncio.sleep(REGISTER_AGAIN_SECONDS)

    def _changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        if not self._known():
            self._wake.set()

    def _known(self) -> bool:
        known = self._metadata.image.cluster.controllers.get(self._metadata.node_id)
        return known is not None and known.incarnation_id == self._registration.incarnation_id

    async def _register(self) -> None:
        from kavka.protocol.schemas import controller_registration as schema

        answer = await self._channel.call(
            schema.ControllerRegistrationRequest(
                controller_id=self._metadata.node_id,
                incarnation_id=self._registration.incarnation_id,
                zk_migration_ready=False,
                listeners=[
                    schema.Listener(**listener(endpoint)) for endpoint in self._registration.controller_endpoints
                ],
                features=[
                    schema.Feature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in SUPPORTED.items()
                ],
            )
        )
        raise_for(answer.error_code, answer.error_message)


def listener(endpoint: Endpoint) -> dict[str, Any]:
    """The fields of a listener in a registration."""
    return {
        "name": endpoint.listener,
        "host": endpoint.host,
        "port": endpoint.port,
        "security_protocol": SECURITY_PROTOCOLS.index(endpoint.security_protocol),
    }
