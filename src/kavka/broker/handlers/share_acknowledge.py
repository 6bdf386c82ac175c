"""ShareAcknowledge: v1-2.

Behaviour:  takes a member's word on records it has acquired: accepted, released, rejected, not there, or (v2) to be
            locked for longer; answered when the share coordinator has it. Epoch -1 ends the session, and releases
            what the member still has.
Errors:     of the whole request 30, 35 while share.version is off, 42, 122, 123; one per partition: 3, 6, 15, 29, 42,
            100, 121.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.share_requests import Leaders, Rights, Where, acknowledge, said_in, without_words
from kavka.broker.sharing import share_version
from kavka.metadata.view import MetadataView
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.protocol.schemas.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from kavka.replica.manager import ReplicaManager
from kavka.runtime.share_leader import ShareLeader
from kavka.security.acl import Operation, ResourceType
from kavka.share.checks import check_group, check_member
from kavka.share.session import FINAL_EPOCH, SessionKey


@handler(ShareAcknowledgeRequest, needs=PER_ITEM)
async def share_acknowledge(
    request: ShareAcknowledgeRequest, ctx: Context, leader: ShareLeader, view: MetadataView, replicas: ReplicaManager
) -> ShareAcknowledgeResponse:
    """Acknowledge records."""
    with without_words():
        group_id = check_group(share_version(view.image), request.group_id)
        ctx.require(Operation.READ, ResourceType.GROUP, group_id)
        key = SessionKey(group_id, check_member(request.member_id))
        leader.sessions.acknowledge(key, request.share_session_epoch)
    said, rights = said_in(request.topics), Rights(ctx, view.image)
    acknowledging = acknowledge(leader, key, said, rights, ctx.api_version, request.is_renew_ack)
    outcomes = await acknowledging.outcomes()
    if request.share_session_epoch == FINAL_EPOCH:
        leader.end_session(key)
    leaders = Leaders(replicas, ctx.listener, set())
    topics: dict[Uuid, list[PartitionData]] = {}
    for where, error in outcomes.items():
        topic_id, _ = where
        topics.setdefault(topic_id, []).append(row(where, error, leaders))
    return ShareAcknowledgeResponse(
        error_code=0,
        acquisition_lock_timeout_ms=leader.settings_of(key.group_id).record_lock_duration_ms,
        responses=[ShareAcknowledgeTopicResponse(topic_id=id_, partitions=rows) for id_, rows in topics.items()],
        node_endpoints=leaders.endpoints(NodeEndpoint),
    )


def row(where: Where, error: KafkaError | None, leaders: Leaders) -> PartitionData:
    """A partition's row."""
    _, index = where
    leader_id, leader_epoch = leaders.of(where, error)
    return PartitionData(
        partition_index=index,
        error_code=0 if error is None else error.code,
        error_message=None if error is None else error.message or None,
        current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
    )
