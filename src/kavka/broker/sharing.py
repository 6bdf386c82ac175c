"""The share coordinator of a node put together, and what the handlers of its APIs share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeVar

from kavka.broker.coordination import GroupCoordination
from kavka.coordinator.share_state.machine import CODEC, ShareCoordinator
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.features import SHARE_VERSION
from kavka.metadata.image import MetadataImage
from kavka.metadata.names import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from kavka.model.errors import InvalidRequest, KafkaError
from kavka.model.settings import Values, coordinators
from kavka.model.share import SharePartitionKey
from kavka.runtime.coordinators import HostNode, InternalTopic, LogCoordinator
from kavka.runtime.dead_letters import DeadLetters
from kavka.runtime.shard import ShardRuntime
from kavka.runtime.shards import Shards
from kavka.runtime.share_groups import ShareGroups
from kavka.runtime.share_leader import LeaderHost, ShareLeader
from kavka.runtime.share_persister import Reach, SharePersister
from kavka.runtime.share_states import ShareStates, prune
from kavka.share.checks import check_group

SHARE_KEYS_SINCE = 6
"""The version of FindCoordinator that knows share partitions."""

R = TypeVar("R")


class ShareCoordination(LogCoordinator):
    """The share coordinator of a node, and those who ask it: the share groups, and the leaders of share partitions."""

    key_type: ClassVar[int | None] = 2

    def __init__(self, node: HostNode) -> None:
        settings = node.settings

        def new_machine(image: MetadataImage) -> ShareCoordinator:
            return ShareCoordinator(settings.values, image)

        self.shards: Shards[ShareCoordinator] = Shards(
            SHARE_GROUP_STATE,
            settings[coordinators.SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS],
            node.replicas,
            new_machine,
            CODEC,
            ShardRuntime(
                node.loop,
                node.clock,
                node.timers,
                node.force,
                settings[coordinators.SHARE_COORDINATOR_WRITE_TIMEOUT_MS],
                settings[coordinators.SHARE_COORDINATOR_APPEND_LINGER_MS],
                settings[coordinators.SHARE_COORDINATOR_STATE_TOPIC_COMPRESSION_CODEC],
                publish=prune,
            ),
        )
        self.states = ShareStates(self.shards)
        reach = Reach(
            node.replicas.node_id,
            node.clock,
            node.ask,
            lambda: node.create_topic(self.internal_topic(settings.values)),
        )
        persister = SharePersister(self.states, reach)
        groups = node.made.of_topic(CONSUMER_OFFSETS)
        assert isinstance(groups, GroupCoordination)
        self.groups = ShareGroups(groups.groups, persister, node.replicas, node.ask)
        groups.publish = self.groups.hear
        host = LeaderHost(node.loop, node.clock, node.timers, node.replicas, settings.values)
        letters = DeadLetters(node.replicas, node.clock, node.ask, node.new_producer_id)
        self.leader = ShareLeader(host, persister, letters)
        settings.subscribe(self.shards.configure)
        settings.subscribe(self.leader.configure)

    @property
    def services(self) -> Iterable[object]:
        """What handlers may ask for."""
        return (self.states, self.groups, self.leader)

    def start(self, image: MetadataImage) -> None:
        """Take over what this node leads."""
        super().start(image)
        self.leader.start(image)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, after the replicas have."""
        yield from super().apply(image, delta)
        yield from self.leader.apply(image, delta)

    async def run(self) -> None:
        """Load shards and share partitions, and write them, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self.groups.run())
            tasks.create_task(self.leader.run())

    def close(self) -> None:
        """Tell those who wait that the coordinator is on another node."""
        self.leader.close()
        super().close()

    def internal_topic(self, values: Values) -> InternalTopic:
        """`__share_group_state`."""
        return InternalTopic(
            SHARE_GROUP_STATE,
            values[coordinators.SHARE_COORDINATOR_STATE_TOPIC_NUM_PARTITIONS],
            coordinators.SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR,
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "retention.ms": "-1",
                "min.insync.replicas": str(values[coordinators.SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR]),
                "segment.bytes": str(values[coordinators.SHARE_COORDINATOR_STATE_TOPIC_SEGMENT_BYTES]),
            },
        )

    def check_key(self, key: str, api_version: int) -> None:
        """Raise InvalidRequest unless a key names a share partition."""
        try:
            SharePartitionKey.parse(key)
        except ValueError:
            raise InvalidRequest from None  # Kafka says no more either
        if api_version < SHARE_KEYS_SINCE:
            raise InvalidRequest


def share_version(image: MetadataImage) -> int:
    """The level of the feature that share groups need."""
    return image.features.levels.get(SHARE_VERSION, 0)


def require_share_groups(image: MetadataImage) -> None:
    """Raise UnsupportedVersion where share groups are switched off."""
    check_group(share_version(image), "")


async def of_each(
    group_id: str,
    topics: Sequence[Any],
    ask: Callable[[SharePartitionKey, Any], Awaitable[R]],
    failed: Callable[[int, KafkaError], R],
) -> list[tuple[Any, list[R]]]:
    """Ask for every partition of a request at once; by topic. Kafka answers nothing where something is missing."""
    if not group_id or not all(topic.partitions for topic in topics):
        return []

    async def of_partition(topic: Any, row: Any) -> R:
        try:
            return await ask(SharePartitionKey(group_id, topic.topic_id, row.partition), row)
        except KafkaError as error:
            return failed(row.partition, error)

    return [
        (topic, list(await asyncio.gather(*(of_partition(topic, row) for row in topic.partitions)))) for topic in topics
    ]
