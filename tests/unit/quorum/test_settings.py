"""What a node's configuration says of its part in the quorum."""

from __future__ import annotations

from kavka.model.settings import broker_values
from kavka.model.types import Endpoint, Uuid
from kavka.quorum.settings import MetadataReplica, quorum_settings, snapshot_rules
from kavka.quorum.voters import ReplicaKey, Voter


def test_a_node_without_settings_has_kafkas_defaults():
    settings = quorum_settings(broker_values({}))
    raft = settings.raft
    assert (raft.election_timeout_ms, raft.fetch_timeout_ms, raft.request_timeout_ms) == (1000, 2000, 2000)
    assert (raft.election_backoff_max_ms, raft.retry_backoff_ms, raft.auto_join) == (1000, 20, False)
    assert (settings.fetch_max_bytes, settings.fetch_snapshot_max_bytes) == (1 << 20, 1 << 20)
    assert len(settings.voters) == 0
    assert settings.bootstrap == ()
    assert settings.log.max_message_bytes == 8 << 20
    assert not settings.log.delete


def test_static_voters_are_whom_to_ask_and_who_votes():
    settings = quorum_settings(broker_values({"controller.quorum.voters": "1@one:9093,2@[::1]:9094"}), "CTRL")
    assert list(settings.voters) == [
        Voter(ReplicaKey(1), (Endpoint("CTRL", "one", 9093, ""),)),
        Voter(ReplicaKey(2), (Endpoint("CTRL", "::1", 9094, ""),)),
    ]
    assert [peer.id for peer in settings.bootstrap] == [1, 2]


def test_bootstrap_servers_have_no_ids_yet():
    settings = quorum_settings(broker_values({"controller.quorum.bootstrap.servers": "one:9093,two:9093"}))
    assert [peer.id for peer in settings.bootstrap] == [-2, -3]
    assert settings.bootstrap[1].endpoints == (Endpoint("CONTROLLER", "two", 9093, ""),)
    assert len(settings.voters) == 0


def test_snapshots_are_ruled_by_the_configuration():
    keys = {
        "metadata.log.max.record.bytes.between.snapshots": "1000",
        "metadata.log.max.snapshot.interval.ms": "0",
        "metadata.max.retention.bytes": "5000",
        "metadata.max.retention.ms": "60000",
    }
    rules = snapshot_rules(broker_values(keys))
    assert (rules.max_bytes, rules.interval_ms, rules.retention_bytes, rules.retention_ms) == (1000, 0, 5000, 60000)


def test_a_member_is_known_to_the_voters_without_its_security_protocol():
    endpoint = Endpoint("CONTROLLER", "here", 9093, "PLAINTEXT")
    replica = MetadataReplica(4, Uuid(b"d" * 16), "cluster", (endpoint,))
    assert replica.voter == Voter(ReplicaKey(4, Uuid(b"d" * 16)), (Endpoint("CONTROLLER", "here", 9093, ""),), 0, 1)
