"""TxnOffsetCommit: v0-5.

Behaviour:  offsets of a group that count once the producer's transaction is committed. Up to v4 the producer has made
            them part of its transaction by AddOffsetsToTxn; from v5 on (transaction version 2) this does.
Errors:     one per partition: 3 unknown, 12 metadata too long; for all of them 14 (before v2: 15), 15, 16, 22, 24, 25,
            47, 48, 49, 51, 82, 120.
"""

from __future__ import annotations

from operator import attrgetter

from kavka.broker.context import Context
from kavka.broker.handlers.marks import Parts, handler, on_transactional_id
from kavka.broker.handlers.offset_commit import failed as forbidden_rows
from kavka.broker.handlers.offset_commit import merged, parted
from kavka.metadata.names import CONSUMER_OFFSETS
from kavka.metadata.view import MetadataView
from kavka.model.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidGroupId,
    KafkaError,
    NetworkException,
    TopicAuthorizationFailed,
)
from kavka.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponseTopic,
)
from kavka.protocol.schemas.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kavka.runtime.groups import Groups
from kavka.runtime.verification import Verification
from kavka.security.acl import Operation, ResourceType

KNOWS_LOADING_SINCE = 2


@handler(
    TxnOffsetCommitRequest,
    on_transactional_id(Operation.WRITE),
    Parts(("topics", "partitions"), ("topics", "partitions"), 400),
)
async def txn_offset_commit(
    request: TxnOffsetCommitRequest,
    ctx: Context,
    groups: Groups,
    verification: Verification,
    view: MetadataView,
) -> TxnOffsetCommitResponse:
    """Remember how far a group has read, in a transaction."""
    ctx.require(Operation.READ, ResourceType.GROUP, request.group_id)
    known, refused = parted([plain(topic) for topic in request.topics], view.image, by_id=False)
    known, forbidden = ctx.permitted(Operation.READ, ResourceType.TOPIC, known, attrgetter("name"))
    refused += [forbidden_rows(topic, TopicAuthorizationFailed.code) for topic in forbidden]
    answered: list[OffsetCommitResponseTopic] = []
    if known:
        try:
            answered = await commit(request, known, ctx.api_version, groups, verification)
        except KafkaError as error:
            return failed(request, error, ctx.api_version)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=partition.error_code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in merged(refused, answered)
        ],
    )


async def commit(
    request: TxnOffsetCommitRequest,
    known: list[OffsetCommitRequestTopic],
    version: int,
    groups: Groups,
    verification: Verification,
) -> list[OffsetCommitResponseTopic]:
    """Have the transaction verified, and its offsets written."""
    if not request.group_id:
        raise InvalidGroupId("a group id is missing")
    producer = (request.producer_id, request.producer_epoch)
    index = groups.offsets_partition(request.group_id)
    check = await verification.offsets(request.transactional_id, producer, CONSUMER_OFFSETS, index, version)
    plain_request = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=known,
    )
    found = await groups.commit_transactional_offsets(plain_request, *producer, check)
    return found.topics


def plain(topic: TxnOffsetCommitRequestTopic) -> OffsetCommitRequestTopic:
    """What OffsetCommit would be asked."""
    return OffsetCommitRequestTopic(
        name=topic.name,
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=partition.partition_index,
                committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch,
                committed_metadata=partition.committed_metadata,
            )
            for partition in topic.partitions
        ],
    )


def failed(request: TxnOffsetCommitRequest, error: KafkaError, version: int) -> TxnOffsetCommitResponse:
    """The same error for all partitions, in words that the client's version knows."""
    code = error.code
    if isinstance(error, CoordinatorLoadInProgress) and version < KNOWS_LOADING_SINCE:
        code = CoordinatorNotAvailable.code
    elif isinstance(error, NetworkException):
        code = CoordinatorLoadInProgress.code
    rows = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(topics=rows)
