"""What the settings of topics come to under what was set for them, for this broker and for all brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kavka.metadata.image import MetadataImage, TopicImage
from kavka.metadata.image.configs import ConfigsImage
from kavka.model.settings import (
    DEFAULT_REPLICATION_FACTOR,
    NUM_PARTITIONS,
    TOPIC_MIN_INSYNC_REPLICAS,
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE,
    Values,
    topic_values,
    with_dynamic,
)


class TopicRules(NamedTuple):
    """The settings of a topic that decide about its leaders."""

    min_isr: int
    unclean_election: bool


class Effective:
    """A node's settings under the dynamic configuration of an image; remembers the last answer, nothing durable."""

    def __init__(self, node_id: int, static: Values) -> None:
        self._node_id = node_id
        self.static = static
        self._for: tuple[Mapping[str, str], Mapping[str, str]] | None = None
        self._values = static
        self._plain = TopicRules(0, False)

    def broker(self, configs: ConfigsImage) -> Values:
        """The settings of this node."""
        layers = configs.of_broker(self._node_id), configs.of_all_brokers
        if self._for is None or self._for[0] is not layers[0] or self._for[1] is not layers[1]:
            self._values = with_dynamic(self.static, *layers)
            self._plain = _rules(topic_values({}, self._values))
            self._for = layers
        return self._values

    def of_topic(self, image: MetadataImage, topic: TopicImage) -> TopicRules:
        """The rules of a topic."""
        values = self.broker(image.configs)
        overrides = image.configs.of_topic(topic.name)
        return _rules(topic_values(overrides, values)) if overrides else self._plain

    @property
    def default_partitions(self) -> int:
        """How many partitions a topic gets that does not say."""
        return self.static[NUM_PARTITIONS]

    @property
    def default_replication(self) -> int:
        """How many replicas a partition gets that does not say."""
        return self.static[DEFAULT_REPLICATION_FACTOR]


def _rules(values: Values) -> TopicRules:
    return TopicRules(values[TOPIC_MIN_INSYNC_REPLICAS], values[TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE])
