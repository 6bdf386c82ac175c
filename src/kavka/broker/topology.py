"""What clients see of the cluster through one listener: who can be reached there, and which replicas cannot."""

from __future__ import annotations

from collections.abc import Iterable

from kavka.metadata.image import BrokerRegistration, MetadataImage, PartitionImage
from kavka.metadata.names import is_valid_topic_name
from kavka.model.errors import InvalidTopicException, UnknownTopicOrPartition
from kavka.model.types import Endpoint


def reachable_brokers(image: MetadataImage, listener: str) -> list[tuple[BrokerRegistration, Endpoint]]:
    """The unfenced brokers that have a listener, and where."""
    return [(broker, endpoint) for broker, endpoint in all_brokers(image, listener) if not broker.fenced]


def all_brokers(image: MetadataImage, listener: str) -> list[tuple[BrokerRegistration, Endpoint]]:
    """The registered brokers that have a listener, fenced or not."""
    found = ((broker, broker.endpoint(listener)) for broker in image.cluster.brokers.values())
    return [(broker, endpoint) for broker, endpoint in found if endpoint is not None]


def controller_id(image: MetadataImage, preferred: int) -> int:
    """A broker that takes requests for the controller: any that is not fenced does; -1 if all are."""
    if (broker := image.cluster.brokers.get(preferred)) is not None and not broker.fenced:
        return preferred
    return next((broker.id for broker in image.cluster.brokers.values() if not broker.fenced), -1)


def has_listener(image: MetadataImage, broker_id: int, listener: str) -> bool:
    """Whether a broker is registered with a listener."""
    broker = image.cluster.brokers.get(broker_id)
    return broker is not None and broker.endpoint(listener) is not None


def is_alive(image: MetadataImage, broker_id: int, listener: str) -> bool:
    """Whether a broker is unfenced and has a listener."""
    broker = image.cluster.brokers.get(broker_id)
    return broker is not None and not broker.fenced and broker.endpoint(listener) is not None


def alive(image: MetadataImage, brokers: Iterable[int], listener: str) -> list[int]:
    """Those of some brokers that are unfenced and have a listener."""
    return [broker for broker in brokers if is_alive(image, broker, listener)]


def missing_code(name: str) -> int:
    """The error code for a topic that is not there."""
    return (UnknownTopicOrPartition if is_valid_topic_name(name) else InvalidTopicException).code


def offline_replicas(image: MetadataImage, partition: PartitionImage, listener: str) -> list[int]:
    """The replicas of a partition that cannot be reached, or whose directory is lost."""
    return [
        replica
        for replica in partition.replicas
        if not is_alive(image, replica, listener)
        or not image.cluster.brokers[replica].has_online(partition.directory(replica))
    ]
