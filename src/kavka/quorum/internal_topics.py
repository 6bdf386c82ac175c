"""The topics that the coordinators keep their state in: created when they are first needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kavka.controller.topics import CreatedTopic, NewTopic
from kavka.metadata.image import MetadataImage
from kavka.model.errors import CoordinatorNotAvailable, KafkaError, TopicAlreadyExists
from kavka.model.settings import Setting, Values
from kavka.quorum.topic_creation import TopicCreation


class InternalTopic(Protocol):
    """A topic that a coordinator keeps its state in, as it is to be created."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def partitions(self) -> int:
        """How many it has."""

    @property
    def replication(self) -> Setting[int]:
        """How many replicas each has."""

    @property
    def configs(self) -> Mapping[str, str]:
        """What it is configured with."""


async def create_if_missing(creation: TopicCreation, topic: InternalTopic, values: Values) -> None:
    """Create a coordinator's topic unless it is there; raises CoordinatorNotAvailable if it cannot be created now."""
    if topic.name not in creation.image.topics.by_name:
        replicas = replication(creation.image, values, topic.replication)
        await create(creation, NewTopic(topic.name, topic.partitions, replicas, configs=topic.configs))


async def create(creation: TopicCreation, topic: NewTopic) -> None:
    """Create a topic; that another node was faster is success as well."""
    try:
        outcome: CreatedTopic | KafkaError = (await creation.create([topic]))[topic.name]
    except KafkaError as error:
        outcome = error
    if isinstance(outcome, KafkaError) and not isinstance(outcome, TopicAlreadyExists):
        raise CoordinatorNotAvailable(f"{topic.name} cannot be created: {outcome}")


def replication(image: MetadataImage, values: Values, setting: Setting[int]) -> int:
    """How many replicas an internal topic gets: what was configured, else the default as far as there are brokers.

    Kafka insists on its default of 3, with which a node that stands alone could have no groups at all. Brokers that
    are out of service count: a cluster that is just starting must not be left with one replica.
    """
    wanted = values[setting]
    return wanted if setting in values else max(1, min(wanted, len(image.cluster.brokers)))
