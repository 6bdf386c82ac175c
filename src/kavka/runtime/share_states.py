"""The share coordinator of a node, as the handlers ask it: each request goes to the shard of its share partition."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from kavka.model.errors import KafkaError
from kavka.model.share import SharePartitionKey
from kavka.replica.partition import Partition
from kavka.runtime.shard import Decide, Shard
from kavka.runtime.shards import Shards

if TYPE_CHECKING:  # the machine is imported after the start, see `broker.sharing`
    from kavka.coordinator.share_state.machine import Prune, ShareCoordinator

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ShareStates:
    """The state of every share partition that this node coordinates."""

    def __init__(self, shards: Shards[ShareCoordinator]) -> None:
        self._shards = shards

    def coordinator_of(self, key: SharePartitionKey) -> int:
        """The node that coordinates a share partition; -1 if none does."""
        return self._shards.leader_in(self._shards.image, str(key))

    def knows(self, key: SharePartitionKey) -> bool:
        """Whether this node knows the partition of a share partition."""
        topic = self._shards.image.topics.by_id.get(key.topic_id)
        return topic is not None and key.partition in topic.partitions

    async def ask(self, key: SharePartitionKey, decide: Decide[ShareCoordinator, T]) -> T:
        """Ask the machine of a share partition's shard."""
        return await self._shards.of(str(key)).submit(decide)


def prune(shard: Shard[Any], news: Prune) -> None:
    """Delete what the log of a shard has before an offset; a leader that is none any more leaves that to the next."""
    partition = shard.port
    assert isinstance(partition, Partition)
    try:
        partition.delete_records(min(news.offset, partition.high_watermark))
    except KafkaError as error:
        logger.info("DeleteRecords of %s failed: %s", partition.topic_partition, error)
