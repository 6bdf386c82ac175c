"""What the raft core says, through Kafka's requests and responses and back."""

from __future__ import annotations

import pytest

from kavka.model.errors import InconsistentClusterId, InvalidRequest
from kavka.model.types import Endpoint, Uuid
from kavka.protocol.compiler import decode, encode
from kavka.protocol.registry import API
from kavka.protocol.schema import declared, replace
from kavka.protocol.schemas.api_versions import ApiVersionsResponse, SupportedFeatureKey
from kavka.quorum import wire
from kavka.quorum.sending import QuorumRequests, refused_pre_vote
from kavka.quorum.snapshots import SnapshotId
from kavka.quorum.voters import ReplicaKey, Voter
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
    SnapshotReply,
    UpdateVoter,
    VersionsReply,
    Vote,
    VoterChangeReply,
    VoteReply,
)

ME = ReplicaKey(1, Uuid(b"a" * 16))
OTHER = ReplicaKey(2, Uuid(b"b" * 16))
WHERE = (Endpoint("CONTROLLER", "two.example", 9093, ""),)
VOTER = Voter(OTHER, WHERE, 0, 1)
SENDER = QuorumRequests("cluster", "CONTROLLER", 1 << 20, 2000)

REQUESTS = [
    (Vote(5, ME, 4, 17, False, OTHER), wire.read_vote),
    (Vote(5, ME, 4, 17, True, OTHER), wire.read_vote),
    (Vote(5, ME, 4, 17), wire.read_vote),
    (BeginEpoch(5, 1, WHERE, OTHER), wire.read_begin),
    (EndEpoch(5, 1, (OTHER, ME), WHERE), wire.read_end),
    (AddVoter(VOTER, False), wire.read_add),
    (RemoveVoter(OTHER), wire.read_remove),
    (UpdateVoter(5, VOTER), wire.read_update),
]


def through(message, version=None):
    """A message's bytes, read again."""
    kind = type(message)
    chosen = API[declared(kind).key].latest_stable_version if version is None else version
    return decode(kind, encode(message, chosen), chosen)


@pytest.mark.parametrize(("message", "read"), REQUESTS)
def test_a_request_says_on_the_wire_what_the_core_said(message, read):
    request, _ = SENDER.write(2, message)
    assert read(through(request)) == message
    assert through(request).cluster_id == "cluster"


@pytest.mark.parametrize("version", [17, 18])
def test_a_fetch_names_replica_and_directory(version):
    message = Fetch(5, ME, 17, 4, 12, 500)
    request, _ = SENDER.write(2, message)
    read = wire.read_fetch(through(request, version), version)
    assert read == message if version == 18 else read._replace(high_watermark=12) == message


def test_old_requests_without_directories_are_understood():
    vote, _ = SENDER.write(2, Vote(5, ReplicaKey(1), 4, 17))
    assert wire.read_vote(through(vote, 0)).candidate == ReplicaKey(1)
    end, _ = SENDER.write(2, EndEpoch(5, 1, (OTHER,)))
    assert wire.read_end(through(end, 0)).preferred == (ReplicaKey(2),)


REPLIES = [
    (VoteReply(0, 5, 2, True, WHERE), wire.write_vote_reply),
    (VoteReply(74, 6, -1, False), wire.write_vote_reply),
    (BeginEpochReply(0, 5, 2, WHERE), wire.write_begin_reply),
    (EndEpochReply(0, 5, 2, WHERE), wire.write_end_reply),
    (FetchReply(0, 5, 2, 10, 3, None, None, WHERE, False, b""), wire.write_fetch_reply),
    (FetchReply(0, 5, 2, 10, 3, OffsetAndEpoch(7, 4), None, WHERE, False, b""), wire.write_fetch_reply),
    (FetchReply(0, 5, 2, 10, 3, None, OffsetAndEpoch(7, 4), WHERE, False, b""), wire.write_fetch_reply),
    (FetchReply(6, 5, -1, -1, 3, None, None, (), False, b""), wire.write_fetch_reply),
]


@pytest.mark.parametrize(("reply", "write"), REPLIES)
def test_a_reply_says_on_the_wire_what_the_core_said(reply, write):
    kind = type(write(reply, "CONTROLLER", 0))
    version = API[declared(kind).key].latest_stable_version
    response = write(reply, "CONTROLLER", version)
    assert SENDER.read(through(response), version) == reply


def test_voter_changes_are_answered_with_the_leader():
    reply = VoterChangeReply(6, "", 5, 2, WHERE)
    assert SENDER.read(through(wire.write_update_reply(reply, "CONTROLLER")), 0) == reply
    nobody = VoterChangeReply(6, "", 5, -1, ())
    assert SENDER.read(through(wire.write_update_reply(nobody, "CONTROLLER")), 0) == nobody


def test_a_window_of_a_snapshot_has_its_head():
    head = SnapshotReply(0, 5, 2, WHERE)
    window = wire.SnapshotWindow(head, SnapshotId(7, 4), 1000, 100)
    read, said = SENDER.read_snapshot(through(wire.write_snapshot_window(window, "CONTROLLER", 1)))
    assert read == head
    assert (said.size, said.position, said.snapshot_id.end_offset, said.snapshot_id.epoch) == (1000, 100, 7, 4)
    request = through(SENDER.fetch_snapshot(ME, 5, SnapshotId(7, 4), 100, 300))
    asked = wire.only_partition(request.topics, "name", "partition")
    assert (request.replica_id, asked.replica_directory_id, asked.position) == (1, ME.directory_id, 100)


def test_a_refusal_as_a_whole_is_no_answer():
    for message, _ in REQUESTS[:5]:
        _, kind = SENDER.write(2, message)
        refused = {"error_code": InconsistentClusterId.code, "topics": []}
        assert SENDER.read(kind(**refused), 0) is None
    _, kind = SENDER.write(2, Fetch(5, ME, 17, 4))
    assert SENDER.read(kind(error_code=104, responses=[]), 17) is None
    assert SENDER.read(kind(error_code=0, responses=[]), 17) is None


@pytest.mark.parametrize(("message", "read"), REQUESTS[:5])
def test_a_request_about_another_partition_is_refused(message, read):
    request, _ = SENDER.write(2, message)
    topic = request.topics[0]
    partition = topic.partitions[0]
    for topics in (
        [],
        [replace(topic, topic_name="orders")],
        [replace(topic, partitions=[])],
        [replace(topic, partitions=[partition, partition])],
        [replace(topic, partitions=[replace(partition, partition_index=1)])],
    ):
        with pytest.raises(InvalidRequest):
            read(replace(request, topics=topics))


def test_a_fetch_of_another_topic_is_refused():
    request, _ = SENDER.write(2, Fetch(5, ME, 17, 4))
    topic = request.topics[0]
    for topics in ([], [replace(topic, topic_id=Uuid(b"t" * 16))], [replace(topic, partitions=[])]):
        with pytest.raises(InvalidRequest):
            wire.read_fetch(replace(request, topics=topics), 17)
    assert wire.read_fetch(request, 12).offset == 17


def test_the_versions_that_a_node_knows_are_found_among_its_features():
    request, kind = SENDER.write(2, AskVersions())
    assert kind is ApiVersionsResponse
    assert request.client_software_name == "kavka"
    feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
    told = ApiVersionsResponse(error_code=0, api_keys=[], supported_features=[feature])
    assert SENDER.read(told, 4) == VersionsReply(0, 0, 1)
    assert SENDER.read(ApiVersionsResponse(error_code=0, api_keys=[]), 4) == VersionsReply(0, 0, 0)


def test_who_knows_no_pre_votes_is_told_from_who_is_silent():
    assert refused_pre_vote() == VoteReply(35, -1)
