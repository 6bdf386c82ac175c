"""The coordinators of a node: made once the cluster has a topic of theirs, or when a request needs them before that.

What they consist of is imported then, so that a node starts without it, and one that has no groups never has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.metadata.live import LiveSettings
from kavka.metadata.names import CONSUMER_OFFSETS, SCHEMAS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kavka.model.clock import Clock
from kavka.model.types import Uuid
from kavka.replica.manager import ReplicaManager
from kavka.replica.offset_wait import Done
from kavka.replica.partition import Partition
from kavka.replica.refused import NotVerified
from kavka.replica.syncing import Syncer

if TYPE_CHECKING:
    from kavka.coordinator.groups import GroupCoordinator
    from kavka.runtime.coordinators import Coordinator, HostNode, InternalTopic, Make, NodeCoordinators
    from kavka.runtime.registry import RegistryService
    from kavka.runtime.schema_ids import SchemaIds
    from kavka.runtime.shard import Port
    from kavka.runtime.shards import Shards
    from kavka.runtime.share_leader import ShareLeader
    from kavka.runtime.verification import Verification


logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Deferred:
    """A coordinator whose class is imported when it is made."""

    module: str
    name: str
    topic: str
    """Its log: once there is one, some node has to follow what is in it."""

    def __call__(self, node: HostNode) -> Coordinator:
        """Make it."""
        make: Make = getattr(import_module(self.module), self.name)
        return make(node)


COORDINATORS: Final[Sequence[Make]] = (
    Deferred("kavka.broker.coordination", "GroupCoordination", CONSUMER_OFFSETS),
    Deferred("kavka.broker.transactions", "TransactionCoordination", TRANSACTION_STATE),
    Deferred("kavka.broker.sharing", "ShareCoordination", SHARE_GROUP_STATE),
    Deferred("kavka.broker.registering", "RegistryCoordination", SCHEMAS),
)
"""A coordinator that needs another comes after it."""


class Coordinating:
    """The coordinators of a node, as its broker has them before and after they are made."""

    def __init__(
        self,
        replicas: ReplicaManager,
        settings: LiveSettings,
        syncer: Syncer,
        clock: Clock,
        new_id: Callable[[], Uuid],
        new_producer_id: Callable[[], Awaitable[int]],
        ask: Callable[[int, Any], Awaitable[Any]],
        create_topic: Callable[[InternalTopic], Awaitable[None]],
        makes: Sequence[Make] = COORDINATORS,
    ) -> None:
        self._replicas = replicas
        self._given = (replicas, settings, forcing(syncer), new_id, new_producer_id, ask, create_topic)
        self._clock = clock
        self._makes = makes
        self._made: NodeCoordinators | None = None
        self._verification: Verification | None = None
        self._schemas: SchemaIds | None = None
        self._used = asyncio.Event()
        self._wanted = asyncio.Event()

    async def load_when_used(self) -> None:
        """Wait for the first topic of a coordinator, or a request that cannot wait for them, and make them all."""
        if not self._have_topics(self._replicas.image):
            await self._used.wait()
        while not self.loaded:
            try:
                await self.load()
            except Exception:  # there may be too many open files, say
                logger.exception("loading the coordinators failed, retrying")
                await asyncio.sleep(RETRY_SECONDS)

    def _have_topics(self, image: MetadataImage) -> bool:
        return any(not isinstance(make, Deferred) or make.topic in image.topics.by_name for make in self._makes)

    async def load(self) -> None:
        """Import what the coordinators consist of, beside what is being done, and make them."""
        if self.loaded:
            return
        loop = asyncio.get_running_loop()
        for make in self._makes:
            if isinstance(make, Deferred):
                await loop.run_in_executor(None, import_module, make.module)
        self.made()

    @property
    def loaded(self) -> bool:
        """Whether they are made."""
        return self._made is not None

    def made(self) -> NodeCoordinators:
        """The coordinators, from now on if there are none yet."""
        if self._made is None:
            from kavka.runtime.coordinators import HostNode, NodeCoordinators
            from kavka.runtime.timers import Timers

            loop, made = asyncio.get_running_loop(), NodeCoordinators()
            node = HostNode(loop, self._clock, Timers(loop), *self._given, made)
            for make in self._makes:
                made.add(make(node))
            for coordinator in made:
                coordinator.start(self._replicas.image)
            self._made = made
            self._wanted.set()
        return self._made

    def __iter__(self) -> Iterator[object]:
        """What handlers may ask for; makes the coordinators."""
        made = self.made()
        yield made
        for coordinator in made:
            yield from coordinator.services

    def verification(self) -> Verification:
        """Who says whether a producer may write to a partition in its transaction; NotVerified until it is loaded."""
        if self._verification is None:
            if not self.loaded:
                self._used.set()
                raise NotVerified("the transaction cannot be verified now: the coordinators are being loaded")
            from kavka.runtime.verification import Verification

            self._verification = next(service for service in self if isinstance(service, Verification))
        return self._verification

    def schemas(self) -> SchemaIds | None:
        """Who says which schemas are registered for the records of a topic; None until it is loaded."""
        if self._schemas is None:
            if not self.loaded:
                self._used.set()
                return None
            from kavka.runtime.schema_ids import SchemaIds

            self._schemas = next(service for service in self if isinstance(service, SchemaIds))
        return self._schemas

    async def registry(self) -> RegistryService:
        """Who answers for the schema registry."""
        from kavka.runtime.registry_door import RegistryDoor

        await self.load()
        door = next(service for service in self if isinstance(service, RegistryDoor))
        return await door.open()

    @property
    def share_leader(self) -> ShareLeader | None:
        """Who serves the share partitions of this node; None before it is made."""
        if self._made is None:
            return None
        from kavka.runtime.share_leader import ShareLeader

        services = (service for coordinator in self._made for service in coordinator.services)
        return next((service for service in services if isinstance(service, ShareLeader)), None)

    @property
    def group_shards(self) -> Shards[GroupCoordinator] | None:
        """The shards of the group coordinator; None before it is made."""
        coordinator = None if self._made is None else self._made.of_topic(CONSUMER_OFFSETS)
        return None if coordinator is None else coordinator.shards

    @property
    def passed_over(self) -> Mapping[str, int]:
        """By topic: how many records of the coordinators' logs could not be replayed."""
        return {} if self._made is None else self._made.passed_over

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, after the replicas have."""
        if self._made is None and self._have_topics(image):
            self._used.set()
        for coordinator in self._made or ():
            yield from coordinator.apply(image, delta)

    async def run(self) -> None:
        """Take over what this node leads, until cancelled."""
        await self._wanted.wait()
        async with asyncio.TaskGroup() as tasks:
            for coordinator in self.made():
                tasks.create_task(coordinator.run())

    def close(self) -> None:
        """Tell those who wait that the coordinator is on another node."""
        for coordinator in self._made or ():
            coordinator.close()


def forcing(syncer: Syncer) -> Callable[[Port, Done], None]:
    """How a coordinator has its log forced to disk."""

    def force(port: Port, done: Done) -> None:
        assert isinstance(port, Partition)
        syncer.force(port, done)

    return force
