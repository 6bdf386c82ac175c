"""The topics that the coordinators keep their state in: created when they are first needed."""

from __future__ import annotations

from typing import Final

from kavka.broker.topic_creation import TopicCreation
from kavka.controller.topics import CreatedTopic, NewTopic
from kavka.metadata.image import MetadataImage
from kavka.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from kavka.model.errors import CoordinatorNotAvailable, KafkaError, TopicAlreadyExists
from kavka.model.settings import Setting, Values, coordinators

COMPACTED: Final = {"cleanup.policy": "compact", "compression.type": "producer"}


async def create_consumer_offsets(creation: TopicCreation, values: Values) -> None:
    """Create `__consumer_offsets` unless it is there; raises CoordinatorNotAvailable if it cannot be created now."""
    if CONSUMER_OFFSETS not in creation.image.topics.by_name:
        await create(
            creation,
            NewTopic(
                CONSUMER_OFFSETS,
                values[coordinators.OFFSETS_TOPIC_NUM_PARTITIONS],
                replication(creation.image, values, coordinators.OFFSETS_TOPIC_REPLICATION_FACTOR),
                configs={**COMPACTED, "segment.bytes": str(values[coordinators.OFFSETS_TOPIC_SEGMENT_BYTES])},
            ),
        )


async def create_transaction_state(creation: TopicCreation, values: Values) -> None:
    """Create `__transaction_state` unless it is there; raises CoordinatorNotAvailable if it cannot be created now."""
    if TRANSACTION_STATE not in creation.image.topics.by_name:
        await create(
            creation,
            NewTopic(
                TRANSACTION_STATE,
                values[coordinators.TRANSACTION_STATE_LOG_NUM_PARTITIONS],
                replication(creation.image, values, coordinators.TRANSACTION_STATE_LOG_REPLICATION_FACTOR),
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "unclean.leader.election.enable": "false",
                    "min.insync.replicas": str(values[coordinators.TRANSACTION_STATE_LOG_MIN_ISR]),
                    "segment.bytes": str(values[coordinators.TRANSACTION_STATE_LOG_SEGMENT_BYTES]),
                },
            ),
        )


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
