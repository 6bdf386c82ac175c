"""The requests that a replica of the metadata log sends, and what their responses say."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from kavka.metadata.features import KRAFT_VERSION
from kavka.metadata.names import CLUSTER_METADATA
from kavka.model.errors import InvalidRequest, UnsupportedVersion
from kavka.model.types import Endpoint, Uuid
from kavka.protocol.schemas import add_raft_voter as add
from kavka.protocol.schemas import begin_quorum_epoch as begin
from kavka.protocol.schemas import end_quorum_epoch as end
from kavka.protocol.schemas import fetch, vote
from kavka.protocol.schemas import fetch_snapshot as snapshots
from kavka.protocol.schemas import remove_raft_voter as remove
from kavka.protocol.schemas import update_raft_voter as update
from kavka.protocol.schemas.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kavka.quorum.snapshots import SnapshotId
from kavka.quorum.wire import only_fetched, only_partition
from kavka.raft.messages import (
    AddVoter,
    AskVersions,
    BeginEpoch,
    BeginEpochReply,
    EndEpoch,
    EndEpochReply,
    Fetch,
    FetchReply,
    OffsetAndEpoch,
    RemoveVoter,
    ReplyMessage,
    Request,
    SnapshotReply,
    UpdateVoter,
    VersionsReply,
    Vote,
    VoterChangeReply,
    VoteReply,
)
from kavka.raft.voters import NOBODY, ReplicaKey

T = TypeVar("T")


class QuorumRequests(NamedTuple):
    """Writes the quorum's requests and reads their responses: what each has beside the core's message."""

    cluster_id: str
    listener: str
    """The controller listener: what endpoints are given for."""
    fetch_max_bytes: int
    timeout_ms: int

    def write(self, to: int, message: Request) -> tuple[Any, type[Any]]:
        """The request for a message, and the class of its response."""
        match message:
            case Vote():
                return self._vote(message), vote.VoteResponse
            case BeginEpoch():
                return self._begin(message), begin.BeginQuorumEpochResponse
            case EndEpoch():
                return self._end(message), end.EndQuorumEpochResponse
            case Fetch():
                return self._fetch(message), fetch.FetchResponse
            case AddVoter() | RemoveVoter() | UpdateVoter():
                return self._voter_change(message)
            case AskVersions():
                named = ApiVersionsRequest(client_software_name="kavka", client_software_version="quorum")
                return named, ApiVersionsResponse
        raise TypeError(f"{message} is not sent to {to}")

    def _vote(self, message: Vote) -> vote.VoteRequest:
        voter = message.voter or ReplicaKey(NOBODY)
        partition = vote.RequestPartitionData(
            partition_index=0,
            replica_epoch=message.epoch,
            replica_id=message.candidate.id,
            replica_directory_id=message.candidate.directory_id,
            voter_directory_id=voter.directory_id,
            last_offset_epoch=message.last_epoch,
            last_offset=message.last_offset,
            pre_vote=message.pre_vote,
        )
        topic = vote.RequestTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])
        return vote.VoteRequest(cluster_id=self.cluster_id, voter_id=voter.id, topics=[topic])

    def _begin(self, message: BeginEpoch) -> begin.BeginQuorumEpochRequest:
        voter = message.voter or ReplicaKey(NOBODY)
        partition = begin.RequestPartitionData(
            partition_index=0,
            voter_directory_id=voter.directory_id,
            leader_id=message.leader_id,
            leader_epoch=message.epoch,
        )
        return begin.BeginQuorumEpochRequest(
            cluster_id=self.cluster_id,
            voter_id=voter.id,
            topics=[begin.RequestTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])],
            leader_endpoints=_listeners(message.leader_endpoints, begin.LeaderEndpoint),
        )

    def _end(self, message: EndEpoch) -> end.EndQuorumEpochRequest:
        preferred = [
            end.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id) for key in message.preferred
        ]
        partition = end.RequestPartitionData(
            partition_index=0,
            leader_id=message.leader_id,
            leader_epoch=message.epoch,
            preferred_successors=[key.id for key in message.preferred],
            preferred_candidates=preferred,
        )
        return end.EndQuorumEpochRequest(
            cluster_id=self.cluster_id,
            topics=[end.RequestTopicData(topic_name=CLUSTER_METADATA, partitions=[partition])],
            leader_endpoints=_listeners(message.leader_endpoints, end.LeaderEndpoint),
        )

    def _fetch(self, message: Fetch) -> fetch.FetchRequest:
        partition = fetch.FetchPartition(
            partition=0,
            current_leader_epoch=message.epoch,
            fetch_offset=message.offset,
            last_fetched_epoch=message.last_epoch,
            partition_max_bytes=self.fetch_max_bytes,
            replica_directory_id=message.replica.directory_id,
            high_watermark=message.high_watermark,
        )
        topic = fetch.FetchTopic(topic=CLUSTER_METADATA, topic_id=Uuid.METADATA_TOPIC, partitions=[partition])
        return fetch.FetchRequest(
            cluster_id=self.cluster_id,
            replica_state=fetch.ReplicaState(replica_id=message.replica.id),
            max_wait_ms=message.max_wait_ms,
            min_bytes=0,
            max_bytes=self.fetch_max_bytes,
            topics=[topic],
        )

    def _voter_change(self, message: AddVoter | RemoveVoter | UpdateVoter) -> tuple[Any, type[Any]]:
        if isinstance(message, RemoveVoter):
            removal = remove.RemoveRaftVoterRequest(
                cluster_id=self.cluster_id, voter_id=message.key.id, voter_directory_id=message.key.directory_id
            )
            return removal, remove.RemoveRaftVoterResponse
        key, endpoints = message.voter.key, message.voter.endpoints
        if isinstance(message, AddVoter):
            addition = add.AddRaftVoterRequest(
                cluster_id=self.cluster_id,
                timeout_ms=self.timeout_ms,
                voter_id=key.id,
                voter_directory_id=key.directory_id,
                listeners=_listeners(endpoints, add.Listener),
                ack_when_committed=message.ack_when_committed,
            )
            return addition, add.AddRaftVoterResponse
        versions = update.KRaftVersionFeature(
            min_supported_version=message.voter.min_version, max_supported_version=message.voter.max_version
        )
        news = update.UpdateRaftVoterRequest(
            cluster_id=self.cluster_id,
            current_leader_epoch=message.epoch,
            voter_id=key.id,
            voter_directory_id=key.directory_id,
            listeners=_listeners(endpoints, update.Listener),
            kraft_version_feature=versions,
        )
        return news, update.UpdateRaftVoterResponse

    def fetch_snapshot(self, me: ReplicaKey, epoch: int, id_: SnapshotId, position: int, max_bytes: int) -> Any:
        """The request for a window of a snapshot."""
        partition = snapshots.RequestPartitionSnapshot(
            partition=0,
            current_leader_epoch=epoch,
            snapshot_id=snapshots.SnapshotId(end_offset=id_.offset, epoch=id_.epoch),
            position=position,
            replica_directory_id=me.directory_id,
        )
        return snapshots.FetchSnapshotRequest(
            cluster_id=self.cluster_id,
            replica_id=me.id,
            max_bytes=max_bytes,
            topics=[snapshots.RequestTopicSnapshot(name=CLUSTER_METADATA, partitions=[partition])],
        )

    def read(self, response: Any, version: int) -> ReplyMessage | None:
        """The answer in a response; None if it is an error for the whole, or about something else."""
        try:
            return self._read(response, version)
        except InvalidRequest:
            return None

    def _read(self, response: Any, version: int) -> ReplyMessage | None:
        match response:
            case ApiVersionsResponse():
                return _read_versions(response)
            case add.AddRaftVoterResponse() | remove.RemoveRaftVoterResponse():
                return VoterChangeReply(response.error_code, response.error_message or "")
            case update.UpdateRaftVoterResponse():
                leader = response.current_leader
                where = self._leader([leader], leader.leader_id) if leader.host else ()
                return VoterChangeReply(response.error_code, "", leader.leader_epoch, leader.leader_id, where)
        if response.error_code:
            return None
        if isinstance(response, fetch.FetchResponse):
            return self._read_fetch(response, version)
        said = only_partition(response.topics, "topic_name")
        where = self._leader(response.node_endpoints, said.leader_id)
        match response:
            case vote.VoteResponse():
                return VoteReply(said.error_code, said.leader_epoch, said.leader_id, said.vote_granted, where)
            case begin.BeginQuorumEpochResponse():
                return BeginEpochReply(said.error_code, said.leader_epoch, said.leader_id, where)
            case end.EndQuorumEpochResponse():
                return EndEpochReply(said.error_code, said.leader_epoch, said.leader_id, where)
        return None

    def _read_fetch(self, response: fetch.FetchResponse, version: int) -> FetchReply:
        said: fetch.PartitionData = only_fetched(response.responses, version, "partition_index")
        leader, diverging, snapshot = said.current_leader, said.diverging_epoch, said.snapshot_id
        return FetchReply(
            error=said.error_code,
            epoch=leader.leader_epoch,
            leader_id=leader.leader_id,
            high_watermark=said.high_watermark,
            log_start_offset=said.log_start_offset,
            diverging=OffsetAndEpoch(diverging.end_offset, diverging.epoch) if diverging.epoch >= 0 else None,
            snapshot=OffsetAndEpoch(snapshot.end_offset, snapshot.epoch)
            if snapshot.epoch >= 0 and snapshot.end_offset >= 0
            else None,
            leader_endpoints=self._leader(response.node_endpoints, leader.leader_id),
            records=said.records,
        )

    def read_snapshot(
        self, response: snapshots.FetchSnapshotResponse
    ) -> tuple[SnapshotReply, snapshots.ResponsePartitionSnapshot]:
        """The head of a window of a snapshot, and the window; raises InvalidRequest."""
        said = only_partition(response.topics, "name", "index")
        leader = said.current_leader
        where = self._leader(response.node_endpoints, leader.leader_id)
        return SnapshotReply(said.error_code, leader.leader_epoch, leader.leader_id, where), said

    def _leader(self, nodes: Iterable[Any], leader_id: int) -> tuple[Endpoint, ...]:
        """The leader's endpoints in a response."""
        found = (node for node in nodes if getattr(node, "node_id", leader_id) == leader_id)
        return tuple(Endpoint(self.listener, node.host, node.port, "") for node in found)


def _listeners(endpoints: Iterable[Endpoint], make: Callable[..., T]) -> list[T]:
    return [make(name=endpoint.listener, host=endpoint.host, port=endpoint.port) for endpoint in endpoints]


def _read_versions(response: ApiVersionsResponse) -> VersionsReply:
    for feature in response.supported_features:
        if feature.name == KRAFT_VERSION:
            return VersionsReply(response.error_code, feature.min_version, feature.max_version)
    return VersionsReply(response.error_code)


def refused_pre_vote() -> VoteReply:
    """The answer of a voter that knows no pre-votes."""
    return VoteReply(UnsupportedVersion.code, -1)
