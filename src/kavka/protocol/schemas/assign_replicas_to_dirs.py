"""AssignReplicasToDirs (key 73): a broker says in which log directories its replicas are (KIP-858)."""

from __future__ import annotations

from kavka.model.types import Uuid
from kavka.protocol.schema import Int16, Int32, Int64, message, request, response


@message
class RequestPartitionData:
    partition_index: Int32


@message
class RequestTopicData:
    topic_id: Uuid
    partitions: list[RequestPartitionData]


@message
class RequestDirectoryData:
    id: Uuid
    topics: list[RequestTopicData]


@request(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest:
    broker_id: Int32
    broker_epoch: Int64 = -1
    directories: list[RequestDirectoryData]


@message
class ResponsePartitionData:
    partition_index: Int32
    error_code: Int16


@message
class ResponseTopicData:
    topic_id: Uuid
    partitions: list[ResponsePartitionData]


@message
class ResponseDirectoryData:
    id: Uuid
    topics: list[ResponseTopicData]


@response(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    directories: list[ResponseDirectoryData]
