"""DescribeTopicPartitions: v0.

Behaviour:  topics in the order of their names, page by page: at most max.request.partition.size.limit partitions,
            and a cursor to go on from. No topic named means all.
Errors:     one per topic: 3 unknown, 17 invalid name; a cursor that points nowhere makes every topic INVALID_REQUEST.
"""

from __future__ import annotations

from kavka.broker.context import NOT_ASKED, Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.topology import has_listener, missing_code, offline_replicas
from kavka.metadata.image import MetadataImage, TopicImage
from kavka.metadata.live import LiveSettings
from kavka.metadata.names import is_internal
from kavka.metadata.view import MetadataView
from kavka.model.errors import InvalidRequest, TopicAuthorizationFailed
from kavka.model.settings import MAX_REQUEST_PARTITION_SIZE_LIMIT
from kavka.model.types import Uuid
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kavka.security.acl import Operation, ResourceType


@handler(DescribeTopicPartitionsRequest, needs=PER_ITEM)
async def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, ctx: Context, view: MetadataView, settings: LiveSettings
) -> DescribeTopicPartitionsResponse:
    """Show a page of topics with their partitions."""
    image, cursor = view.image, request.cursor
    start = cursor.topic_name if cursor else ""
    wanted = {topic.name for topic in request.topics} or image.topics.by_name.keys()
    may_see, hidden = ctx.permitted(Operation.DESCRIBE, ResourceType.TOPIC, wanted, str, asked=bool(request.topics))
    names = sorted(name for name in may_see if name >= start)
    if cursor is not None and (cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names)):
        refused = [row(InvalidRequest.code, topic.name, Uuid.ZERO, [], NOT_ASKED) for topic in request.topics]
        return DescribeTopicPartitionsResponse(topics=refused)
    left = max(min(settings[MAX_REQUEST_PARTITION_SIZE_LIMIT], request.response_partition_limit), 1)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    if request.topics and cursor is None:
        topics = [row(TopicAuthorizationFailed.code, name, Uuid.ZERO, [], NOT_ASKED) for name in sorted(hidden)]
    next_cursor = None
    turn = Turn()
    for name in names:
        await turn.breathe()
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if left == 0:
            next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.by_name.get(name)
        if topic is None:
            missing = row(missing_code(name), name, Uuid.ZERO, [], ctx.operations(ResourceType.TOPIC, name))
            topics += [missing] if request.topics else []
            continue
        rows = partition_rows(image, topic, first, left, ctx.listener)
        topics.append(row(0, name, topic.id, rows, ctx.operations(ResourceType.TOPIC, name)))
        if first + left < len(topic.partitions):
            next_cursor = Cursor(topic_name=name, partition_index=first + left)
            break
        left -= len(rows)
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)


def partition_rows(
    image: MetadataImage, topic: TopicImage, first: int, count: int, listener: str
) -> list[DescribeTopicPartitionsResponsePartition]:
    """Some partitions of a topic."""
    rows = []
    for index in range(first, min(len(topic.partitions), first + count)):
        partition = topic.partitions[index]
        rows.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=0,
                partition_index=index,
                leader_id=partition.leader if has_listener(image, partition.leader, listener) else -1,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=offline_replicas(image, partition, listener),
            )
        )
    return rows


def row(
    code: int,
    name: str,
    id_: Uuid,
    partitions: list[DescribeTopicPartitionsResponsePartition],
    operations: int,
) -> DescribeTopicPartitionsResponseTopic:
    """A topic's row."""
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=id_,
        is_internal=is_internal(name),
        partitions=partitions,
        topic_authorized_operations=operations,
    )
