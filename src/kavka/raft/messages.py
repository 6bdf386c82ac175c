"""What replicas of the metadata log say to each other, free of wire formats.

Named tuples, because a simulation makes millions of them. Error codes are Kafka's numbers; 0 is success. A field that
names a leader is -1 where the sender knows none. The driver translates to and from the wire requests; what is only of
the wire (cluster id, topic, listener names, sizes) is checked and filled in by the driver.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from kavka.model.errors import (
    BrokerNotAvailable,
    DuplicateVoter,
    FencedLeaderEpoch,
    InvalidRequest,
    InvalidVoterKey,
    NotLeaderOrFollower,
    RequestTimedOut,
    SnapshotNotFound,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnsupportedVersion,
    VoterNotFound,
)
from kavka.model.types import Endpoint
from kavka.raft.voters import NOBODY, ReplicaKey, Voter

OK: Final = 0
NOT_LEADER_OR_FOLLOWER: Final = NotLeaderOrFollower.code
REQUEST_TIMED_OUT: Final = RequestTimedOut.code
BROKER_NOT_AVAILABLE: Final = BrokerNotAvailable.code
UNSUPPORTED_VERSION: Final = UnsupportedVersion.code
INVALID_REQUEST: Final = InvalidRequest.code
FENCED_LEADER_EPOCH: Final = FencedLeaderEpoch.code
UNKNOWN_LEADER_EPOCH: Final = UnknownLeaderEpoch.code
SNAPSHOT_NOT_FOUND: Final = SnapshotNotFound.code
INVALID_VOTER_KEY: Final = InvalidVoterKey.code
DUPLICATE_VOTER: Final = DuplicateVoter.code
VOTER_NOT_FOUND: Final = VoterNotFound.code
UNKNOWN_SERVER_ERROR: Final = UnknownServerError.code


class OffsetAndEpoch(NamedTuple):
    """An end offset and the epoch of the record before it: a point of the log, or a snapshot's id."""

    offset: int
    epoch: int


# -- requests ------------------------------------------------------------------------------------------------------


class Vote(NamedTuple):
    """Vote: may this candidate lead `epoch`? A pre-vote (KIP-996) asks whether it would, in the present epoch."""

    epoch: int
    candidate: ReplicaKey
    last_epoch: int
    last_offset: int
    """The end of the candidate's log."""
    pre_vote: bool = False
    voter: ReplicaKey | None = None
    """Whom the request is for; None from a sender that cannot say."""


class BeginEpoch(NamedTuple):
    """BeginQuorumEpoch: the sender leads `epoch`; fetch from it."""

    epoch: int
    leader_id: int
    leader_endpoints: tuple[Endpoint, ...] = ()
    voter: ReplicaKey | None = None


class EndEpoch(NamedTuple):
    """EndQuorumEpoch: the sender no longer leads `epoch`; elect another, the first of `preferred` first."""

    epoch: int
    leader_id: int
    preferred: tuple[ReplicaKey, ...] = ()
    leader_endpoints: tuple[Endpoint, ...] = ()


class Fetch(NamedTuple):
    """Fetch: give me what follows `offset`; what is before it is on my disk, and its last record is of `last_epoch`."""

    epoch: int
    replica: ReplicaKey
    """Its id is negative for a reader that is no replica."""
    offset: int
    last_epoch: int
    high_watermark: int = -1
    """The sender's high watermark; the answer comes at once when the leader's is higher."""
    max_wait_ms: int = 0


class AddVoter(NamedTuple):
    """AddRaftVoter: make an observer a voter. `voter`'s versions do not count: the leader asks the voter itself."""

    voter: Voter
    ack_when_committed: bool = True


class RemoveVoter(NamedTuple):
    """RemoveRaftVoter: remove a voter."""

    key: ReplicaKey


class UpdateVoter(NamedTuple):
    """UpdateRaftVoter: a voter has other endpoints, or supports other versions."""

    epoch: int
    voter: Voter


class AskVersions(NamedTuple):
    """ApiVersions, sent to a voter to be: which kraft.versions does it know?"""


# -- replies --------------------------------------------------------------------------------------------------------


class VoteReply(NamedTuple):
    """Whether the vote is granted, and what the voter knows of epoch and leader."""

    error: int
    epoch: int
    leader_id: int = NOBODY
    granted: bool = False
    leader_endpoints: tuple[Endpoint, ...] = ()


class BeginEpochReply(NamedTuple):
    """The voter's epoch and leader after the request."""

    error: int
    epoch: int
    leader_id: int = NOBODY
    leader_endpoints: tuple[Endpoint, ...] = ()


class EndEpochReply(NamedTuple):
    """The voter's epoch and leader after the request."""

    error: int
    epoch: int
    leader_id: int = NOBODY
    leader_endpoints: tuple[Endpoint, ...] = ()


class FetchReply(NamedTuple):
    """What to do next: append the records, truncate (`diverging`), or fetch a snapshot.

    The leader's core leaves `records` None: the driver puts those from the fetch's offset on there if `read` is True
    (as many as it likes, uncommitted ones too). The follower's core passes `records` on in an `Append`, unless they
    are None or empty (whatever is false).
    """

    error: int
    epoch: int
    leader_id: int = NOBODY
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    """The leader's log has this end for the epoch that the follower's log ends in, or for the one before."""
    snapshot: OffsetAndEpoch | None = None
    leader_endpoints: tuple[Endpoint, ...] = ()
    read: bool = False
    records: Any = None


class SnapshotReply(NamedTuple):
    """The head of a FetchSnapshot response: the driver moves the bytes, the core minds epochs and time."""

    error: int
    epoch: int
    leader_id: int = NOBODY
    leader_endpoints: tuple[Endpoint, ...] = ()


class VoterChangeReply(NamedTuple):
    """The outcome of AddVoter, RemoveVoter or UpdateVoter."""

    error: int
    message: str = ""
    epoch: int = -1
    leader_id: int = NOBODY
    leader_endpoints: tuple[Endpoint, ...] = ()


class VersionsReply(NamedTuple):
    """The kraft.versions that a node knows; (0, 0) if its ApiVersions tells none."""

    error: int
    min_version: int = 0
    max_version: int = 0


Request: TypeAlias = Vote | BeginEpoch | EndEpoch | Fetch | AddVoter | RemoveVoter | UpdateVoter | AskVersions
ReplyMessage: TypeAlias = VoteReply | BeginEpochReply | EndEpochReply | FetchReply | VoterChangeReply | VersionsReply
