"""Metrics of clients (KIP-714) on this node: subscriptions out of the cluster's configs, what is pushed onto its page.

On where the node has a page to show them on: else ApiVersions does not offer the APIs, and no client asks.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.metadata.image import ResourceType
from kavka.metadata.image.configs import ConfigsImage
from kavka.metadata.view import MetadataView
from kavka.model.errors import InvalidRecord, KafkaError
from kavka.model.types import Uuid
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.push_telemetry import PushTelemetryRequest
from kavka.telemetry.client_metrics import Answer, Client, ClientMetrics
from kavka.telemetry.otlp import decompressed, points


class ClientTelemetry:
    """Serves the two APIs."""

    def __init__(self, clients: ClientMetrics, view: MetadataView) -> None:
        self.clients = clients
        self._view = view
        self._followed: ConfigsImage | None = None

    def ask(self, instance_id: Uuid, ctx: Context) -> Answer:
        """What a client is to push; raises KafkaError."""
        self._follow()
        answer = self.clients.ask(instance_id, client_of(ctx), ctx.now_ms)
        ctx.on_close(ClientTelemetry, lambda: self.clients.gone(answer.instance_id))
        return answer

    async def push(self, request: PushTelemetryRequest, ctx: Context) -> None:
        """Take what a client pushes; raises KafkaError."""
        self._follow()
        client, instance_id = client_of(ctx), request.client_instance_id
        self.clients.admit(
            instance_id,
            client,
            ctx.now_ms,
            subscription_id=request.subscription_id,
            terminating=request.terminating,
            compression_type=request.compression_type,
            size=len(request.metrics),
        )
        ctx.on_close(ClientTelemetry, lambda: self.clients.gone(instance_id))
        if not request.metrics:
            return
        turn, data = Turn(), bytearray()
        try:
            for chunk in decompressed(request.compression_type, request.metrics, self.clients.max_bytes):
                data += chunk
                await turn.breathe()
            for _ in self.clients.take(instance_id, client, points(memoryview(data)), ctx.now_ms):
                await turn.breathe()
        except (KafkaError, ValueError) as error:
            self.clients.failed(instance_id, InvalidRecord)
            raise InvalidRecord(f"the pushed metrics cannot be read: {error}") from None

    def _follow(self) -> None:
        configs = self._view.image.configs
        if configs is not self._followed:
            self._followed = configs
            self.clients.follow(
                {
                    resource.name: texts
                    for resource, texts in configs.resources.items()
                    if resource.type == ResourceType.CLIENT_METRICS
                }
            )


def client_of(ctx: Context) -> Client:
    """Who asks."""
    session = ctx.session
    return Client(
        ctx.client_id,
        session.client_software_name,
        session.client_software_version,
        session.client_host,
        str(session.client_port),
        session.principal,
    )
