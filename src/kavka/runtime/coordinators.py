"""What every coordinator of a node is to the others: a log's shards, found by keys, that follow the metadata.

A new coordinator is a class of this shape and a line in the list of `broker.coordinating`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image.metadata import MetadataImage
from kavka.metadata.live import LiveSettings
from kavka.model.clock import Clock
from kavka.model.settings.types import Setting
from kavka.model.settings.values import Values
from kavka.model.types import Uuid
from kavka.replica.manager import ReplicaManager
from kavka.replica.offset_wait import Done
from kavka.runtime.shard import Port
from kavka.runtime.shards import Shards
from kavka.runtime.timers import Timers

SERVES_WITHIN_MS: Final = 1000

COMPACTED: Final[Mapping[str, str]] = {"cleanup.policy": "compact", "compression.type": "producer"}
"""What most of the coordinators' topics are configured with."""


class InternalTopic(NamedTuple):
    """The topic that a coordinator keeps its state in, as it is to be created."""

    name: str
    partitions: int
    replication: Setting[int]
    """The setting that says how many replicas: its default counts only as far as there are brokers."""
    configs: Mapping[str, str]


class Coordinator(Protocol):
    """One of the coordinators of a node."""

    key_type: ClassVar[int | None]
    """What FindCoordinator calls its keys; None where no client looks for it."""
    shards: Shards[Any]
    """The partitions of its topic that this node leads."""

    @property
    def services(self) -> Iterable[object]:
        """What handlers may ask for."""

    def internal_topic(self, values: Values) -> InternalTopic:
        """Its topic, as it is created when it is first needed."""

    def check_key(self, key: str, api_version: int) -> None:
        """Raise InvalidRequest for a key that it cannot have, in a version of FindCoordinator."""

    def find(self, key: str, image: MetadataImage) -> int:
        """The node that coordinates a key; -1 if none does."""

    async def serves(self, key: str) -> bool:
        """Whether a key is coordinated here; waits a moment where that is about to begin."""

    def start(self, image: MetadataImage) -> None:
        """Take over what this node leads."""

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, after the replicas have."""

    async def run(self) -> None:
        """Work until cancelled."""

    def close(self) -> None:
        """Tell whoever waits to look for the new coordinator."""


class LogCoordinator:
    """A coordinator whose keys are spread over the partitions of its topic by Kafka's hash: all that are alike do."""

    key_type: ClassVar[int | None] = None
    shards: Shards[Any]

    @property
    def services(self) -> Iterable[object]:
        """What handlers may ask for."""
        return ()

    def check_key(self, key: str, api_version: int) -> None:
        """Any key will do."""

    def find(self, key: str, image: MetadataImage) -> int:
        """The node that leads the partition of a key; -1 if none does."""
        return self.shards.leader_in(image, key)

    async def serves(self, key: str) -> bool:
        """Whether a key is coordinated here; waits a moment where that is about to begin."""
        return await self.shards.serves(key, SERVES_WITHIN_MS)

    def start(self, image: MetadataImage) -> None:
        """Take over what this node leads."""
        self.shards.start(image)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, after the replicas have."""
        return self.shards.apply(image, delta)

    async def run(self) -> None:
        """Load shards until cancelled."""
        await self.shards.run()

    def close(self) -> None:
        """Tell whoever waits to look for the new coordinator."""
        self.shards.close()


class NodeCoordinators:
    """The coordinators of a node, by what they are looked for with."""

    def __init__(self) -> None:
        self._all: list[Coordinator] = []

    def add(self, coordinator: Coordinator) -> None:
        """One more; raises ValueError when another has its topic or its type of keys."""
        for registered in self._all:
            if registered.shards.topic == coordinator.shards.topic:
                raise ValueError(f"{registered.shards.topic} has a coordinator")
            if registered.key_type is not None and registered.key_type == coordinator.key_type:
                raise ValueError(f"the keys of type {registered.key_type} have a coordinator")
        self._all.append(coordinator)

    def __iter__(self) -> Iterator[Coordinator]:
        return iter(self._all)

    def of_key_type(self, key_type: int) -> Coordinator | None:
        """The coordinator of a type of keys, if there is one."""
        return next((coordinator for coordinator in self._all if coordinator.key_type == key_type), None)

    def of_topic(self, topic: str) -> Coordinator:
        """The coordinator that keeps its state in a topic; raises KeyError."""
        for coordinator in self._all:
            if coordinator.shards.topic == topic:
                return coordinator
        raise KeyError(topic)

    @property
    def passed_over(self) -> Mapping[str, int]:
        """By topic: how many records could not be taken in while loading."""
        return {coordinator.shards.topic: coordinator.shards.passed_over for coordinator in self._all}


class HostNode(NamedTuple):
    """The node that a coordinator is made for, as far as it needs to know it."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    timers: Timers
    replicas: ReplicaManager
    settings: LiveSettings
    force: Callable[[Port, Done], None]
    """Forces a partition's log to disk and then calls back."""
    new_id: Callable[[], Uuid]
    new_producer_id: Callable[[], Awaitable[int]]
    ask: Callable[[int, Any], Awaitable[Any]]
    """Asks another node; raises KafkaError if it does not answer."""
    create_topic: Callable[[InternalTopic], Awaitable[None]]
    """Has a coordinator's topic created unless it is there; raises CoordinatorNotAvailable."""
    made: NodeCoordinators
    """Those that come before it in the list."""


Make = Callable[[HostNode], Coordinator]
"""Makes a coordinator."""
