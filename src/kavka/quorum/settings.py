"""How a node takes part in the quorum: what its configuration says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kavka.model.settings import (
    CONTROLLER_QUORUM_AUTO_JOIN_ENABLE,
    CONTROLLER_QUORUM_BOOTSTRAP_SERVERS,
    CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS,
    CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS,
    CONTROLLER_QUORUM_FETCH_MAX_BYTES,
    CONTROLLER_QUORUM_FETCH_SNAPSHOT_MAX_BYTES,
    CONTROLLER_QUORUM_FETCH_TIMEOUT_MS,
    CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS,
    CONTROLLER_QUORUM_RETRY_BACKOFF_MS,
    CONTROLLER_QUORUM_VOTERS,
    METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS,
    METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS,
    METADATA_LOG_SEGMENT_BYTES,
    METADATA_LOG_SEGMENT_MS,
    METADATA_MAX_RETENTION_BYTES,
    METADATA_MAX_RETENTION_MS,
    Values,
)
from kavka.model.types import Endpoint, Uuid
from kavka.quorum.snapshots import MAX_BATCH_BYTES
from kavka.raft.core import Peer, RaftConfig
from kavka.raft.voters import ReplicaKey, Voter, VoterSet
from kavka.storage.config import LogConfig

LOST_LEADER_MS: Final = 200
"""How long a voter that cannot reach its leader at all, as after a crash of its process, waits before it stands."""
FIRST_BOOTSTRAP_ID: Final = -2
"""The ids of bootstrap servers go down from here, as in Kafka: who they are is not known."""


@dataclass(frozen=True, slots=True)
class MetadataReplica:
    """A node as a replica of the metadata log."""

    node_id: int
    directory_id: Uuid
    cluster_id: str
    endpoints: tuple[Endpoint, ...] = ()
    """Where its controller listeners can be reached, with the ports that are really bound; none without the role."""
    controller: bool = True
    """Whether it has the controller role: it votes, or may some day."""

    @property
    def voter(self) -> Voter:
        """The node as a voter; its endpoints go without a security protocol, as in the voters' records."""
        endpoints = tuple(endpoint._replace(security_protocol="") for endpoint in self.endpoints)
        return Voter(ReplicaKey(self.node_id, self.directory_id), endpoints)


@dataclass(frozen=True, slots=True)
class SnapshotRules:
    """When a snapshot of the metadata is due, and how long old ones stay."""

    max_bytes: int = 20 << 20
    """The most that is written to the log between two."""
    interval_ms: int = 3_600_000
    small_bytes: int = 1 << 20
    """Above this a snapshot is due as soon as the log after the last is twice its size, so that starts stay fast."""
    retention_bytes: int = 100 << 20
    retention_ms: int = 7 * 86_400_000


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """The settings of the quorum's driver, with Kafka's defaults."""

    listener: str = "CONTROLLER"
    """The controller listener that the nodes talk to each other on."""
    voters: VoterSet = field(default_factory=VoterSet)
    """Those that the configuration names; what the log says wins."""
    bootstrap: Sequence[Peer] = ()
    raft: RaftConfig = field(default_factory=RaftConfig)
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    log: LogConfig = field(default_factory=lambda: LogConfig(delete=False, max_message_bytes=MAX_BATCH_BYTES))


def quorum_settings(values: Values, listener: str = "CONTROLLER") -> QuorumSettings:
    """The settings in a node's configuration; `listener` is the first of controller.listener.names."""
    voters = [_voter(text, listener) for text in values[CONTROLLER_QUORUM_VOTERS]]
    peers = [Peer(voter.key.id, voter.endpoints) for voter in voters] or [
        Peer(FIRST_BOOTSTRAP_ID - number, (_endpoint(text, listener),))
        for number, text in enumerate(values[CONTROLLER_QUORUM_BOOTSTRAP_SERVERS])
    ]
    return QuorumSettings(
        listener=listener,
        voters=VoterSet(voters),
        bootstrap=tuple(peers),
        raft=RaftConfig(
            election_timeout_ms=values[CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS],
            fetch_timeout_ms=values[CONTROLLER_QUORUM_FETCH_TIMEOUT_MS],
            election_backoff_max_ms=values[CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS],
            request_timeout_ms=values[CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS],
            retry_backoff_ms=values[CONTROLLER_QUORUM_RETRY_BACKOFF_MS],
            auto_join=values[CONTROLLER_QUORUM_AUTO_JOIN_ENABLE],
            lost_leader_ms=min(LOST_LEADER_MS, values[CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS]),
        ),
        fetch_max_bytes=values[CONTROLLER_QUORUM_FETCH_MAX_BYTES],
        fetch_snapshot_max_bytes=values[CONTROLLER_QUORUM_FETCH_SNAPSHOT_MAX_BYTES],
        log=LogConfig(
            delete=False,
            max_message_bytes=MAX_BATCH_BYTES,
            segment_bytes=values[METADATA_LOG_SEGMENT_BYTES],
            segment_ms=values[METADATA_LOG_SEGMENT_MS],
        ),
    )


def snapshot_rules(values: Values) -> SnapshotRules:
    """The rules for snapshots in a node's configuration."""
    return SnapshotRules(
        max_bytes=values[METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS],
        interval_ms=values[METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS],
        retention_bytes=values[METADATA_MAX_RETENTION_BYTES],
        retention_ms=values[METADATA_MAX_RETENTION_MS],
    )


def _voter(text: str, listener: str) -> Voter:
    id_, _, address = text.partition("@")
    return Voter(ReplicaKey(int(id_)), (_endpoint(address, listener),))


def _endpoint(address: str, listener: str) -> Endpoint:
    host, _, port = address.rpartition(":")
    return Endpoint(listener, host.removeprefix("[").removesuffix("]"), int(port), "")
