"""The group coordinator of a node put together, and what the handlers of their APIs share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from kavka.broker.context import Context
from kavka.coordinator.groups import GroupCoordinator
from kavka.coordinator.record import decode_record, encode_record
from kavka.coordinator.requests import Client
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.features import GROUP_VERSION
from kavka.metadata.image import MetadataImage, ResourceType
from kavka.metadata.names import CONSUMER_OFFSETS
from kavka.model.clock import Clock
from kavka.model.errors import UnsupportedVersion
from kavka.model.settings import Values, coordinators
from kavka.model.types import Uuid
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.replica.syncing import Syncer
from kavka.runtime.coordinators import Coordinators
from kavka.runtime.groups import Groups
from kavka.runtime.patterns import Patterns
from kavka.runtime.shard import Done, Port, RecordCodec, Surroundings
from kavka.runtime.timers import Timers


class GroupCoordination:
    """The group coordinator of a node: its shards follow the metadata."""

    def __init__(self, replicas: ReplicaManager, syncer: Syncer, clock: Clock, new_id: Callable[[], Uuid]) -> None:
        self._replicas = replicas
        self._patterns = Patterns()
        values = replicas.values

        def new_machine(image: MetadataImage) -> GroupCoordinator:
            return GroupCoordinator(replicas.values, image, new_id=new_id, match=self._patterns.match)

        loop = asyncio.get_running_loop()
        self.shards: Coordinators[GroupCoordinator] = Coordinators(
            CONSUMER_OFFSETS,
            values[coordinators.OFFSETS_TOPIC_NUM_PARTITIONS],
            replicas,
            new_machine,
            RecordCodec(encode_record, decode_record),
            Surroundings(
                loop,
                clock,
                Timers(loop),
                forcing(syncer),
                values[coordinators.OFFSETS_COMMIT_TIMEOUT_MS],
                values[coordinators.GROUP_COORDINATOR_APPEND_LINGER_MS],
                values[coordinators.OFFSETS_TOPIC_COMPRESSION_CODEC],
            ),
        )
        self.groups = Groups(self.shards, self._patterns)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, after the replicas have."""
        if any(resource.type == ResourceType.BROKER for resource in delta.configs):
            self.shards.configure(self._replicas.values)
        yield from self._patterns.apply(image, delta)
        yield from self.shards.apply(image, delta)

    def start(self) -> None:
        """Take over what this node leads."""
        image = self._replicas.image
        self._patterns.start(image)
        self.shards.start(image)

    async def run(self) -> None:
        """Load shards until cancelled."""
        await self.shards.run()

    def close(self) -> None:
        """Tell whoever waits to look elsewhere."""
        self.shards.close()


def forcing(syncer: Syncer) -> Callable[[Port, Done], None]:
    """How a coordinator has its log forced to disk."""

    def force(port: Port, done: Done) -> None:
        assert isinstance(port, Partition)
        log = port.log
        syncer.sync([log], lambda failed: done(failed.get(log)))

    return force


def client_of(ctx: Context) -> Client:
    """Who asks, as the coordinators note it; the host as Java writes an address without a name."""
    return Client(ctx.client_id, f"/{ctx.client_host}", ctx.api_version, ctx.principal)


def require_consumer_groups(image: MetadataImage, values: Values) -> None:
    """Raise UnsupportedVersion where the consumer protocol (KIP-848) is off."""
    if (
        image.features.levels.get(GROUP_VERSION, 0) < 1
        or "consumer" not in values[coordinators.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]
    ):
        raise UnsupportedVersion("consumer groups of the new protocol are turned off")
