"""DescribeLogDirs: v1-5.

Behaviour:  every log directory with the sizes of the asked partitions (null: all), also of those being moved there.
Errors:     an offline directory says KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.metadata.features import MV_CORDONED_DIRS
from kavka.model.errors import KafkaStorageError
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kavka.replica.dirs import LogDir
from kavka.replica.futures import FutureReplica
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
    return DescribeLogDirsResponse(results=[await describe(directory, replicas, wanted) for directory in replicas.dirs])


async def describe(
    directory: LogDir, replicas: ReplicaManager, wanted: dict[str, set[int]] | None
) -> DescribeLogDirsResult:
    """One directory's row."""
    try:
        if not directory.online:
            raise KafkaStorageError(f"{directory.path} is offline")
        total, usable = directory.space()
    except (KafkaStorageError, OSError):
        return DescribeLogDirsResult(error_code=KafkaStorageError.code, log_dir=directory.name, topics=[])
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    turn = Turn()
    for log in list(replicas.logs_in(directory)):
        await turn.breathe()
        name, index = log.topic_partition
        if wanted is None or index in wanted.get(name, ()):
            lag = log.lag if isinstance(log, FutureReplica) else max(log.high_watermark - log.log_end_offset, 0)
            topics.setdefault(name, []).append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=log.size_bytes,
                    offset_lag=lag,
                    is_future_key=isinstance(log, FutureReplica),
                )
            )
    return DescribeLogDirsResult(
        error_code=0,
        log_dir=directory.name,
        topics=[DescribeLogDirsTopic(name=name, partitions=rows) for name, rows in topics.items()],
        total_bytes=total,
        usable_bytes=usable,
        is_cordoned=directory.cordoned and replicas.image.features.metadata_version >= MV_CORDONED_DIRS,
    )
