"""The Kafka client: producer, consumer and admin for asyncio; `kavka.client.blocking` has them without it.

```python
async with Producer("127.0.0.1:9092") as producer:
    await producer.send_and_wait("orders", b"hello")
```

Names are imported when they are first used: a node needs only how to connect, and soon.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kavka.client.admin import Admin
    from kavka.client.admin_cluster import (
        ActiveProducer,
        ClusterDescription,
        Features,
        LogDir,
        Quorum,
        ReplicaInfo,
        UpgradeType,
    )
    from kavka.client.admin_configs import (
        ConfigEntry,
        ConfigResource,
        ConfigSource,
        ConfigSynonym,
        ConfigType,
        ResourceType,
    )
    from kavka.client.admin_groups import GroupDescription, GroupListing, GroupMember
    from kavka.client.admin_placement import Election, Reassignment
    from kavka.client.admin_quotas import DEFAULT, QuotaEntity
    from kavka.client.admin_security import (
        ANY_ACL,
        Acl,
        AclFilter,
        AclOperation,
        AclPattern,
        AclPermission,
        AclResource,
        DelegationToken,
        ScramCredential,
        ScramMechanism,
    )
    from kavka.client.admin_topics import (
        CreatedTopic,
        NewTopic,
        PartitionDescription,
        TopicDescription,
        TopicListing,
    )
    from kavka.client.admin_transactions import OpenTransaction, TransactionDescription, TransactionListing
    from kavka.client.batching import Delivered, Delivery
    from kavka.client.connection import Connection
    from kavka.client.connector import Connector
    from kavka.client.consumer import At, Consumer, Last, Place
    from kavka.client.dial import Dial, TcpDial, Transport
    from kavka.client.fetched import ConsumerRecord
    from kavka.client.group_consumer import GroupConsumer
    from kavka.client.group_offsets import CommittedOffset
    from kavka.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, FoundOffset
    from kavka.client.partitioner import partition_for_key
    from kavka.client.pool import Pool
    from kavka.client.producer import Acks, Codec, Producer
    from kavka.client.registry.api import SchemaRegistry
    from kavka.client.registry.errors import SchemaRegistryError
    from kavka.client.registry.values import Reference, RegisteredSchema, Schema
    from kavka.client.share_consumer import ShareConsumer
    from kavka.client.share_session import ShareRecord
    from kavka.client.transactions import PreparedTransaction
    from kavka.client.typed import (
        DeserializationError,
        Deserializer,
        Json,
        JsonOf,
        PartDeserializer,
        PartSerializer,
        Raw,
        Serializer,
        Text,
        TypedConsumer,
        TypedProducer,
        TypedRecord,
    )
    from kavka.client.view import ClusterView, Node, PartitionView, TopicView
    from kavka.model.errors import KafkaError
    from kavka.model.murmur2 import murmur2
    from kavka.model.types import TopicPartition

__all__ = [
    "ANY_ACL",
    "DEFAULT",
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "Acks",
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclPattern",
    "AclPermission",
    "AclResource",
    "ActiveProducer",
    "Admin",
    "At",
    "ClusterDescription",
    "ClusterView",
    "Codec",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "Connection",
    "Connector",
    "Consumer",
    "ConsumerRecord",
    "CreatedTopic",
    "DelegationToken",
    "Delivered",
    "Delivery",
    "DeserializationError",
    "Deserializer",
    "Dial",
    "Election",
    "Features",
    "FoundOffset",
    "GroupConsumer",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "Json",
    "JsonOf",
    "KafkaError",
    "Last",
    "LogDir",
    "NewTopic",
    "Node",
    "OpenTransaction",
    "PartDeserializer",
    "PartSerializer",
    "PartitionDescription",
    "PartitionView",
    "Place",
    "Pool",
    "PreparedTransaction",
    "Producer",
    "Quorum",
    "QuotaEntity",
    "Raw",
    "Reassignment",
    "Reference",
    "RegisteredSchema",
    "ReplicaInfo",
    "ResourceType",
    "Schema",
    "SchemaRegistry",
    "SchemaRegistryError",
    "ScramCredential",
    "ScramMechanism",
    "Serializer",
    "ShareConsumer",
    "ShareRecord",
    "TcpDial",
    "Text",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TopicView",
    "TransactionDescription",
    "TransactionListing",
    "Transport",
    "TypedConsumer",
    "TypedProducer",
    "TypedRecord",
    "UpgradeType",
    "murmur2",
    "partition_for_key",
]

_HOMES = {
    "kavka.client.admin": "Admin",
    "kavka.client.admin_cluster": "ActiveProducer ClusterDescription Features LogDir Quorum ReplicaInfo UpgradeType",
    "kavka.client.admin_configs": "ConfigEntry ConfigResource ConfigSource ConfigSynonym ConfigType ResourceType",
    "kavka.client.admin_groups": "GroupDescription GroupListing GroupMember",
    "kavka.client.admin_placement": "Election Reassignment",
    "kavka.client.admin_security": (
        "ANY_ACL Acl AclFilter AclOperation AclPattern AclPermission AclResource DelegationToken ScramCredential "
        "ScramMechanism"
    ),
    "kavka.client.admin_quotas": "DEFAULT QuotaEntity",
    "kavka.client.admin_topics": "CreatedTopic NewTopic PartitionDescription TopicDescription TopicListing",
    "kavka.client.admin_transactions": "OpenTransaction TransactionDescription TransactionListing",
    "kavka.client.batching": "Delivered Delivery",
    "kavka.client.connection": "Connection",
    "kavka.client.connector": "Connector",
    "kavka.client.consumer": "At Consumer Last Place",
    "kavka.client.dial": "Dial TcpDial Transport",
    "kavka.client.fetched": "ConsumerRecord",
    "kavka.client.group_consumer": "GroupConsumer",
    "kavka.client.group_offsets": "CommittedOffset",
    "kavka.client.offsets": "EARLIEST LATEST MAX_TIMESTAMP FoundOffset",
    "kavka.client.partitioner": "partition_for_key",
    "kavka.client.pool": "Pool",
    "kavka.client.producer": "Acks Codec Producer",
    "kavka.client.registry.api": "SchemaRegistry",
    "kavka.client.registry.errors": "SchemaRegistryError",
    "kavka.client.registry.values": "Reference RegisteredSchema Schema",
    "kavka.client.share_consumer": "ShareConsumer",
    "kavka.client.share_session": "ShareRecord",
    "kavka.client.transactions": "PreparedTransaction",
    "kavka.client.typed": (
        "DeserializationError Deserializer Json JsonOf PartDeserializer PartSerializer Raw Serializer Text "
        "TypedConsumer TypedProducer TypedRecord"
    ),
    "kavka.client.view": "ClusterView Node PartitionView TopicView",
    "kavka.model.errors": "KafkaError",
    "kavka.model.murmur2": "murmur2",
    "kavka.model.types": "TopicPartition",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the program that uses it wants a log


def __getattr__(name: str) -> Any:
    """The public name, from the module that it is at home in."""
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    """What can be imported from here."""
    return sorted({*globals(), *__all__})
