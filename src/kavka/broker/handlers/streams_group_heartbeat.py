"""StreamsGroupHeartbeat: v0.

Behaviour:  answers once the group's records are committed. Internal topics that the topology lacks are created in the
            client's name, beside the answer; until they are there the answer says so, and why they could not be.
Errors:     35 while streams.version is off, 29 a topic that the client may not describe, 130 a topology that cannot be;
            else what the group says: 25, 42, 69, 81, 110. What is wrong with topics is a status, not an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.broker.context import Context
from kavka.broker.coordination import client_of, require_streams_groups
from kavka.broker.handlers.marks import handler, on_group
from kavka.controller.topics import NewTopic
from kavka.coordinator.streams.kind import StreamsKind
from kavka.coordinator.streams.topology import ConfiguredInternalTopic, StreamsStatus, names_in
from kavka.metadata.live import LiveSettings
from kavka.metadata.names import is_internal, is_valid_topic_name
from kavka.metadata.view import MetadataView
from kavka.model.errors import StreamsInvalidTopology
from kavka.protocol.schema import replace
from kavka.protocol.schemas import streams_group_heartbeat as schema
from kavka.protocol.schemas.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kavka.quorum.requested_topics import RequestedTopics
from kavka.runtime.groups import Groups
from kavka.security.acl import Operation, ResourceType

SHOWN_FAILURES: Final = 3


@handler(StreamsGroupHeartbeatRequest, needs=on_group(Operation.READ))
async def streams_group_heartbeat(
    request: StreamsGroupHeartbeatRequest,
    ctx: Context,
    groups: Groups,
    view: MetadataView,
    settings: LiveSettings,
    requested: RequestedTopics,
) -> StreamsGroupHeartbeatResponse:
    """Join, stay in or leave a streams group."""
    require_streams_groups(view.image, settings.values)
    if request.topology is not None:
        check_topics(names_in(request.topology.subtopologies), ctx)
    client = client_of(ctx)
    answer = await groups.ask(
        StreamsKind, request.group_id, lambda kind, now_ms: kind.streams_group_heartbeat(request, client, now_ms)
    )
    if not answer.missing:
        return answer.response
    return with_detail(answer.response, create_missing(answer.missing, answer.response, ctx, requested))


def check_topics(names: list[str], ctx: Context) -> None:
    """Raise unless a topology may name these topics, and the client describe them."""
    prohibited = [name for name in names if is_internal(name)]
    if prohibited:
        raise StreamsInvalidTopology(
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
        )
    invalid = [name for name in names if not is_valid_topic_name(name)]
    if invalid:
        raise StreamsInvalidTopology(f"Topic names {','.join(invalid)} are not valid topic names.")
    for name in names:
        ctx.require(Operation.DESCRIBE, ResourceType.TOPIC, name)


def create_missing(
    missing: Sequence[ConfiguredInternalTopic],
    response: StreamsGroupHeartbeatResponse,
    ctx: Context,
    requested: RequestedTopics,
) -> str:
    """Have internal topics created if the client may; what to add to the status that says they are missing."""
    names = [topic.name for topic in missing]
    if not ctx.allows(Operation.CREATE, ResourceType.CLUSTER, asked=False):
        _, refused = ctx.permitted(Operation.CREATE, ResourceType.TOPIC, names, str)
        if refused:
            return f"; Unauthorized to CREATE on topics {', '.join(refused)}."
    topics = [NewTopic(topic.name, topic.partitions, topic.replication, configs=topic.configs) for topic in missing]
    requested.request(topics, remember_ms=2 * response.heartbeat_interval_ms)
    failures = requested.failures(names)
    if not failures:
        return ""
    shown = ", ".join(f"{name} ({why})" for name, why in list(failures.items())[:SHOWN_FAILURES])
    more = len(failures) - SHOWN_FAILURES
    return f"; Creation failed: {shown} and {more} more." if more > 0 else f"; Creation failed: {shown}."


def with_detail(response: StreamsGroupHeartbeatResponse, detail: str) -> StreamsGroupHeartbeatResponse:
    """An answer that says more of the internal topics that are missing."""
    statuses = [
        schema.Status(status_code=status.status_code, status_detail=status.status_detail + detail)
        if status.status_code == StreamsStatus.MISSING_INTERNAL_TOPICS
        else status
        for status in response.status or ()
    ]
    return replace(response, status=statuses)
