"""The group coordinator of a node put together, and what the handlers of their APIs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

from kavka.broker.context import Context
from kavka.coordinator.groups import GroupCoordinator
from kavka.coordinator.kinds import KINDS, KindClass, codec_of
from kavka.coordinator.requests import Client
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.features import GROUP_VERSION, STREAMS_VERSION
from kavka.metadata.image import MetadataImage
from kavka.metadata.names import CONSUMER_OFFSETS
from kavka.model.errors import UnsupportedVersion
from kavka.model.settings import Values, coordinators
from kavka.runtime.coordinators import COMPACTED, HostNode, InternalTopic, LogCoordinator
from kavka.runtime.groups import Groups
from kavka.runtime.patterns import Patterns
from kavka.runtime.shard import Shard, ShardRuntime
from kavka.runtime.shards import Shards
from kavka.security.acl import Operation, ResourceType


class GroupCoordination(LogCoordinator):
    """The group coordinator of a node: its shards follow the metadata."""

    key_type: ClassVar[int | None] = 0

    def __init__(self, node: HostNode, kinds: Sequence[KindClass] = KINDS) -> None:
        patterns = self._patterns = Patterns()
        settings = node.settings

        def new_machine(image: MetadataImage) -> GroupCoordinator:
            return GroupCoordinator(settings.values, image, new_id=node.new_id, match=patterns.match, kinds=kinds)

        self.shards: Shards[GroupCoordinator] = Shards(
            CONSUMER_OFFSETS,
            settings[coordinators.OFFSETS_TOPIC_NUM_PARTITIONS],
            node.replicas,
            new_machine,
            codec_of(kinds),
            ShardRuntime(
                node.loop,
                node.clock,
                node.timers,
                node.force,
                settings[coordinators.OFFSETS_COMMIT_TIMEOUT_MS],
                settings[coordinators.GROUP_COORDINATOR_APPEND_LINGER_MS],
                settings[coordinators.OFFSETS_TOPIC_COMPRESSION_CODEC],
                publish=lambda shard, news: self.publish(shard, news),
            ),
        )
        self.publish: Callable[[Shard[Any], Any], None] = not_heard
        """Is told what the groups publish."""
        self.groups = Groups(self.shards, patterns)
        settings.subscribe(self.shards.configure)

    @property
    def services(self) -> Iterable[object]:
        """What handlers may ask for."""
        return (self.groups,)

    def internal_topic(self, values: Values) -> InternalTopic:
        """`__consumer_offsets`."""
        return InternalTopic(
            CONSUMER_OFFSETS,
            values[coordinators.OFFSETS_TOPIC_NUM_PARTITIONS],
            coordinators.OFFSETS_TOPIC_REPLICATION_FACTOR,
            {**COMPACTED, "segment.bytes": str(values[coordinators.OFFSETS_TOPIC_SEGMENT_BYTES])},
        )

    def start(self, image: MetadataImage) -> None:
        """Take over what this node leads."""
        self._patterns.start(image)
        super().start(image)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Act on a committed change of the metadata, after the replicas have."""
        yield from self._patterns.apply(image, delta)
        yield from super().apply(image, delta)


def not_heard(shard: Shard[Any], news: Any) -> None:
    """Where nobody listens to what groups publish."""


def client_of(ctx: Context) -> Client:
    """Who asks, as the coordinators note it; the host as Java writes an address without a name."""
    sees = None
    if ctx.session.guard is not None:
        sees = partial(ctx.allows, Operation.DESCRIBE, ResourceType.TOPIC, asked=False)
    return Client(ctx.client_id, f"/{ctx.client_host}", ctx.api_version, ctx.principal, sees)


def require_consumer_groups(image: MetadataImage, values: Values) -> None:
    """Raise UnsupportedVersion where the consumer protocol (KIP-848) is off."""
    if (
        image.features.levels.get(GROUP_VERSION, 0) < 1
        or "consumer" not in values[coordinators.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]
    ):
        raise UnsupportedVersion("consumer groups of the new protocol are turned off")


def require_streams_groups(image: MetadataImage, values: Values) -> None:
    """Raise UnsupportedVersion where the streams protocol (KIP-1071) is off."""
    if (
        image.features.levels.get(STREAMS_VERSION, 0) < 1
        or "streams" not in values[coordinators.GROUP_COORDINATOR_REBALANCE_PROTOCOLS]
    ):
        raise UnsupportedVersion("streams groups are turned off")
