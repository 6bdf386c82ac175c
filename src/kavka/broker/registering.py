"""The schema registry of a node put together: a node that is asked for none imports none of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.metadata.names import SCHEMAS
from kavka.model.settings import Values, coordinators
from kavka.runtime.coordinators import COMPACTED, HostNode, InternalTopic, LogCoordinator
from kavka.runtime.registry_door import RegistryDoor
from kavka.runtime.schema_ids import SchemaIds
from kavka.runtime.shard import RecordCodec, ShardRuntime
from kavka.runtime.shards import Shards

if TYPE_CHECKING:
    from kavka.coordinator.registry.machine import Registry
    from kavka.runtime.registry import RegistryService

COMMIT_TIMEOUT_MS: Final = 10_000
AT_ONCE: Final = 0


class DeferredCodec:
    """How the registry's records lie in its log, known once there is one."""

    @cached_property
    def _codec(self) -> RecordCodec:
        from kavka.coordinator.registry.records import RegistryCodec

        return RegistryCodec()

    def encode(self, record: Any, /) -> tuple[bytes, bytes | None]:
        """Key and value of a record."""
        return self._codec.encode(record)

    def decode(self, key: bytes | None, value: bytes | None, /) -> Any:
        """The record of a key and a value; never raises."""
        return self._codec.decode(key, value)


class RegistryCoordination(LogCoordinator):
    """The registry's log, and who answers out of it: made once it is led here, or asked for."""

    def __init__(self, node: HostNode) -> None:
        self._node = node
        self._led = asyncio.Event()
        self._begun = False
        self.shards: Shards[Registry] = Shards(
            SCHEMAS,
            1,
            node.replicas,
            new_machine,
            DeferredCodec(),
            ShardRuntime(node.loop, node.clock, node.timers, node.force, COMMIT_TIMEOUT_MS, AT_ONCE),
        )
        self.door = RegistryDoor(node.loop, self._service)
        self.schema_ids = SchemaIds(self.door.open, node.clock)
        node.settings.subscribe(self.shards.configure)

    def _service(self) -> RegistryService:
        from kavka.runtime.registry import Reach, RegistryService

        node = self._node

        async def off_loop(function: Any, *arguments: Any) -> Any:
            return await node.loop.run_in_executor(None, function, *arguments)

        def create() -> Any:
            return node.create_topic(self.internal_topic(node.settings.values))

        return RegistryService(self.shards, Reach(node.replicas.node_id, node.clock, node.ask, create, off_loop))

    @property
    def services(self) -> Iterable[object]:
        """What handlers and the registry's listener may ask for."""
        return (self.door, self.schema_ids)

    def internal_topic(self, values: Values) -> InternalTopic:
        """`_schemas`."""
        return InternalTopic(SCHEMAS, 1, coordinators.KAVKA_SCHEMAS_TOPIC_REPLICATION_FACTOR, COMPACTED)

    def start(self, image: MetadataImage) -> None:
        """See whether this node leads the log."""
        self.shards.image = image
        if self.shards.leader_in(image, "") == self._node.replicas.node_id:
            self._led.set()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, after the replicas have."""
        if self._begun:
            yield from self.shards.apply(image, delta)
        else:
            self.start(image)

    async def run(self) -> None:
        """Say which schemas are registered, and load the log once this node leads it, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.schema_ids.run())
            tasks.create_task(self._lead())

    async def _lead(self) -> None:
        """Load the log once this node leads it; what reads it is imported first."""
        await self._led.wait()
        await self.door.open()
        self._begun = True
        self.shards.start(self.shards.image)
        await self.shards.run()


def new_machine(image: MetadataImage) -> Registry:
    """An empty registry."""
    from kavka.coordinator.registry.machine import Registry

    return Registry()
