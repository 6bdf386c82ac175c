"""Following: for each broker that leads partitions held here, one fetcher that copies from it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from kavka.client.connector import Connector
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image.configs import ResourceType
from kavka.metadata.image.metadata import MetadataImage
from kavka.model.clock import Clock
from kavka.model.settings import FOLLOWER_REPLICATION_THROTTLED_RATE
from kavka.model.types import Uuid
from kavka.replica.fetcher import Fetcher, FetcherContext
from kavka.replica.manager import ReplicaManager, throttle
from kavka.replica.partition import Partition
from kavka.replica.session import Key
from kavka.replica.syncing import Syncer


class Fetchers:
    """The fetchers of a node, one per leader; they follow the metadata."""

    def __init__(
        self,
        replicas: ReplicaManager,
        syncer: Syncer,
        connector: Connector,
        clock: Clock,
        *,
        listener: str,
        broker_epoch: Callable[[], int],
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        """`listener` names the inter-broker listener; `broker_epoch` is -1 until this start is registered."""
        limit = throttle(replicas.values, FOLLOWER_REPLICATION_THROTTLED_RATE)
        self._around = FetcherContext(replicas, syncer, connector, clock, listener, broker_epoch, limit, leaving)
        self._replicas = replicas
        self._by_leader: dict[int, Fetcher] = {}
        self._leader_of: dict[Key, int] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._unstarted: list[Fetcher] = []
        self._closed = False

    def __len__(self) -> int:
        return len(self._by_leader)

    @property
    def partitions(self) -> int:
        """How many partitions are copied from other nodes."""
        return len(self._leader_of)

    def start(self, image: MetadataImage) -> None:
        """Follow the leaders of what is held already, by the image that the replicas were loaded with."""
        self._around.throttle.rate = self._replicas.values[FOLLOWER_REPLICATION_THROTTLED_RATE]
        for partition in self._replicas:
            self._follow(partition)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata; the replicas have done so before."""
        replicas = self._replicas
        if any(resource.type == ResourceType.BROKER for resource in delta.configs):
            self._around.throttle.rate = replicas.values[FOLLOWER_REPLICATION_THROTTLED_RATE]
        for topic in delta.deleted_topics.values():
            for index in topic.partitions:
                self._forget((topic.id, index))
            yield
        changed: list[tuple[Uuid, int]] = [
            (topic_id, index) for topic_id, topic in delta.created_topics.items() for index in topic.partitions
        ]
        changed += [(topic_id, index) for topic_id, indexes in delta.changed_partitions.items() for index in indexes]
        for key in changed:
            partition = replicas.held(*key)
            if partition is None:
                self._forget(key)
            else:
                self._follow(partition)
            yield
        for leader in delta.brokers:
            if leader in self._by_leader:
                self._by_leader[leader].wake()

    def _follow(self, partition: Partition) -> None:
        key = partition.topic_id, partition.topic_partition.partition
        leader = partition.leader
        if self._leader_of.get(key, leader) != leader:
            self._forget(key)
        if leader < 0 or partition.leads or self._closed:
            self._forget(key)
            return
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            fetcher = self._by_leader[leader] = Fetcher(leader, self._around)
            if self._tasks is None:
                self._unstarted.append(fetcher)
            else:
                self._tasks.create_task(fetcher.run())
        self._leader_of[key] = leader
        fetcher.follow(partition)

    def _forget(self, key: Key) -> None:
        leader = self._leader_of.pop(key, None)
        fetcher = self._by_leader.get(leader) if leader is not None else None
        if leader is not None and fetcher is not None:
            fetcher.forget(key)
            if not len(fetcher):
                del self._by_leader[leader]

    async def run(self) -> None:
        """Fetch until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for fetcher in self._unstarted:
                    tasks.create_task(fetcher.run())
                self._unstarted.clear()
                await asyncio.Event().wait()
        finally:
            self._tasks = None

    def close(self) -> None:
        """Fetch nothing any more: what arrives from now on is not appended."""
        self._closed = True
        for fetcher in self._by_leader.values():
            fetcher.close()
        self._by_leader.clear()
        self._leader_of.clear()
