"""What the core asks of its driver, in order: the contract between the two.

Every event method of `Raft` returns a list of effects. The driver

1. runs the list front to back, and ends with it before it gives the core the next event (an event that an effect calls
   for, such as `on_appended` after an `Append`, comes after the whole list);
2. treats an effect as done only when its work is: a `Persist` is on the disk before a later `Send` or `Reply` leaves,
   log changes are visible through the `LogView`. Only the forcing of the log (fsync) and the network run besides;
3. reads `next_deadline_ms()` again and calls `tick(now)` when that time has come.

An effect whose work fails (the disk refuses) means that this node must stop: nothing after it may run.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from kavka.model.types import Endpoint
from kavka.raft.messages import OffsetAndEpoch, ReplyMessage, Request
from kavka.raft.voters import NOBODY, ReplicaKey, VoterSet


class ElectionState(NamedTuple):
    """What a replica must not forget: the quorum-state file."""

    epoch: int = 0
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None


class Persist(NamedTuple):
    """Write the quorum-state file and force it to the disk."""

    state: ElectionState


class Send(NamedTuple):
    """Send a request and give its answer to `on_response(request_id, ...)`; None if there is none.

    `to` is the node's id, negative for a bootstrap server whose id is not known. `endpoints` is where it listens: take
    the controller listener's, resolve its name anew. At most one request per destination is under way; a core that
    gives up on one (timeout, change of role) ignores its late answer, so the driver need not cancel anything. A request
    that the other side refuses as a whole (cluster id, authorization) is answered by None, but for UNSUPPORTED_VERSION
    in answer to a pre-vote: `VoteReply(35, -1)`.
    """

    request_id: int
    to: int
    endpoints: tuple[Endpoint, ...]
    request: Request


class Reply(NamedTuple):
    """Answer the request that `on_request` was given this token with; a `FetchReply` to `read` needs records first."""

    token: Any
    reply: ReplyMessage


class Append(NamedTuple):
    """As a follower: check and append these records of a `FetchReply` at the log's end.

    Then call `on_appended(now, changes)` with the control records among them (also if nothing was sound and nothing
    appended), force the log, and call `on_synced(end_offset, now)` when that is done: only then does a replica that
    votes, or may some day, fetch on.
    """

    records: Any
    epoch: int
    """The leader's; a batch of a later epoch is not sound."""


class Truncate(NamedTuple):
    """Truncate the log to this offset; then call `on_truncated(now)`."""

    offset: int


class BecomeLeader(NamedTuple):
    """Begin to lead: append one control batch of `epoch`, then call `on_appended(now, changes)` and force the log.

    The batch is a LeaderChange with these voters' ids and those who `granted`; and, if `write_voters` is given, a
    KRaftVersion and a Voters record of it (the log did not have the voters yet, or not where this node listens).
    Nothing may be submitted before the node has replayed what is committed up to `epoch_start_offset` and beyond
    (`HighWatermark` > `epoch_start_offset` tells).
    """

    epoch: int
    epoch_start_offset: int
    voters: VoterSet
    granted: tuple[int, ...]
    kraft_version: int
    write_voters: VoterSet | None


class WriteControl(NamedTuple):
    """As the leader of `epoch`: append a control batch, then call `on_appended(now, changes)` and force the log.

    A KRaftVersion record if `kraft_version` is given, then a Voters record if `voters` are.
    """

    epoch: int
    voters: VoterSet | None
    kraft_version: int | None


class LostLeadership(NamedTuple):
    """This node lost leadership of `epoch`: append nothing more, fail whoever waits for a commit (NOT_CONTROLLER)."""

    epoch: int


class LeaderChanged(NamedTuple):
    """The leader, as far as this node knows; told on each change. A leader that has resigned is not one."""

    leader_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]


class HighWatermark(NamedTuple):
    """The new high watermark: hand what is before it to the state machine, release who waited. Never decreases.

    A `LostLeadership` later in the same list does not take it back.
    """

    offset: int


class FetchSnapshotFrom(NamedTuple):
    """Fetch a snapshot from the leader with FetchSnapshot requests (of this epoch), window by window.

    Give the head of each answer to `on_snapshot_reply`, and go on unless that brings a `StopSnapshot`. When all is
    there: check it, force it to the disk, restart the log at its end (`log.end_offset == snapshot.offset`), and call
    `on_snapshot_installed(snapshot, now, changes)`; if anything fails, `on_snapshot_failed(snapshot, now)`.
    """

    leader_id: int
    endpoints: tuple[Endpoint, ...]
    epoch: int
    snapshot: OffsetAndEpoch


class StopSnapshot(NamedTuple):
    """Give up the snapshot that is being fetched; report nothing more of it."""

    snapshot: OffsetAndEpoch


Effect: TypeAlias = (
    Persist
    | Send
    | Reply
    | Append
    | Truncate
    | BecomeLeader
    | WriteControl
    | LostLeadership
    | LeaderChanged
    | HighWatermark
    | FetchSnapshotFrom
    | StopSnapshot
)
