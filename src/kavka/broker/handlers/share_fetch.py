"""ShareFetch: v1-2.

Behaviour:  acknowledges what the request says of records, and acquires others meanwhile; answered when both are done,
            waiting up to max_wait_ms for min_bytes. The session belongs to the connection. Its first answer names the
            partitions that were fetched, a later one those that have something to say. A fetch that renews locks
            reads nothing.
Errors:     of the whole request 30, 35 while share.version is off, 42, 122, 123, 133; one per partition for the fetch
            and one for its acknowledgements: 3, 6, 15, 29, 42, 100, 121.
"""

from __future__ import annotations

from collections.abc import Iterable

from kavka.broker.context import Context
from kavka.broker.handlers.marks import PER_ITEM, handler
from kavka.broker.share_requests import (
    Leaders,
    Outcomes,
    Rights,
    Where,
    acknowledge,
    limits_of,
    said_in,
    session_of,
    without_words,
)
from kavka.broker.sharing import share_version
from kavka.metadata.live import LiveSettings
from kavka.metadata.view import MetadataView
from kavka.model.errors import InvalidShareSessionEpoch, KafkaError
from kavka.model.settings import FETCH_MAX_BYTES
from kavka.model.types import Uuid
from kavka.protocol.schemas.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kavka.replica.manager import ReplicaManager
from kavka.runtime.share_fetching import FetchedShare
from kavka.runtime.share_leader import ShareLeader
from kavka.security.acl import Operation, ResourceType
from kavka.share.checks import check_group, check_member, check_renewal
from kavka.share.session import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, ShareSession, next_epoch

Rows = dict[Where, FetchedShare]


@handler(ShareFetchRequest, needs=PER_ITEM)
async def share_fetch(
    request: ShareFetchRequest,
    ctx: Context,
    leader: ShareLeader,
    view: MetadataView,
    settings: LiveSettings,
    replicas: ReplicaManager,
) -> ShareFetchResponse:
    """Acknowledge records, and acquire others."""
    with without_words():
        group_id = check_group(share_version(view.image), request.group_id)
        ctx.require(Operation.READ, ResourceType.GROUP, group_id)
        key = SessionKey(group_id, check_member(request.member_id))
        sizes = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
        check_renewal(ctx.api_version, request.is_renew_ack, sizes)
        session = await session_of(request, key, ctx, leader)
    epoch, rights = request.share_session_epoch, Rights(ctx, view.image)
    said = said_in(request.topics)
    acknowledging = None
    if any(said.values()):
        acknowledging = acknowledge(leader, key, said, rights, ctx.api_version, request.is_renew_ack)
    rows: Rows = {}
    if epoch != FINAL_EPOCH and not request.is_renew_ack:
        rows = await fetched(request, ctx, leader, session, said, rights, settings[FETCH_MAX_BYTES])
    outcomes: Outcomes = {} if acknowledging is None else await acknowledging.outcomes()
    if epoch == FINAL_EPOCH:
        leader.end_session(key)
    elif epoch != INITIAL_EPOCH:
        if leader.sessions.get(key) is not session or session.epoch != next_epoch(epoch):
            raise InvalidShareSessionEpoch  # the session has gone on without this request
        rows = {where: row for where, row in rows.items() if must_answer(session, where, row)}
    lock_ms = leader.settings_of(key.group_id).record_lock_duration_ms
    return response(rows, outcomes, Leaders(replicas, ctx.listener, set()), lock_ms)


async def fetched(
    request: ShareFetchRequest,
    ctx: Context,
    leader: ShareLeader,
    session: ShareSession[Where],
    named: Iterable[Where],
    rights: Rights,
    most_bytes: int,
) -> Rows:
    """What the partitions of the session give, and why some do not."""
    forgotten = [(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
    interest = leader.interest(session, named, forgotten, request.share_session_epoch)
    refused = {where: FetchedShare(error) for where in interest.active if (error := rights.refusal(where)) is not None}
    limits = limits_of(request, session.key.member_id, leader.settings_of(session.key.group_id), most_bytes)
    found = await leader.fetch(ctx.connection_id, interest, refused, limits, request.max_wait_ms)
    return {**found, **refused}


def must_answer(session: ShareSession[Where], where: Where, row: FetchedShare) -> bool:
    """Whether an answer names a partition."""
    return session.must_answer(where, len(row.records) > 0, row.error is not None)


def response(rows: Rows, outcomes: Outcomes, leaders: Leaders, lock_ms: int) -> ShareFetchResponse:
    """The answer, by topic."""
    topics: dict[Uuid, list[PartitionData]] = {}
    for where in {**rows, **outcomes}:
        row = rows.get(where) or FetchedShare()
        topic_id, _ = where
        topics.setdefault(topic_id, []).append(partition(where, row, outcomes.get(where), leaders))
    return ShareFetchResponse(
        error_code=0,
        acquisition_lock_timeout_ms=lock_ms,
        responses=[ShareFetchableTopicResponse(topic_id=id_, partitions=found) for id_, found in topics.items()],
        node_endpoints=leaders.endpoints(NodeEndpoint),
    )


def partition(where: Where, row: FetchedShare, said: KafkaError | None, leaders: Leaders) -> PartitionData:
    """A partition's row."""
    _, index = where
    leader_id, leader_epoch = leaders.of(where, row.error)
    return PartitionData(
        partition_index=index,
        error_code=0 if row.error is None else row.error.code,
        error_message=None if row.error is None else row.error.message or None,
        acknowledge_error_code=0 if said is None else said.code,
        acknowledge_error_message=None if said is None else said.message or None,
        current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
        records=row.records,
        acquired_records=[
            AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count)
            for first, last, count in row.acquired
        ],
    )
