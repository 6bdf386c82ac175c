"""DeleteRecords: v0-2.

Behaviour:  moves the log start offset; -1 means up to the high watermark. Durable when answered, and done by every
            live replica, or REQUEST_TIMED_OUT.
Errors:     one per partition, with low watermark -1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, Parts, handler
from kavka.metadata.names import is_internal
from kavka.model.errors import InvalidTopicException, KafkaError, KafkaStorageError
from kavka.protocol.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kavka.replica.checkpoints import Checkpoints
from kavka.replica.committing import Awaited, Errors, ReplicasWait, deleted
from kavka.replica.manager import ReplicaManager
from kavka.replica.waiting import Waiting
from kavka.security.acl import Operation, ResourceType
from kavka.storage.files import LOG_STARTS

Place = tuple[str, int]


@handler(DeleteRecordsRequest, PER_ITEM, Parts(("topics", "partitions"), ("topics", "partitions"), 200))
async def delete_records(
    request: DeleteRecordsRequest, ctx: Context, replicas: ReplicaManager, checkpoints: Checkpoints
) -> DeleteRecordsResponse:
    """Delete the records of partitions below given offsets."""
    awaited: dict[Place, Awaited] = {}
    failed: dict[Place, KafkaError] = {}
    for topic in request.topics:
        for row in topic.partitions:
            place = topic.name, row.partition_index
            try:
                ctx.require(Operation.DELETE, ResourceType.TOPIC, topic.name)
                awaited[place] = delete(topic.name, row, replicas)
            except KafkaError as error:
                failed[place] = error
    lost = await checkpoints.write(LOG_STARTS)
    for place, one in awaited.items():
        if replicas.held(*place) is one.partition and replicas.directory_of(one.partition) in lost:
            failed[place] = KafkaStorageError("a restart would bring the records back")
    waiting = {place: one for place, one in awaited.items() if one.partition.low_watermark < one.offset}
    if waiting:
        failed = {**await on_all_replicas(waiting, request.timeout_ms), **failed}

    def result(topic: str, index: int) -> DeleteRecordsPartitionResult:
        error = failed.get((topic, index))
        low = -1 if error is not None else awaited[topic, index].partition.low_watermark
        code = 0 if error is None else error.code
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low, error_code=code)

    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[result(topic.name, row.partition_index) for row in topic.partitions]
            )
            for topic in request.topics
        ],
    )


def delete(topic: str, row: DeleteRecordsPartition, replicas: ReplicaManager) -> Awaited:
    """Delete on the leader; what the other replicas have to follow with."""
    partition = replicas.find(topic, row.partition_index)
    if is_internal(topic):
        raise InvalidTopicException(f"records of the internal topic {topic} cannot be deleted")
    return Awaited(partition, partition.delete_records(row.offset), partition.led_since)


async def on_all_replicas(awaited: Mapping[Place, Awaited], timeout_ms: int) -> Errors[Place]:
    """Wait for the other replicas; the errors of partitions that were not there in time."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Errors[Place]] = loop.create_future()

    def answer(errors: Errors[Place]) -> None:
        if not done.done():  # else the client has gone
            done.set_result(errors)

    ReplicasWait(awaited, deleted, answer).park(timeout_ms, Waiting(loop))
    return await done
