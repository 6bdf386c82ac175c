"""AlterReplicaLogDirs: v1-2.

Behaviour:  begins to move replicas of this broker to other log directories of it, in place of moves under way; to
            where a replica lies already: ends a move.
Errors:     one per partition: 57 no such directory, 56 it or the replica's is offline, 39 it is cordoned, 9 no replica
            of this broker, 3 unknown partition, 17 too long a name.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kavka.replica.manager import ReplicaManager
from kavka.security.acl import Operation


@handler(AlterReplicaLogDirsRequest, needs=on_cluster(Operation.ALTER))
async def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, ctx: Context, replicas: ReplicaManager
) -> AlterReplicaLogDirsResponse:
    """Move replicas to other directories."""
    wanted = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    turn = Turn()
    for tp, path in wanted.items():
        await turn.breathe()
        error_code = 0
        try:
            replicas.futures.move(tp, path)
        except KafkaError as error:
            error_code = error.code
        row = AlterReplicaLogDirPartitionResult(partition_index=tp.partition, error_code=error_code)
        results.setdefault(tp.topic, []).append(row)
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=rows) for name, rows in results.items()],
    )
