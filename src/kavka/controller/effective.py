"""What the settings of topics come to under what was set for them, for this broker and for all brokers."""

from __future__ import annotations

from typing import NamedTuple

from kavka.controller.recovery import Strategy
from kavka.metadata.image import MetadataImage, TopicImage
from kavka.metadata.image.configs import ConfigsImage
from kavka.metadata.live import SettingsAt
from kavka.model.settings import (
    DEFAULT_REPLICATION_FACTOR,
    NUM_PARTITIONS,
    TOPIC_MIN_INSYNC_REPLICAS,
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE,
    TOPIC_UNCLEAN_RECOVERY_STRATEGY,
    Values,
    topic_values,
)


class ElectionRules(NamedTuple):
    """The settings of a topic that decide about its leaders."""

    min_isr: int
    unclean_election: bool
    recovery: Strategy = Strategy.NONE
    """Other than none, it decides about unclean elections instead."""


class Effective:
    """What the controller goes by under the dynamic configuration of an image; remembers nothing durable."""

    def __init__(self, node_id: int, static: Values) -> None:
        self.static = static
        self._settings = SettingsAt(node_id, static)
        self._plain_of: Values | None = None
        self._plain = ElectionRules(0, False)

    def broker(self, configs: ConfigsImage) -> Values:
        """The settings of this node."""
        return self._settings.broker(configs)

    def of_topic(self, image: MetadataImage, topic: TopicImage) -> ElectionRules:
        """The election rules of a topic."""
        configs = image.configs
        if configs.of_topic(topic.name):
            return _rules(self._settings.topic(configs, topic.name))
        values = self.broker(configs)
        if self._plain_of is not values:
            self._plain, self._plain_of = _rules(topic_values({}, values)), values
        return self._plain

    @property
    def default_partitions(self) -> int:
        """How many partitions a topic gets that does not say."""
        return self.static[NUM_PARTITIONS]

    @property
    def default_replication(self) -> int:
        """How many replicas a partition gets that does not say."""
        return self.static[DEFAULT_REPLICATION_FACTOR]


def _rules(values: Values) -> ElectionRules:
    recovery = Strategy(values[TOPIC_UNCLEAN_RECOVERY_STRATEGY].lower())
    unclean = values[TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE] and recovery is Strategy.NONE
    return ElectionRules(values[TOPIC_MIN_INSYNC_REPLICAS], unclean, recovery)
