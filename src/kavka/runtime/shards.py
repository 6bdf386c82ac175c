"""The shards of one internal topic: one for each of its partitions that this node leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, Generic, Protocol, TypeVar

from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image.metadata import EMPTY, MetadataImage
from kavka.metadata.image.topics import PartitionImage, TopicImage
from kavka.model.errors import KafkaError, NotCoordinator
from kavka.model.settings.values import Values
from kavka.runtime.loading import Loader
from kavka.runtime.shard import CoordinatorState, Port, RecordCodec, Shard, ShardRuntime, StateMachine, settle

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=StateMachine)

LISTED_AT_ONCE: Final = 500
START_OVER_MS: Final = 100
RETRY_MS: Final = 5_000
"""A log that could not be read is tried again after this."""


class ShardReplicas(Protocol):
    """Where the partitions are."""

    @property
    def node_id(self) -> int:
        """This node."""

    def held(self, topic: str, index: int, /) -> Port | None:
        """A partition if it is held here."""


@lru_cache(maxsize=1 << 16)
def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, in 32 bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for number in range(0, len(units), 2):
        found = (31 * found + (units[number] << 8) + units[number + 1]) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found


def partition_of(key: str, count: int) -> int:
    """The partition that coordinates a key, as Kafka chooses it."""
    found = java_hash(key)
    return 0 if found == -(1 << 31) else abs(found) % count


class Shards(Generic[M]):
    """Follows the leadership of a topic's partitions: loads, finds and unloads their shards."""

    def __init__(
        self,
        topic: str,
        default_partitions: int,
        replicas: ShardReplicas,
        new_machine: Callable[[MetadataImage], M],
        codec: RecordCodec,
        around: ShardRuntime,
    ) -> None:
        self.topic = topic
        self.image: MetadataImage = EMPTY
        self.passed_over = 0
        """How many records could not be taken in while shards were loaded."""
        self._default_partitions = default_partitions
        self._replicas = replicas
        self._new_machine = new_machine
        self._codec = codec
        self._around = around
        self._shards: dict[int, Shard[M]] = {}
        self._to_load: asyncio.Queue[Shard[M]] = asyncio.Queue()
        self._waiting: dict[asyncio.Future[None], str] = {}

    # -- finding ------------------------------------------------------------------------------------

    def partition_of(self, key: str) -> int:
        """The partition that a key belongs to."""
        topic = self.image.topics.by_name.get(self.topic)
        return partition_of(key, self._default_partitions if topic is None else len(topic.partitions))

    def leader_in(self, image: MetadataImage, key: str) -> int:
        """Who leads the partition of a key, as an image has it; -1 if nobody does."""
        topic = image.topics.by_name.get(self.topic)
        return -1 if topic is None else topic.partitions[partition_of(key, len(topic.partitions))].leader

    def of(self, key: str) -> Shard[M]:
        """The shard that a key belongs to; raises NotCoordinator if another node has it."""
        return self.at(self.partition_of(key))

    def at(self, index: int) -> Shard[M]:
        """The shard of a partition; raises NotCoordinator if another node has it."""
        shard = self._shards.get(index)
        if shard is None:
            raise NotCoordinator(f"this node is not the coordinator of {self.topic}-{index}")
        return shard

    async def serves(self, key: str, wait_ms: int) -> bool:
        """Whether a key's shard is here; if it is on its way (the metadata is ahead of us), wait until it is loaded."""
        if self._is_loaded(key):
            return True
        waiter: asyncio.Future[None] = self._around.loop.create_future()
        self._waiting[waiter] = key
        timer = self._around.timers.set(wait_ms, lambda: settle(waiter, None, None))
        try:
            await waiter
        finally:
            timer.cancel()
            del self._waiting[waiter]
        return self.partition_of(key) in self._shards

    def _is_loaded(self, key: str) -> bool:
        shard = self._shards.get(self.partition_of(key))
        return shard is not None and shard.state is not CoordinatorState.LOADING

    def __iter__(self) -> Iterator[Shard[M]]:
        return iter(list(self._shards.values()))

    @property
    def loading(self) -> int:
        """How many shards are not ready yet."""
        return sum(shard.state is not CoordinatorState.ACTIVE for shard in self._shards.values())

    # -- following the metadata ---------------------------------------------------------------------

    def start(self, image: MetadataImage) -> None:
        """Take over what this node leads already."""
        self.image = image
        topic = image.topics.by_name.get(self.topic)
        if topic is not None:
            for index, partition in sorted(topic.partitions.items()):
                self._follow(index, partition)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, one shard at a time; the replicas have done so before."""
        self.image = image
        for index, partition in self._changed(image, delta):
            self._follow(index, partition)
            yield
        for shard in self:
            shard.on_metadata(image, delta)
            yield

    def configure(self, values: Values) -> None:
        """Go by other settings of the node."""
        for shard in self:
            shard.machine.on_settings(values)

    def _changed(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[tuple[int, PartitionImage | None]]:
        for gone in delta.deleted_topics.values():
            if gone.name == self.topic:
                yield from ((index, None) for index in gone.partitions)
        topic: TopicImage | None = image.topics.by_name.get(self.topic)
        if topic is not None and topic.id in delta.created_topics:
            yield from sorted(topic.partitions.items())
        elif topic is not None:
            for index in sorted(delta.changed_partitions.get(topic.id, ())):
                yield index, topic.partitions[index]

    def _follow(self, index: int, partition: PartitionImage | None) -> None:
        leads = partition is not None and partition.leader == self._replicas.node_id
        port = self._replicas.held(self.topic, index) if leads else None
        shard = self._shards.get(index)
        if shard is not None and (port is None or shard.port is not port or shard.led_since != port.led_since):
            # Between two leaderships of one replica another leader may have written, and the log may have been cut.
            shard.close()
            del self._shards[index]
            shard = None
        if shard is None and port is not None:
            machine = self._new_machine(self.image)
            shard = self._shards[index] = Shard(port, machine, self._codec, self._around, self._start_over)
            self._to_load.put_nowait(shard)

    def close(self) -> None:
        """Coordinate nothing any more; whoever waits is told to look for the new coordinator."""
        for shard in self:
            shard.close()
        self._shards.clear()

    # -- loading --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Load shards, one at a time, until cancelled."""
        while True:
            await self._load(await self._to_load.get())

    async def _load(self, shard: Shard[M]) -> None:
        machine, name = shard.machine, shard.port.topic_partition
        if shard.state is not CoordinatorState.LOADING:
            return
        try:
            found = await Loader(shard.port, machine, self._codec).run()
        except Exception as error:
            if shard.state is CoordinatorState.LOADING:
                # Neither the other shards nor the node shall fail with it.
                logger.error(
                    "%s: loading the coordinator failed: %s", name, error, exc_info=not isinstance(error, KafkaError)
                )
                shard.state = CoordinatorState.FAILED
                self._around.timers.set(RETRY_MS, lambda: self._restart(shard))
            return
        self.passed_over += found.passed_over
        if shard.state is CoordinatorState.LOADING and shard.machine is machine:
            if found.records:
                logger.info("%s: coordinator loaded %d records", name, found.records)
            shard.loaded()
            for waiter, key in self._waiting.items():
                if self._is_loaded(key):
                    settle(waiter, None, None)

    def _start_over(self, shard: Shard[M]) -> None:
        self._around.timers.set(START_OVER_MS, lambda: self._restart(shard))

    def _restart(self, shard: Shard[M]) -> None:
        if shard.state is not CoordinatorState.CLOSED:
            shard.restart(self._new_machine(self.image))
            self._to_load.put_nowait(shard)
