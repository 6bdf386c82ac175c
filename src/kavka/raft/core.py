"""The raft core: events in, ordered effects out; `effects` says what the driver does with them.

A replica's life in short: `start`, then `on_request`, `on_response` and `tick` as they come. The leader's driver
appends to the log and says so (`on_appended`, `on_synced`); a follower's driver does when an `Append` tells it to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kavka.model.types import Endpoint
from kavka.raft import electing, following, leading, membership
from kavka.raft.effects import Effect, ElectionState, StopSnapshot
from kavka.raft.messages import (
    FENCED_LEADER_EPOCH,
    INVALID_REQUEST,
    NOT_LEADER_OR_FOLLOWER,
    OK,
    UNKNOWN_LEADER_EPOCH,
    AddVoter,
    AskVersions,
    BeginEpoch,
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
from kavka.raft.node import LogView, Peer, RaftConfig, RaftError, RaftNode, Role
from kavka.raft.progress import NEVER, ReplicaProgress
from kavka.raft.voters import NOBODY, ControlChange, ReplicaKey, Voter, VoterHistory, VoterSet

__all__ = ["NEVER", "LogView", "Peer", "Raft", "RaftConfig", "RaftError", "ReplicaProgress", "Role"]


class Raft:
    """One replica of the metadata log.

    `log` must be durable as far as it goes when the replica is made (force it after loading). `draw(low, high)` is
    chance: low <= n < high. `bootstrap` are the nodes to ask for the leader: `controller.quorum.bootstrap.servers` with
    ids -2, -3, ..., or the static voters; the voters in force if there are none. `can_become_voter` is true on nodes
    with the controller role. Any event may raise RaftError: then this node must stop at once.
    """

    __slots__ = ("_node", "_state")

    def __init__(
        self,
        me: Voter,
        log: LogView,
        history: VoterHistory,
        draw: Callable[[int, int], int],
        *,
        state: ElectionState | None = None,
        config: RaftConfig | None = None,
        bootstrap: Sequence[Peer] = (),
        can_become_voter: bool = True,
    ) -> None:
        self._node = RaftNode(me, log, history, draw, config or RaftConfig(), bootstrap, can_become_voter)
        self._state = state

    # -- what others see ------------------------------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """What this replica is at the moment."""
        node = self._node
        if node.role is Role.FOLLOWER or node.role is Role.UNATTACHED:
            if not node.is_voter:
                return Role.OBSERVER
            if node.role is Role.UNATTACHED and node.voted is not None:
                return Role.VOTED
        return node.role

    @property
    def epoch(self) -> int:
        """The newest epoch this replica has seen."""
        return self._node.epoch

    @property
    def leader_id(self) -> int:
        """Who leads the epoch; -1 if that is not known, or this node led it and has resigned."""
        return self._node.leader_id if self._node.role is not Role.RESIGNED else NOBODY

    @property
    def leader_endpoints(self) -> tuple[Endpoint, ...]:
        """Where the leader listens."""
        return self._node.leader_endpoints if self.leader_id != NOBODY else ()

    @property
    def is_leader(self) -> bool:
        """Whether this node leads: it alone may append (at this epoch)."""
        return self._node.leading is not None

    @property
    def epoch_start_offset(self) -> int:
        """Where this node's own epoch begins, while it leads; -1 otherwise."""
        return self._node.leading.epoch_start_offset if self._node.leading is not None else -1

    @property
    def high_watermark(self) -> int:
        """What is before this offset is committed; -1 until this replica knows."""
        return self._node.high_watermark

    @property
    def voters(self) -> VoterSet:
        """The voters in force, committed or not."""
        return self._node.voters

    @property
    def kraft_version(self) -> int:
        """The kraft.version in force."""
        return self._node.history.kraft_version

    @property
    def history(self) -> VoterHistory:
        """Voters and kraft.version by offset; `history.at(offset - 1)` is what a snapshot at `offset` must say.

        The driver tells it when the log begins later (`forget_before`).
        """
        return self._node.history

    @property
    def has_shut_down(self) -> bool:
        """After `shutdown`: whether nobody needs this node to stay any longer."""
        node = self._node
        if not node.shutting_down:
            return False
        remote_leader = node.has_leader and node.leader_id != node.key.id
        return remote_leader or not node.is_voter or node.voters.is_only_voter(node.key)

    def progress(self, now_ms: int) -> tuple[list[ReplicaProgress], list[ReplicaProgress]]:
        """As the leader: how far the voters and the observers are, for DescribeQuorum; nothing otherwise."""
        if self._node.leading is None:
            return [], []
        return self._node.leading.followers.told(self._node.log.end_offset, now_ms)

    def leader_error(self, epoch: int) -> int:
        """The error of a request that only the leader of this epoch serves (FetchSnapshot); 0 if it is to be served."""
        return self._node.leader_error(epoch)

    def next_deadline_ms(self) -> int:
        """When to call `tick` next, if nothing else happens before."""
        node = self._node
        deadline = node.connections.next_deadline_ms()
        if node.leading is not None:
            own = leading.next_deadline_ms(node.leading)
        elif node.shutting_down or (node.role in (Role.FOLLOWER, Role.UNATTACHED) and not node.may_stand):
            return deadline
        else:
            own = node.deadline_ms
        return own if own < deadline else deadline

    # -- events ---------------------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> list[Effect]:
        """Begin, once: as whatever the election state says. A sole voter leads at once."""
        node = self._node
        node.restore(self._state, now_ms)
        if node.voters.is_only_voter(node.key):
            node.become_prospective(now_ms)
        return self._done(now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed."""
        node = self._node
        for silent in node.connections.expire(now_ms):
            if node.role is Role.FOLLOWER and silent == node.leader_id:
                node.connections.pause(silent, now_ms)
        return self._done(now_ms)

    def on_request(self, request: Request, now_ms: int, token: Any) -> list[Effect]:
        """A request came in; a `Reply` with the token follows, now or later."""
        node = self._node
        if isinstance(request, Fetch):
            leading.on_fetch(node, request, now_ms, token)
        elif isinstance(request, Vote):
            electing.on_vote(node, request, now_ms, token)
        elif isinstance(request, BeginEpoch):
            electing.on_begin_epoch(node, request, now_ms, token)
        elif isinstance(request, EndEpoch):
            electing.on_end_epoch(node, request, now_ms, token)
        elif isinstance(request, AddVoter):
            membership.on_add_voter(node, request, now_ms, token)
        elif isinstance(request, RemoveVoter):
            membership.on_remove_voter(node, request, now_ms, token)
        elif isinstance(request, UpdateVoter):
            membership.on_update_voter(node, request, now_ms, token)
        else:
            raise TypeError(f"{request!r} is not for the core to answer")
        return self._done(now_ms)

    def on_response(self, request_id: int, reply: ReplyMessage | None, now_ms: int) -> list[Effect]:
        """The answer to a `Send`; None if there is none."""
        node = self._node
        sent = node.connections.answered(request_id)
        if sent is not None:
            to, request = sent
            if not self._handle(to, request, reply, now_ms):
                node.connections.pause(to, now_ms)
        return self._done(now_ms)

    def on_appended(self, now_ms: int, changes: Sequence[ControlChange] = ()) -> list[Effect]:
        """The log has grown: by the leader's own records, or by those of an `Append`."""
        node = self._node
        node.log_busy = False
        node.history.add(changes)
        if node.leading is not None:
            membership.on_written(node.leading, changes)
            leading.on_log_grown(node, node.leading, now_ms, new_voters=bool(changes))
        elif node.role is Role.FOLLOWER:
            following.on_log_grown(node, now_ms)
        return self._done(now_ms)

    def on_synced(self, end_offset: int, now_ms: int) -> list[Effect]:
        """This replica's log is durable up to here: the log as it is, not as it was before a truncation."""
        node = self._node
        node.synced_offset = max(node.synced_offset, min(end_offset, node.log.end_offset))
        if node.leading is not None:
            leading.on_log_synced(node, node.leading, now_ms)
        return self._done(now_ms)

    def on_truncated(self, now_ms: int) -> list[Effect]:
        """A `Truncate` is done."""
        node = self._node
        node.log_busy = False
        node.synced_offset = min(node.synced_offset, node.log.end_offset)
        node.history.truncate(node.log.end_offset)
        return self._done(now_ms)

    def on_snapshot_reply(self, reply: SnapshotReply, now_ms: int) -> list[Effect]:
        """An answer to one of the FetchSnapshot requests of a `FetchSnapshotFrom`."""
        node, snapshot = self._node, self._node.snapshot
        if snapshot is None:
            return []
        handled = self._common(reply.error, reply.epoch, reply.leader_id, reply.leader_endpoints, now_ms)
        if node.snapshot is snapshot and not following.on_snapshot_reply(node, reply, handled, now_ms):
            node.snapshot = None
            node.emit(StopSnapshot(snapshot))
        return self._done(now_ms)

    def on_snapshot_installed(
        self, snapshot: OffsetAndEpoch, now_ms: int, changes: Sequence[ControlChange]
    ) -> list[Effect]:
        """A fetched snapshot is on the disk and the log restarted; `changes` (at its last offset) is what it says."""
        node = self._node
        if node.snapshot == snapshot:
            node.snapshot = None
        node.synced_offset = node.log.end_offset
        node.history.replace(changes)
        node.advance_high_watermark(snapshot.offset)
        return self._done(now_ms)

    def on_snapshot_failed(self, snapshot: OffsetAndEpoch, now_ms: int) -> list[Effect]:
        """A snapshot could not be fetched or was not sound: try again in a while."""
        node = self._node
        if node.snapshot == snapshot:
            node.snapshot = None
            node.connections.pause(node.leader_id, now_ms)
        return self._done(now_ms)

    def on_snapshot_served(self, replica: ReplicaKey, now_ms: int) -> list[Effect]:
        """As the leader: a FetchSnapshot request of a replica was served (so it is alive)."""
        if self._node.leading is not None:
            self._node.leading.followers.heard_from(replica, now_ms)
        return self._done(now_ms)

    def upgrade_kraft_version(self, version: int, now_ms: int, *, validate_only: bool = False) -> list[Effect]:
        """As the leader: raise the kraft.version; raises InvalidUpdateVersion or NotLeaderOrFollower."""
        membership.upgrade(self._node, version, validate_only=validate_only)
        return self._done(now_ms)

    def resign(self, epoch: int, now_ms: int) -> list[Effect]:
        """Stop leading this epoch, if this node does."""
        if epoch == self._node.epoch:
            self._node.resign(now_ms)
        return self._done(now_ms)

    def shutdown(self, now_ms: int) -> list[Effect]:
        """Stop taking part: resign if this node leads, begin no election; see `has_shut_down`."""
        self._node.shutting_down = True
        return self._done(now_ms)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _done(self, now_ms: int) -> list[Effect]:
        """See to what the role asks for now, until it stays the same."""
        node = self._node
        while True:
            role, epoch = node.role, node.epoch
            if role is Role.LEADER:
                leading.poll_leader(node, now_ms)
            elif role is Role.FOLLOWER:
                following.poll_follower(node, now_ms)
            elif role is Role.UNATTACHED:
                following.poll_unattached(node, now_ms)
            elif role is Role.RESIGNED:
                electing.poll_resigned(node, now_ms)
            else:
                electing.poll_nominee(node, now_ms)
            if node.role is role and node.epoch == epoch:
                return node.take_effects()

    def _common(
        self, error: int, epoch: int, leader_id: int, endpoints: tuple[Endpoint, ...], now_ms: int
    ) -> bool | None:
        """Learn from what every answer tells; None if it is still to be handled, else whether it was of use."""
        node = self._node
        if epoch < node.epoch or error == UNKNOWN_LEADER_EPOCH:
            return False
        if epoch > node.epoch or error in (FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER):
            return electing.learn(node, epoch, leader_id, endpoints, now_ms)
        if node.role in (Role.UNATTACHED, Role.PROSPECTIVE, Role.CANDIDATE) and leader_id >= 0:
            learned = electing.learn(node, epoch, leader_id, endpoints, now_ms)
            if learned and error != OK:
                return True
        return False if error == INVALID_REQUEST else None

    def _handle(self, to: int, request: Request, reply: ReplyMessage | None, now_ms: int) -> bool:
        """Handle an answer; False if the destination is better left alone for a while."""
        node = self._node
        if isinstance(request, AskVersions):
            return membership.on_versions_reply(node, to, reply if isinstance(reply, VersionsReply) else None, now_ms)
        if reply is None or isinstance(reply, VersionsReply):
            if to == node.leader_id:
                following.on_leader_unreachable(node, now_ms)
            return False
        if isinstance(reply, VoterChangeReply) and not isinstance(request, UpdateVoter):
            return following.on_voter_change_reply(node, request, reply, now_ms)
        if isinstance(reply, VoteReply) and electing.on_unsupported_vote(node, reply, now_ms):
            return True
        handled = self._common(reply.error, reply.epoch, reply.leader_id, reply.leader_endpoints, now_ms)
        if handled is not None:
            return handled
        if isinstance(reply, FetchReply):
            return following.on_fetch_reply(node, reply, now_ms)
        if isinstance(reply, VoteReply):
            return electing.on_vote_reply(node, to, reply, now_ms)
        if isinstance(reply, VoterChangeReply):
            return following.on_voter_change_reply(node, request, reply, now_ms)
        if isinstance(reply, EndEpochReply) and reply.error == OK:
            node.unacked.pop(to, None)
        return reply.error == OK
