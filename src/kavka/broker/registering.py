"""The schema registry of a node put together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kavka.coordinator.registry.machine import Registry
from kavka.coordinator.registry.records import RegistryCodec
from kavka.metadata.image import MetadataImage
from kavka.metadata.names import SCHEMAS
from kavka.model.settings import Values, coordinators
from kavka.runtime.coordinators import COMPACTED, HostNode, InternalTopic, LogCoordinator
from kavka.runtime.registry import Reach, RegistryService
from kavka.runtime.shard import ShardRuntime
from kavka.runtime.shards import Shards

COMMIT_TIMEOUT_MS: Final = 10_000
AT_ONCE: Final = 0


class RegistryCoordination(LogCoordinator):
    """The registry's log, and who answers out of it."""

    def __init__(self, node: HostNode) -> None:
        settings = node.settings

        def new_machine(image: MetadataImage) -> Registry:
            return Registry()

        async def off_loop(function: Any, *arguments: Any) -> Any:
            return await node.loop.run_in_executor(None, function, *arguments)

        self.shards: Shards[Registry] = Shards(
            SCHEMAS,
            1,
            node.replicas,
            new_machine,
            RegistryCodec(),
            ShardRuntime(node.loop, node.clock, node.timers, node.force, COMMIT_TIMEOUT_MS, AT_ONCE),
        )
        reach = Reach(
            node.replicas.node_id,
            node.clock,
            node.ask,
            lambda: node.create_topic(self.internal_topic(settings.values)),
            off_loop,
        )
        self.service = RegistryService(self.shards, reach)
        settings.subscribe(self.shards.configure)

    @property
    def services(self) -> Iterable[object]:
        """What handlers and the registry's listener may ask for."""
        return (self.service,)

    def internal_topic(self, values: Values) -> InternalTopic:
        """`_schemas`."""
        return InternalTopic(SCHEMAS, 1, coordinators.KAVKA_SCHEMAS_TOPIC_REPLICATION_FACTOR, COMPACTED)
