"""An image as the records that would make it: what a snapshot holds (KIP-630)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kavka.metadata.features import METADATA_VERSION, MV_CORDONED_DIRS, MV_DIRECTORIES, MV_ELR
from kavka.metadata.image.cluster import SECURITY_PROTOCOLS, ClusterImage
from kavka.metadata.image.configs import ConfigsImage
from kavka.metadata.image.features import FeaturesImage
from kavka.metadata.image.metadata import MetadataImage
from kavka.metadata.image.topics import PartitionImage, TopicsImage
from kavka.metadata.records.nodes import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from kavka.metadata.records.settings import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord
from kavka.metadata.records.topics import PartitionRecord, TopicRecord
from kavka.model.types import Uuid


def records_of(image: MetadataImage) -> Iterator[Any]:
    """The records of an image, in the order Kafka writes them; features come first, they say how to read the rest."""
    metadata_version = image.features.metadata_version
    yield from _features(image.features)
    yield from _cluster(image.cluster, metadata_version)
    yield from _topics(image.topics, metadata_version)
    yield from _configs(image.configs)
    yield from image.security.quotas.values()
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.security.acls.values()
    yield from image.security.scram.values()
    yield from image.security.tokens.values()


def partition_record(topic_id: Uuid, index: int, partition: PartitionImage, metadata_version: int) -> PartitionRecord:
    """A partition as one record, without the fields that a metadata.version has no place for."""
    elr = metadata_version >= MV_ELR
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories) if metadata_version >= MV_DIRECTORIES else [],
        eligible_leader_replicas=list(partition.elr) if elr and partition.elr else None,
        last_known_elr=list(partition.last_known_elr) if elr and partition.last_known_elr else None,
    )


def _features(features: FeaturesImage) -> Iterator[FeatureLevelRecord]:
    if features.metadata_version:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=features.metadata_version)
    for name, level in features.levels.items():
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=level)


def _cluster(cluster: ClusterImage, metadata_version: int) -> Iterator[Any]:
    for broker in cluster.brokers.values():
        yield RegisterBrokerRecord(
            broker_id=broker.id,
            incarnation_id=broker.incarnation_id,
            broker_epoch=broker.epoch,
            end_points=[
                BrokerEndpoint(
                    name=endpoint.listener,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=_code(endpoint.security_protocol),
                )
                for endpoint in broker.endpoints
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in broker.features.items()
            ],
            rack=broker.rack,
            fenced=broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown,
            log_dirs=list(broker.directories) if metadata_version >= MV_DIRECTORIES else [],
            cordoned_log_dirs=None
            if broker.cordoned is None or metadata_version < MV_CORDONED_DIRS
            else list(broker.cordoned),
        )
    for controller in cluster.controllers.values():
        yield RegisterControllerRecord(
            controller_id=controller.id,
            incarnation_id=controller.incarnation_id,
            zk_migration_ready=False,
            end_points=[
                ControllerEndpoint(
                    name=endpoint.listener,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=_code(endpoint.security_protocol),
                )
                for endpoint in controller.endpoints
            ],
            features=[
                ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in controller.features.items()
            ],
        )


def _code(security_protocol: str) -> int:
    return SECURITY_PROTOCOLS.index(security_protocol)


def _topics(topics: TopicsImage, metadata_version: int) -> Iterator[Any]:
    for topic in topics.by_id.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        for index, partition in topic.partitions.items():
            yield partition_record(topic.id, index, partition, metadata_version)


def _configs(configs: ConfigsImage) -> Iterator[ConfigRecord]:
    for resource, values in configs.resources.items():
        for name, value in values.items():
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
