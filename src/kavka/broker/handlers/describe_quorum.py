"""DescribeQuorum: v0-2.

Behaviour:  the leader of the metadata quorum, the log end offset of each replica, and from v2 the endpoints of voters.
Errors:     per partition: anything but partition 0 of __cluster_metadata is UNKNOWN_TOPIC_OR_PARTITION; only the leader
            can tell, others are NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.metadata.names import CLUSTER_METADATA
from kavka.model.errors import KafkaError, NotLeaderOrFollower, UnknownTopicOrPartition
from kavka.model.types import Uuid
from kavka.pacing.turn import Turn
from kavka.protocol.schemas.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.status import QuorumStatus, ReplicaStatus
from kavka.security.acl import Operation


@handler(DescribeQuorumRequest, needs=on_cluster(Operation.DESCRIBE))
async def describe_quorum(
    request: DescribeQuorumRequest, ctx: Context, controller: ControllerLoop
) -> DescribeQuorumResponse:
    """Describe the metadata quorum."""
    asked = [
        (topic.topic_name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    ]
    if asked != [(CLUSTER_METADATA, 0)]:
        why = UnknownTopicOrPartition(f"the quorum is about partition 0 of {CLUSTER_METADATA}")
        topics, turn = [], Turn()
        for topic in request.topics:
            rows = []
            for partition in topic.partitions:
                rows.append(refused(partition.partition_index, why))
                await turn.breathe()
            topics.append(ResponseTopicData(topic_name=topic.topic_name, partitions=rows))
            await turn.breathe()
        return DescribeQuorumResponse(error_code=0, error_message="", topics=topics)
    status = controller.status()
    if status.leader_id != controller.node_id:
        partitions = [refused(0, NotLeaderOrFollower(f"node {controller.node_id} does not lead the quorum"))]
        topics = [ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=partitions)]
        return DescribeQuorumResponse(error_code=0, error_message="", topics=topics)
    return DescribeQuorumResponse(
        error_code=0,
        error_message="",
        topics=[ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[described(status, ctx.api_version)])],
        nodes=nodes(status) if ctx.api_version >= 2 else [],
    )


def refused(index: int, error: KafkaError) -> ResponsePartitionData:
    """A partition of which nothing can be told."""
    return ResponsePartitionData(
        partition_index=index,
        error_code=error.code,
        error_message=error.message,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=[],
        observers=[],
    )


def described(status: QuorumStatus, version: int) -> ResponsePartitionData:
    """The metadata log."""
    return ResponsePartitionData(
        partition_index=0,
        error_code=0,
        error_message="",
        leader_id=status.leader_id,
        leader_epoch=status.leader_epoch,
        high_watermark=status.high_watermark,
        current_voters=[replica(voter, version) for voter in status.voters],
        observers=[replica(observer, version) for observer in status.observers],
    )


def replica(status: ReplicaStatus, version: int) -> ReplicaState:
    """How far a replica is."""
    return ReplicaState(
        replica_id=status.id,
        replica_directory_id=status.directory_id if version >= 2 else Uuid.ZERO,
        log_end_offset=status.log_end_offset,
        last_fetch_timestamp=status.last_fetch_ms,
        last_caught_up_timestamp=status.last_caught_up_ms,
    )


def nodes(status: QuorumStatus) -> list[Node]:
    """Where the voters are."""
    return [
        Node(
            node_id=voter.key.id,
            listeners=[
                Listener(name=endpoint.listener, host=endpoint.host, port=endpoint.port) for endpoint in voter.endpoints
            ],
        )
        for voter in status.nodes
    ]
