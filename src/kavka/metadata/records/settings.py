"""Records of what is set for the cluster: configs, client quotas, feature levels, producer id blocks."""

from __future__ import annotations

from kavka.protocol.schema import Float64, Int8, Int16, Int32, Int64, message, record


@record(key=4, versions="0", flexible="0+")
class ConfigRecord:
    resource_type: Int8
    resource_name: str
    name: str
    value: str | None


@message
class EntityData:
    entity_type: str
    entity_name: str | None


@record(key=14, versions="0", flexible="0+")
class ClientQuotaRecord:
    entity: list[EntityData]
    key: str
    value: Float64
    remove: bool


@record(key=12, versions="0", flexible="0+")
class FeatureLevelRecord:
    name: str
    feature_level: Int16


@record(key=15, versions="0", flexible="0+")
class ProducerIdsRecord:
    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64


@record(key=21, versions="0", flexible="0+")
class ZkMigrationStateRecord:
    zk_migration_state: Int8
