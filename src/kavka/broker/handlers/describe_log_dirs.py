"""DescribeLogDirs: v1-5.

Behaviour:  every log directory with the sizes of the asked partitions (null: all).
Errors:     an offline directory says KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.model.errors import KafkaStorageError
from kavka.protocol.schemas.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kavka.quorum.controller_loop import Turn
from kavka.replica.dirs import LogDir
from kavka.replica.manager import ReplicaManager
from kavka.security.acl import Operation


@handler(DescribeLogDirsRequest, needs=on_cluster(Operation.DESCRIBE))
async def describe_log_dirs(
    request: DescribeLogDirsRequest, ctx: Context, replicas: ReplicaManager
) -> DescribeLogDirsResponse:
    """Say what lies in which log directory and how much room is left."""
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted, turn = {}, Turn()
        for topic in request.topics:
            wanted.setdefault(topic.topic, set()).update(topic.partitions)
            await turn.breathe()
    return DescribeLogDirsResponse(
        throttle_time_ms=0, results=[await describe(directory, replicas, wanted) for directory in replicas.dirs]
    )


async def describe(
    directory: LogDir, replicas: ReplicaManager, wanted: dict[str, set[int]] | None
) -> DescribeLogDirsResult:
    """One directory's row."""
    try:
        if not directory.online:
            raise KafkaStorageError(f"{directory.path} is offline")
        total, usable = directory.space()
    except (KafkaStorageError, OSError):
        return DescribeLogDirsResult(error_code=KafkaStorageError.code, log_dir=directory.path, topics=[])
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    turn = Turn()
    for partition in list(replicas.partitions_in(directory)):
        await turn.breathe()
        name, index = partition.topic_partition
        if wanted is None or index in wanted.get(name, ()):
            topics.setdefault(name, []).append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=partition.size_bytes,
                    offset_lag=max(partition.high_watermark - partition.log_end_offset, 0),
                    is_future_key=False,
                )
            )
    return DescribeLogDirsResult(
        error_code=0,
        log_dir=directory.path,
        topics=[DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
    )
