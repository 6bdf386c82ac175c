"""Everything the cluster's metadata says at one offset of its log."""

from __future__ import annotations

from dataclasses import dataclass

from kavka.metadata.image.cluster import EMPTY_CLUSTER, ClusterImage
from kavka.metadata.image.configs import EMPTY_CONFIGS, ConfigsImage
from kavka.metadata.image.features import EMPTY_FEATURES, FeaturesImage
from kavka.metadata.image.security import EMPTY_SECURITY, SecurityImage
from kavka.metadata.image.topics import EMPTY_TOPICS, TopicsImage


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The state after the record at `offset`; a successor shares what its records did not touch."""

    offset: int
    epoch: int
    features: FeaturesImage
    cluster: ClusterImage
    topics: TopicsImage
    configs: ConfigsImage
    security: SecurityImage
    next_producer_id: int = 0
    before_transaction: MetadataImage | None = None
    """What an open metadata transaction (KIP-868) started from, to go back to if it is aborted."""

    @property
    def in_transaction(self) -> bool:
        """Whether records of an open transaction are in it, so that nobody may act on it yet."""
        return self.before_transaction is not None


EMPTY = MetadataImage(
    offset=-1,
    epoch=0,
    features=EMPTY_FEATURES,
    cluster=EMPTY_CLUSTER,
    topics=EMPTY_TOPICS,
    configs=EMPTY_CONFIGS,
    security=EMPTY_SECURITY,
)
