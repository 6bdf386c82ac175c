"""FetchSnapshot: v0-1.

Behaviour:  a replica of the metadata log that is too far behind reads a snapshot, a window at a time.
Errors:     for the whole request 104 foreign cluster, 42 not about one partition; for the partition 3 another than the
            metadata log's, 6 not the leader, 74 and 76 another epoch, 98 no such snapshot (that of the formatting is
            none), 99 a position that it does not have.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.model.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from kavka.protocol.schemas import fetch_snapshot as schema
from kavka.protocol.schemas.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.wire import only_partition, write_snapshot_window
from kavka.security.acl import Operation


@handler(FetchSnapshotRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def fetch_snapshot(
    request: FetchSnapshotRequest, ctx: Context, controller: ControllerLoop
) -> FetchSnapshotResponse:
    """Give a replica a window of a snapshot."""
    try:
        controller.strangers.check(request.cluster_id, ctx.client_host)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            raise InvalidRequest("FetchSnapshot is about one partition")
    except KafkaError as error:
        return FetchSnapshotResponse(error_code=error.code, topics=[])
    try:
        asked = only_partition(request.topics, "name", "partition")
    except InvalidRequest:
        return unknown(request.topics[0])
    window = controller.quorum.snapshot_window(request.replica_id, asked, request.max_bytes)
    return write_snapshot_window(window, ctx.listener, ctx.api_version)


def unknown(topic: schema.RequestTopicSnapshot) -> FetchSnapshotResponse:
    """The answer about a partition that has no snapshots."""
    partition = schema.ResponsePartitionSnapshot(
        index=topic.partitions[0].partition,
        error_code=UnknownTopicOrPartition.code,
        snapshot_id=schema.SnapshotId(end_offset=0, epoch=0),
        size=0,
        position=0,
        unaligned_records=b"",
    )
    answer = schema.ResponseTopicSnapshot(name=topic.name, partitions=[partition])
    return FetchSnapshotResponse(error_code=0, topics=[answer])
