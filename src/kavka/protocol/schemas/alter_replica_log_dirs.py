"""AlterReplicaLogDirs (key 34): move replicas between the log directories of a broker."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, message, request, response


@message
class AlterReplicaLogDirTopic:
    name: str
    partitions: list[Int32]


@message
class AlterReplicaLogDir:
    path: str
    topics: list[AlterReplicaLogDirTopic]


@request(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir]


@message
class AlterReplicaLogDirPartitionResult:
    partition_index: Int32
    error_code: Int16


@message
class AlterReplicaLogDirTopicResult:
    topic_name: str
    partitions: list[AlterReplicaLogDirPartitionResult]


@response(key=34, versions="1-2", flexible="2+")
class AlterReplicaLogDirsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AlterReplicaLogDirTopicResult]
