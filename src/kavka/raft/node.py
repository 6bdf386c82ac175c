"""A replica's state: its role, its epoch, its leader and its vote, and every transition of these.

The modules of the roles (`electing`, `leading`, `following`, `membership`) decide by it; `core` is the face of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

from kavka.model.types import Endpoint
from kavka.raft.connections import Connections
from kavka.raft.effects import (
    BecomeLeader,
    Effect,
    ElectionState,
    HighWatermark,
    LeaderChanged,
    LostLeadership,
    Persist,
    Reply,
    Send,
    StopSnapshot,
)
from kavka.raft.majority import Tally
from kavka.raft.messages import (
    BROKER_NOT_AVAILABLE,
    FENCED_LEADER_EPOCH,
    NOT_LEADER_OR_FOLLOWER,
    OK,
    UNKNOWN_LEADER_EPOCH,
    Fetch,
    FetchReply,
    OffsetAndEpoch,
    ReplyMessage,
    Request,
    VoterChangeReply,
)
from kavka.raft.progress import NEVER, Followers
from kavka.raft.voters import NOBODY, ReplicaKey, Voter, VoterHistory, VoterSet


class Role(Enum):
    """What a replica is to its quorum."""

    UNATTACHED = "unattached"
    VOTED = "voted"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"
    OBSERVER = "observer"


class LogView(Protocol):
    """What the core sees of this replica's log. What is written, durable or not, is there."""

    @property
    def start_offset(self) -> int:
        """The first offset that the log still has."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; of the snapshot that the log begins at if it is empty, else 0."""

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot; None if there is none but the formatted one, 0-0."""

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None:
        """The oldest snapshot, the one at the start offset if the log was cut; None as above."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch at or below this one, and where it ends: the start of the next, or the log's end.

        Above all epochs: the last epoch and the log's end. Below all: this epoch and the start of the first.
        """


class Peer(NamedTuple):
    """A node to ask for the leader; its id is negative if it is not known."""

    id: int
    endpoints: tuple[Endpoint, ...] = ()


class RaftConfig(NamedTuple):
    """The `controller.quorum.*` settings that the core lives by."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    auto_join: bool = False
    lost_leader_ms: int = 0
    """How soon a voter that cannot reach its leader at all stands for election; 0: not before the fetch timeout."""


class RaftError(Exception):
    """What raft promises does not hold, on this or another node: this node must stop, and somebody must look."""


class ParkedFetch(NamedTuple):
    """A fetch that waits for new records or a higher high watermark."""

    token: Any
    fetch: Fetch
    until_ms: int


class VoterChange:
    """A voter change under way; one at a time."""

    __slots__ = ("ack_when_committed", "answered", "deadline_ms", "offset", "token", "voter")

    def __init__(self, token: Any, voter: Voter | None, ack_when_committed: bool, deadline_ms: int) -> None:
        self.token = token
        self.answered = False
        self.voter = voter  # the one to add; None while one is removed
        self.ack_when_committed = ack_when_committed
        self.deadline_ms = deadline_ms
        self.offset: int | None = None  # of the record, once it is written


class Leading:
    """What a leader has besides."""

    __slots__ = (
        "begin_ms",
        "change",
        "described",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "parked",
        "resigning",
    )

    def __init__(self, followers: Followers, epoch_start_offset: int, now_ms: int, described: VoterSet) -> None:
        self.followers = followers
        self.epoch_start_offset = epoch_start_offset
        self.high_watermark = -1  # not known before a record of this epoch is committed
        self.begin_ms = now_ms  # when to tell silent voters next that this node leads
        self.parked: list[ParkedFetch] = []
        self.change: VoterChange | None = None
        self.resigning = False
        self.described = described  # the voters as they describe themselves, before the log can say (kraft.version 0)


class RaftNode:
    """The state of one replica of the metadata log; `effects` gathers what its changes ask of the driver."""

    __slots__ = (
        "_dirty",
        "_saved",
        "_told",
        "appended_at",
        "bootstrap",
        "can_become_voter",
        "config",
        "connections",
        "deadline_ms",
        "draw",
        "effects",
        "epoch",
        "has_fetched",
        "has_updated_leader",
        "high_watermark",
        "history",
        "key",
        "leader_endpoints",
        "leader_high_watermark",
        "leader_id",
        "leading",
        "log",
        "log_busy",
        "me",
        "role",
        "shutting_down",
        "snapshot",
        "successors",
        "synced_offset",
        "tally",
        "unacked",
        "update_voter_ms",
        "voted",
    )

    def __init__(
        self,
        me: Voter,
        log: LogView,
        history: VoterHistory,
        draw: Callable[[int, int], int],
        config: RaftConfig,
        bootstrap: Sequence[Peer],
        can_become_voter: bool,
    ) -> None:
        self.me = me
        self.key = me.key
        self.log = log
        self.history = history
        self.draw = draw
        self.config = config
        self.bootstrap = tuple(peer for peer in bootstrap if peer.id != me.key.id)
        self.can_become_voter = can_become_voter
        # A random first id: an answer to a request of this node's earlier life is not taken for one of this.
        self.connections = Connections(config.request_timeout_ms, config.retry_backoff_ms, draw(0, 1 << 30))
        self.effects: list[Effect] = []
        self._saved: ElectionState | None = None
        self._dirty = False
        self._told = (NOBODY, 0)
        self.shutting_down = False

        self.role = Role.UNATTACHED
        self.epoch = 0
        self.leader_id = NOBODY
        self.leader_endpoints: tuple[Endpoint, ...] = ()
        self.voted: ReplicaKey | None = None
        self.deadline_ms = NEVER  # the election timeout or, of a follower, the fetch timeout
        self.high_watermark = -1
        self.synced_offset = log.end_offset
        self.log_busy = False  # an Append or Truncate is not yet reported as done
        self.appended_at = -1  # where the log ended when the last Append was asked for

        self.tally: Tally | None = None  # of a prospective or candidate
        self.leading: Leading | None = None  # of a leader
        self.unacked: dict[int, ReplicaKey] = {}  # of a resigned leader: who is still to be told
        self.successors: tuple[ReplicaKey, ...] = ()
        self.has_fetched = False  # of a follower: the leader of this epoch has answered
        self.has_updated_leader = False
        self.update_voter_ms = NEVER
        self.leader_high_watermark = -1
        self.snapshot: OffsetAndEpoch | None = None

    # -- asking ---------------------------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        """The voters in force."""
        return self.history.voters

    @property
    def is_voter(self) -> bool:
        """Whether this replica is a voter."""
        return self.history.voters.is_voter(self.key)

    @property
    def may_stand(self) -> bool:
        """Whether this replica may stand for election: as a voter, or until its removal is known to be committed.

        Who alone has the record of its own removal must be able to lead once more (without a vote of its own), or
        nobody can: the others need its vote, and their logs are too short to get it.
        """
        history = self.history
        if history.voters.is_voter(self.key):
            return True
        former, offset, snapshot = history.former_voters, history.voters_offset, self.log.latest_snapshot
        committed = max(self.high_watermark, snapshot.offset if snapshot is not None else 0)
        return former is not None and offset is not None and offset >= committed and former.is_voter(self.key)

    @property
    def has_leader(self) -> bool:
        """Whether this replica knows the leader of its epoch."""
        return self.leader_id != NOBODY

    def leader_error(self, epoch: int) -> int:
        """The error of a request that only the leader of an epoch serves."""
        if epoch < self.epoch:
            return FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return UNKNOWN_LEADER_EPOCH
        if self.leading is None:
            return NOT_LEADER_OR_FOLLOWER
        return BROKER_NOT_AVAILABLE if self.shutting_down else OK

    def election_timeout(self, now_ms: int) -> int:
        """When an election that begins now is over: a random time, so that two rarely end together."""
        timeout = self.config.election_timeout_ms
        return now_ms + (self.draw(timeout, 2 * timeout) if timeout else 1)

    def can_reach(self, leader_id: int, endpoints: tuple[Endpoint, ...]) -> bool:
        """Whether a leader could be fetched from."""
        return bool(endpoints) or leader_id in self.history.voters

    # -- effects --------------------------------------------------------------------------------------------------

    def emit(self, effect: Effect) -> None:
        """Ask something of the driver, after the election state that it may depend on is on the disk."""
        if self._dirty:
            self._save()
        self.effects.append(effect)

    def _save(self) -> None:
        self._dirty = False
        state = ElectionState(self.epoch, self.leader_id, self.voted)
        if state != self._saved:
            self._saved = state
            self.effects.append(Persist(state))

    def take_effects(self) -> list[Effect]:
        """All that was asked since the last call, in order."""
        if self._dirty:
            self._save()
        leader_id = self.leader_id if self.role is not Role.RESIGNED else NOBODY
        if (leader_id, self.epoch) != self._told:
            self._told = (leader_id, self.epoch)
            self.effects.append(LeaderChanged(leader_id, self.epoch, self.leader_endpoints))
        effects, self.effects = self.effects, []
        return effects

    def send(self, to: int, endpoints: tuple[Endpoint, ...], request: Request, now_ms: int) -> None:
        """Send a request to a destination that is free."""
        request_id = self.connections.sent(to, request, now_ms)
        self.emit(Send(request_id, to, endpoints, request))

    def reply(self, token: Any, reply: ReplyMessage) -> None:
        """Answer a request."""
        self.emit(Reply(token, reply))

    def advance_high_watermark(self, offset: int) -> None:
        """Tell of a higher high watermark."""
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.emit(HighWatermark(offset))

    # -- changing -------------------------------------------------------------------------------------------------

    def restore(self, saved: ElectionState | None, now_ms: int) -> None:
        """Begin as what this replica was when it stopped; None if it never began."""
        self._saved = saved
        state = saved if saved is not None else ElectionState()
        if state.epoch < self.log.last_epoch:  # the file is older than the log: only the epoch is certain
            state = ElectionState(self.log.last_epoch)
        self.epoch, self.leader_id, self.voted = state
        self._dirty = True
        self.deadline_ms = self.election_timeout(now_ms)
        if state.leader_id == self.key.id:
            # It could have written records that were lost since: another record must never have their epoch and offset.
            self.role = Role.RESIGNED
            self.voted = None
            self.unacked = {voter.key.id: voter.key for voter in self.voters if voter.key.id != self.key.id}
        elif state.voted is not None and state.voted.names(self.key) and self.may_stand:
            self.role = Role.CANDIDATE
            self.tally = Tally(self.voters, self.key.id)
        elif self.has_leader and state.leader_id in self.voters:
            self.follow(self.epoch, self.leader_id, self.voters.endpoints(self.leader_id), now_ms)

    def _enter(self, role: Role, epoch: int, leader_id: int, endpoints: tuple[Endpoint, ...]) -> None:
        """Change the role; what belonged to the former one ends."""
        left, self.leading = self.leading, None
        left_epoch = self.epoch
        if epoch != self.epoch:
            self.voted = None
        self.role = role
        self.epoch = epoch
        self.leader_id = leader_id
        self.leader_endpoints = endpoints
        self.tally = None
        self.unacked = {}
        self.connections.clear()
        self._dirty = True
        if self.snapshot is not None:
            self.emit(StopSnapshot(self.snapshot))
            self.snapshot = None
        if left is not None:
            self._lose(left, left_epoch)

    def _lose(self, left: Leading, epoch: int) -> None:
        self.emit(LostLeadership(epoch))
        for parked in left.parked:
            self.reply(parked.token, self.fetch_error(NOT_LEADER_OR_FOLLOWER))
        if left.change is not None and not left.change.answered:
            self.reply(left.change.token, self.change_reply(NOT_LEADER_OR_FOLLOWER))

    def become_unattached(
        self, epoch: int, now_ms: int, leader_id: int = NOBODY, voted: ReplicaKey | None = None
    ) -> None:
        """Become unattached: no leader of the epoch is known that can be fetched from."""
        if not self.may_stand:
            deadline = NEVER
        elif self.role in (Role.UNATTACHED, Role.CANDIDATE, Role.RESIGNED) or (
            self.tally is not None and not self.tally.is_lost
        ):
            deadline = self.deadline_ms
        else:
            deadline = self.election_timeout(now_ms)
        self._enter(Role.UNATTACHED, epoch, leader_id, ())
        self.voted = voted or self.voted
        self.deadline_ms = deadline

    def vote_for(self, candidate: ReplicaKey, now_ms: int) -> None:
        """Vote for a candidate of this epoch, and give it an election timeout."""
        self.voted = candidate
        self._dirty = True
        self.deadline_ms = self.election_timeout(now_ms)
        if self.role is Role.PROSPECTIVE:
            self.tally = Tally(self.voters, self.key.id)

    def follow(self, epoch: int, leader_id: int, endpoints: tuple[Endpoint, ...], now_ms: int) -> None:
        """Become a follower of the leader of an epoch."""
        self._enter(Role.FOLLOWER, epoch, leader_id, endpoints)
        self.deadline_ms = now_ms + max(self.config.fetch_timeout_ms, 1)
        self.update_voter_ms = now_ms + self.config.fetch_timeout_ms
        self.has_fetched = False
        self.has_updated_leader = False
        self.leader_high_watermark = -1

    def become_prospective(self, now_ms: int) -> None:
        """Become prospective: send pre-votes before the epoch is bumped (KIP-996)."""
        leader_id = self.leader_id if self.leader_id != self.key.id else NOBODY
        self._enter(Role.PROSPECTIVE, self.epoch, leader_id, self.leader_endpoints)
        self.deadline_ms = self.election_timeout(now_ms)
        self.tally = Tally(self.voters, self.key.id)
        if self.tally.is_won:
            self.become_candidate(now_ms)

    def become_candidate(self, now_ms: int) -> None:
        """Become a candidate of the next epoch, with its own vote."""
        self._enter(Role.CANDIDATE, self.epoch + 1, NOBODY, ())
        self.voted = self.key
        self.deadline_ms = self.election_timeout(now_ms)
        self.tally = Tally(self.voters, self.key.id)
        if self.tally.is_won:
            self.become_leader(self.tally.granted, now_ms)

    def become_leader(self, granted: tuple[int, ...], now_ms: int) -> None:
        """Become the leader of the epoch that was won."""
        self._enter(Role.LEADER, self.epoch, self.key.id, self.me.endpoints)
        self.voted = None  # who leads an epoch does not vote in it
        self.deadline_ms = NEVER
        voters, version = self.voters, self.history.kraft_version
        followers = Followers(self.key, voters, self.config.fetch_timeout_ms, now_ms)
        followers.synced(self.synced_offset)
        described = voters.with_updated(self.me, any_directory=True) or voters
        start = self.log.end_offset
        self.leading = Leading(followers, start, now_ms, described)
        write = version > 0 and (self.history.voters_offset == -1 or voters.needs_update(self.me))
        self.emit(BecomeLeader(self.epoch, start, voters, granted, version, described if write else None))

    def resign(self, now_ms: int) -> None:
        """Resign: EndQuorumEpoch tells the voters to elect another, the one with the longest log first."""
        if self.leading is None:
            return
        successors = self.leading.followers.successors()
        self._enter(Role.RESIGNED, self.epoch, self.key.id, self.me.endpoints)
        self.deadline_ms = self.election_timeout(now_ms)
        self.successors = successors
        self.unacked = {voter.key.id: voter.key for voter in self.voters if voter.key.id != self.key.id}

    # -- replies that tell the standing ---------------------------------------------------------------------------

    def fetch_error(self, error: int) -> FetchReply:
        """A fetch refused."""
        return FetchReply(
            error, self.epoch, self.leader_id, -1, self.log.start_offset, None, None, self.leader_endpoints
        )

    def change_reply(self, error: int, message: str = "") -> VoterChangeReply:
        """The outcome of a voter change."""
        return VoterChangeReply(error, message, self.epoch, self.leader_id, self.leader_endpoints)
