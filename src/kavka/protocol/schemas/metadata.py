"""Metadata (key 3): learn brokers, topics, partitions and who leads them."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int16, Int32, between, fresh, message, null_since, request, response, since


@message
class MetadataRequestTopic:
    topic_id: Annotated[Uuid, since(10), IGNORABLE] = Uuid.ZERO
    name: Annotated[str | None, null_since(10)]


@request(key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    topics: Annotated[list[MetadataRequestTopic] | None, null_since(1)]
    allow_auto_topic_creation: Annotated[bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, between(8, 10)] = False
    include_topic_authorized_operations: Annotated[bool, since(8)] = False


@message
class MetadataResponseBroker:
    node_id: Int32
    host: str
    port: Int32
    rack: Annotated[str | None, since(1), IGNORABLE] = None


@message
class MetadataResponsePartition:
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, since(7), IGNORABLE] = -1
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: Annotated[list[Int32], since(5), IGNORABLE] = fresh()


@message
class MetadataResponseTopic:
    error_code: Int16
    name: Annotated[str | None, null_since(12)]
    topic_id: Annotated[Uuid, since(10), IGNORABLE] = Uuid.ZERO
    is_internal: Annotated[bool, since(1), IGNORABLE] = False
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: Annotated[Int32, since(8)] = -2147483648


@response(key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    throttle_time_ms: Annotated[Int32, since(3), IGNORABLE] = 0
    brokers: list[MetadataResponseBroker]
    cluster_id: Annotated[str | None, since(2), IGNORABLE] = None
    controller_id: Annotated[Int32, since(1), IGNORABLE] = -1
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: Annotated[Int32, between(8, 10)] = -2147483648
    error_code: Annotated[Int16, since(13), IGNORABLE] = 0
