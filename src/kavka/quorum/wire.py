"""Kafka's requests of the quorum as the raft core's messages, and the core's replies as Kafka's responses.

Requests name one partition, that of the metadata log; a response names it too, or has an error for the whole.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kavka.metadata.names import CLUSTER_METADATA
from kavka.model.errors import InvalidRequest
from kavka.model.types import Endpoint, FileSlice, Uuid
from kavka.protocol.schemas import add_raft_voter as add
from kavka.protocol.schemas import begin_quorum_epoch as begin
from kavka.protocol.schemas import end_quorum_epoch as end
from kavka.protocol.schemas import fetch, fetch_snapshot, vote
from kavka.protocol.schemas import remove_raft_voter as remove
from kavka.protocol.schemas import update_raft_voter as update
from kavka.quorum.snapshots import BOOTSTRAP_ID, SnapshotId
from kavka.raft.messages import (
    AddVoter,
    BeginEpoch,
    BeginEpochReply,
    EndEpoch,
    EndEpochReply,
    Fetch,
    FetchReply,
    RemoveVoter,
    SnapshotReply,
    UpdateVoter,
    Vote,
    VoterChangeReply,
    VoteReply,
)
from kavka.raft.voters import ReplicaKey, Voter

logger = logging.getLogger(__name__)

T = TypeVar("T")
_NO_RECORDS: Final = b""


class _Topic(Protocol):
    """A topic of a request or response."""

    @property
    def partitions(self) -> Sequence[Any]:
        """Its partitions."""


def only_partition(topics: Sequence[_Topic], name: str, index: str = "partition_index") -> Any:
    """The one partition that a message is about; raises InvalidRequest unless it is the metadata log's."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise InvalidRequest("a quorum's message is about one partition")
    partition = topics[0].partitions[0]
    if getattr(topics[0], name) != CLUSTER_METADATA or getattr(partition, index) != 0:
        raise InvalidRequest(f"the quorum is about partition 0 of {CLUSTER_METADATA}")
    return partition


def only_fetched(topics: Sequence[Any], version: int, index: str) -> Any:
    """The same for Fetch, which names topics by their ids from version 13 on."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise InvalidRequest("a quorum's message is about one partition")
    topic, partition = topics[0], topics[0].partitions[0]
    right = topic.topic_id == Uuid.METADATA_TOPIC if version >= 13 else topic.topic == CLUSTER_METADATA
    if not right or getattr(partition, index) != 0:
        raise InvalidRequest(f"the quorum is about partition 0 of {CLUSTER_METADATA}")
    return partition


def _key(id_: int, directory_id: Uuid) -> ReplicaKey | None:
    return ReplicaKey(id_, directory_id) if id_ >= 0 else None


def _unsecured(listeners: Iterable[Any]) -> tuple[Endpoint, ...]:
    # Endpoints go without a security protocol here: the listener's name decides it.
    return tuple(Endpoint(listener.name, listener.host, listener.port, "") for listener in listeners)


# -- requests that come in --------------------------------------------------------------------------------------------


def read_vote(request: vote.VoteRequest) -> Vote:
    """A request for a vote."""
    asked = only_partition(request.topics, "topic_name")
    return Vote(
        epoch=asked.replica_epoch,
        candidate=ReplicaKey(asked.replica_id, asked.replica_directory_id),
        last_epoch=asked.last_offset_epoch,
        last_offset=asked.last_offset,
        pre_vote=asked.pre_vote,
        voter=_key(request.voter_id, asked.voter_directory_id),
    )


def read_begin(request: begin.BeginQuorumEpochRequest) -> BeginEpoch:
    """A leader's announcement."""
    said = only_partition(request.topics, "topic_name")
    return BeginEpoch(
        epoch=said.leader_epoch,
        leader_id=said.leader_id,
        leader_endpoints=_unsecured(request.leader_endpoints),
        voter=_key(request.voter_id, said.voter_directory_id),
    )


def read_end(request: end.EndQuorumEpochRequest) -> EndEpoch:
    """A leader resigns (EndQuorumEpoch)."""
    said = only_partition(request.topics, "topic_name")
    preferred = [
        ReplicaKey(candidate.candidate_id, candidate.candidate_directory_id) for candidate in said.preferred_candidates
    ]
    return EndEpoch(
        epoch=said.leader_epoch,
        leader_id=said.leader_id,
        preferred=tuple(preferred or (ReplicaKey(id_) for id_ in said.preferred_successors)),
        leader_endpoints=_unsecured(request.leader_endpoints),
    )


def read_fetch(request: fetch.FetchRequest, version: int) -> Fetch:
    """A replica's question for more."""
    asked = only_fetched(request.topics, version, "partition")
    replica_id = request.replica_state.replica_id if version >= 15 else request.replica_id
    return Fetch(
        epoch=asked.current_leader_epoch,
        replica=ReplicaKey(replica_id, asked.replica_directory_id),
        offset=asked.fetch_offset,
        last_epoch=asked.last_fetched_epoch,
        high_watermark=asked.high_watermark,
        max_wait_ms=request.max_wait_ms,
    )


def read_add(request: add.AddRaftVoterRequest) -> AddVoter:
    """Somebody wants a voter added."""
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    voter = Voter(key, _unsecured(request.listeners))
    return AddVoter(voter, request.ack_when_committed)


def read_remove(request: remove.RemoveRaftVoterRequest) -> RemoveVoter:
    """Somebody wants a voter removed."""
    return RemoveVoter(ReplicaKey(request.voter_id, request.voter_directory_id))


def read_update(request: update.UpdateRaftVoterRequest) -> UpdateVoter:
    """A voter tells where it listens now."""
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    versions = request.kraft_version_feature
    voter = Voter(key, _unsecured(request.listeners), versions.min_supported_version, versions.max_supported_version)
    return UpdateVoter(request.current_leader_epoch, voter)


# -- responses that go out --------------------------------------------------------------------------------------------


def endpoint_of(endpoints: Iterable[Endpoint], listener: str) -> Endpoint | None:
    """The endpoint of a listener."""
    return next((endpoint for endpoint in endpoints if endpoint.listener == listener), None)


class _LeaderNamed(Protocol):
    @property
    def leader_id(self) -> int: ...

    @property
    def leader_endpoints(self) -> tuple[Endpoint, ...]: ...


def _nodes(reply: _LeaderNamed, listener: str, make: Callable[..., T]) -> list[T]:
    """Where the leader listens, if that is known."""
    found = endpoint_of(reply.leader_endpoints, listener) if reply.leader_id >= 0 else None
    return [] if found is None else [make(node_id=reply.leader_id, host=found.host, port=found.port)]


def write_vote_reply(reply: VoteReply, listener: str, version: int) -> vote.VoteResponse:
    """A vote, or none."""
    partition = vote.ResponsePartitionData(
        partition_index=0,
        error_code=reply.error,
        leader_id=reply.leader_id,
        leader_epoch=reply.epoch,
        vote_granted=reply.granted,
    )
    return vote.VoteResponse(
        error_code=0,
        topics=[vote.ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])],
        node_endpoints=_nodes(reply, listener, vote.NodeEndpoint) if version >= 1 else [],
    )


def write_begin_reply(reply: BeginEpochReply, listener: str, version: int) -> begin.BeginQuorumEpochResponse:
    """What a voter says to a leader's announcement."""
    partition = begin.ResponsePartitionData(
        partition_index=0, error_code=reply.error, leader_id=reply.leader_id, leader_epoch=reply.epoch
    )
    return begin.BeginQuorumEpochResponse(
        error_code=0,
        topics=[begin.ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])],
        node_endpoints=_nodes(reply, listener, begin.NodeEndpoint) if version >= 1 else [],
    )


def write_end_reply(reply: EndEpochReply, listener: str, version: int) -> end.EndQuorumEpochResponse:
    """What a voter answers to EndQuorumEpoch."""
    partition = end.ResponsePartitionData(
        partition_index=0, error_code=reply.error, leader_id=reply.leader_id, leader_epoch=reply.epoch
    )
    return end.EndQuorumEpochResponse(
        error_code=0,
        topics=[end.ResponseTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])],
        node_endpoints=_nodes(reply, listener, end.NodeEndpoint) if version >= 1 else [],
    )


def write_fetch_reply(reply: FetchReply, listener: str, version: int) -> fetch.FetchResponse:
    """What a leader gives a replica."""
    diverging, snapshot = reply.diverging, reply.snapshot
    more: dict[str, Any] = {}
    if version >= 12:
        more["current_leader"] = fetch.LeaderIdAndEpoch(leader_id=reply.leader_id, leader_epoch=reply.epoch)
        if diverging is not None:
            more["diverging_epoch"] = fetch.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.offset)
        if snapshot is not None:
            more["snapshot_id"] = fetch.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch)
    partition = fetch.PartitionData(
        partition_index=0,
        error_code=reply.error,
        high_watermark=reply.high_watermark,
        log_start_offset=reply.log_start_offset,
        aborted_transactions=None,
        records=_NO_RECORDS if reply.records is None else reply.records,
        **more,
    )
    topic = fetch.FetchableTopicResponse(topic=CLUSTER_METADATA, topic_id=Uuid.METADATA_TOPIC, partitions=[partition])
    nodes = _nodes(reply, listener, fetch.NodeEndpoint) if version >= 16 else []
    return fetch.FetchResponse(responses=[topic], node_endpoints=nodes)


class SnapshotWindow(NamedTuple):
    """A piece of a snapshot, or why there is none."""

    head: SnapshotReply
    id: SnapshotId = BOOTSTRAP_ID
    size: int = 0
    position: int = 0
    data: FileSlice | None = None


def write_snapshot_window(window: SnapshotWindow, listener: str, version: int) -> fetch_snapshot.FetchSnapshotResponse:
    """A piece of a snapshot."""
    head = window.head
    partition = fetch_snapshot.ResponsePartitionSnapshot(
        index=0,
        error_code=head.error,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=window.id.offset, epoch=window.id.epoch),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=head.leader_id, leader_epoch=head.epoch),
        size=window.size,
        position=window.position,
        unaligned_records=_NO_RECORDS if window.data is None else window.data,
    )
    return fetch_snapshot.FetchSnapshotResponse(
        error_code=0,
        topics=[fetch_snapshot.ResponseTopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])],
        node_endpoints=_nodes(head, listener, fetch_snapshot.NodeEndpoint) if version >= 1 else [],
    )


def write_update_reply(reply: VoterChangeReply, listener: str) -> update.UpdateRaftVoterResponse:
    """What became of a voter's news of itself."""
    found = endpoint_of(reply.leader_endpoints, listener) if reply.leader_id >= 0 else None
    leader = update.CurrentLeader(
        leader_id=reply.leader_id,
        leader_epoch=reply.epoch,
        host="" if found is None else found.host,
        port=0 if found is None else found.port,
    )
    return update.UpdateRaftVoterResponse(error_code=reply.error, current_leader=leader)
