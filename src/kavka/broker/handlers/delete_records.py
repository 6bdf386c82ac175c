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
from kavka.metadata.names import is_write_protected
from kavka.model.errors import InvalidTopicException, KafkaError, KafkaStorageError
from kavka.model.types import TopicPartition
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
from kavka.replica.waiting import Purgatory
from kavka.security.acl import Operation, ResourceType
from kavka.storage.files import LOG_STARTS


@handler(DeleteRecordsRequest, PER_ITEM, Parts(("topics", "partitions"), ("topics", "partitions"), 200))
async def delete_records(
    request: DeleteRecordsRequest, ctx: Context, replicas: ReplicaManager, checkpoints: Checkpoints
) -> DeleteRecordsResponse:
    """Delete the records of partitions below given offsets."""
    awaited: dict[TopicPartition, Awaited] = {}
    failed: dict[TopicPartition, KafkaError] = {}
    for topic in request.topics:
        for row in topic.partitions:
            tp = TopicPartition(topic.name, row.partition_index)
            try:
                ctx.require(Operation.DELETE, ResourceType.TOPIC, topic.name)
                awaited[tp] = delete(topic.name, row, replicas)
            except KafkaError as error:
                failed[tp] = error
    lost = await checkpoints.write(LOG_STARTS)
    for tp, deletion in awaited.items():
        if replicas.held(*tp) is deletion.partition and replicas.directory_of(deletion.partition) in lost:
            failed[tp] = KafkaStorageError("a restart would bring the records back")
    waiting = {tp: deletion for tp, deletion in awaited.items() if deletion.partition.low_watermark < deletion.offset}
    if waiting:
        failed = {**await on_all_replicas(waiting, request.timeout_ms), **failed}

    def result(topic: str, index: int) -> DeleteRecordsPartitionResult:
        error = failed.get(TopicPartition(topic, index))
        low = -1 if error is not None else awaited[TopicPartition(topic, index)].partition.low_watermark
        code = 0 if error is None else error.code
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low, error_code=code)

    return DeleteRecordsResponse(
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
    if is_write_protected(topic):
        raise InvalidTopicException(f"records of the internal topic {topic} cannot be deleted")
    return Awaited(partition, partition.delete_records(row.offset), partition.led_since)


async def on_all_replicas(awaited: Mapping[TopicPartition, Awaited], timeout_ms: int) -> Errors[TopicPartition]:
    """Wait for the other replicas; the errors of partitions that were not there in time."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Errors[TopicPartition]] = loop.create_future()

    def answer(errors: Errors[TopicPartition]) -> None:
        if not done.done():  # else the client has gone
            done.set_result(errors)

    ReplicasWait(awaited, deleted, answer).park(timeout_ms, Purgatory(loop))
    return await done
