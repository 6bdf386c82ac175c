"""Following: fetching from the leader, or finding it; truncation, snapshots, and joining the voters."""

from __future__ import annotations

from kavka.raft.effects import Append, FetchSnapshotFrom, Truncate
from kavka.raft.messages import (
    DUPLICATE_VOTER,
    OK,
    REQUEST_TIMED_OUT,
    SNAPSHOT_NOT_FOUND,
    UNSUPPORTED_VERSION,
    VOTER_NOT_FOUND,
    AddVoter,
    Fetch,
    FetchReply,
    OffsetAndEpoch,
    RemoveVoter,
    Request,
    SnapshotReply,
    UpdateVoter,
    VoterChangeReply,
)
from kavka.raft.node import LogView, Peer, RaftError, RaftNode, Role

# -- asking -------------------------------------------------------------------------------------------------------


def poll_unattached(node: RaftNode, now_ms: int) -> None:
    """Stand for election at the election timeout; until then ask other nodes for the leader."""
    if node.may_stand:
        if node.shutting_down:
            return
        if now_ms >= node.deadline_ms:
            node.become_prospective(now_ms)
            return
    _fetch_from_anyone(node, now_ms)


def poll_follower(node: RaftNode, now_ms: int) -> None:
    """Fetch; a voter whose fetch timeout ends stands for election."""
    if node.shutting_down:
        return
    if now_ms >= node.deadline_ms and node.may_stand:
        node.become_prospective(now_ms)
        return
    if node.log_busy or node.snapshot is not None:
        return
    if node.synced_offset < node.log.end_offset and (node.can_become_voter or node.is_voter):
        return  # the leader counts what is fetched after as durable here
    if node.connections.is_pausing(node.leader_id):
        _fetch_from_anyone(node, now_ms)
    elif not node.connections.any_under_way:
        request = _voter_change(node, now_ms) or _fetch(node)
        node.send(node.leader_id, node.leader_endpoints, request, now_ms)


def _fetch(node: RaftNode) -> Fetch:
    log, config = node.log, node.config
    wait = min(config.fetch_max_wait_ms, config.fetch_timeout_ms // 2)  # an answer in time, though there is no news
    return Fetch(node.epoch, node.key, log.end_offset, log.last_epoch, node.high_watermark, wait)


def _fetch_from_anyone(node: RaftNode, now_ms: int) -> None:
    if node.connections.any_under_way:
        return
    # the voters too: whoever was configured may be gone, or be this very node, which votes no more
    peers = [*node.bootstrap]
    peers += [Peer(voter.key.id, voter.endpoints) for voter in node.voters if voter.key.id != node.key.id]
    if not peers:
        return
    first = node.draw(0, len(peers))
    for index in range(len(peers)):
        peer = peers[(first + index) % len(peers)]
        if node.connections.is_free(peer.id):
            node.send(peer.id, peer.endpoints, _fetch(node), now_ms)
            return


def _voter_change(node: RaftNode, now_ms: int) -> Request | None:
    """The change that this replica wants to its own vote, once in a while."""
    if now_ms < node.update_voter_ms:
        return None
    node.update_voter_ms = now_ms + node.config.fetch_timeout_ms
    voters, version = node.voters, node.history.kraft_version
    if node.is_voter:
        outdated = voters.needs_update(node.me) if version > 0 else not node.has_updated_leader
        return UpdateVoter(node.epoch, node.me) if outdated else None
    if version == 0 or not node.can_become_voter or not node.config.auto_join:
        return None
    old = voters.get(node.key.id)
    return RemoveVoter(old.key) if old is not None else AddVoter(node.me, ack_when_committed=False)


# -- answers ------------------------------------------------------------------------------------------------------


def _heard(node: RaftNode, now_ms: int) -> None:
    node.deadline_ms = now_ms + node.config.fetch_timeout_ms
    node.has_fetched = True


def on_leader_unreachable(node: RaftNode, now_ms: int) -> None:
    """The leader did not answer at all: its process may be gone, which need not take a fetch timeout to see.

    A guess, but pre-votes make a wrong one harmless: who still hears from the leader refuses. All voters see it at the
    same moment, and those who stand together split the votes, so each has a turn of its own.
    """
    patience = node.config.lost_leader_ms
    if node.role is Role.FOLLOWER and patience:
        others = [id_ for id_ in node.voters.ids if id_ != node.leader_id]
        turn = sum(id_ < node.key.id for id_ in others)
        node.deadline_ms = min(node.deadline_ms, now_ms + patience + patience * turn // max(len(others), 1))
        node.has_fetched = False


def on_fetch_reply(node: RaftNode, reply: FetchReply, now_ms: int) -> bool:
    """Do as the leader says; whether the answer made sense."""
    if node.role is not Role.FOLLOWER or reply.error != OK or reply.leader_id != node.leader_id:
        return False
    if reply.diverging is not None:
        offset = _truncation_offset(node.log, reply.diverging)
        if offset >= node.log.end_offset:
            return False
        if offset < max(node.high_watermark, node.log.start_offset):
            raise RaftError(
                f"leader {node.leader_id} of epoch {node.epoch} wants the log truncated to {offset}, "
                f"but {node.high_watermark} is committed and it begins at {node.log.start_offset}"
            )
        node.log_busy = True
        node.emit(Truncate(offset))
    elif reply.snapshot is not None:
        if reply.snapshot.offset < node.high_watermark:
            raise RaftError(
                f"leader {node.leader_id} of epoch {node.epoch} wants the log replaced by a snapshot at "
                f"{reply.snapshot.offset}, but {node.high_watermark} is committed"
            )
        node.snapshot = reply.snapshot
        node.emit(FetchSnapshotFrom(node.leader_id, node.leader_endpoints, node.epoch, reply.snapshot))
    else:
        node.leader_high_watermark = reply.high_watermark
        if reply.records:
            node.log_busy = True
            node.appended_at = node.log.end_offset
            node.emit(Append(reply.records, node.epoch))
        else:
            _advance(node)
    _heard(node, now_ms)
    return True


def _truncation_offset(log: LogView, diverging: OffsetAndEpoch) -> int:
    local = log.end_offset_for_epoch(diverging.epoch)
    if diverging.epoch == 0:
        return min(diverging.offset, log.end_offset)
    return min(local.offset, diverging.offset) if local.epoch == diverging.epoch else local.offset


def on_log_grown(node: RaftNode, now_ms: int) -> None:
    """The leader's records are in the log; if none was sound, ask for them again, but not at once."""
    if node.log.end_offset == node.appended_at:
        node.connections.pause(node.leader_id, now_ms)
    _advance(node)


def _advance(node: RaftNode) -> None:
    """Take over the leader's high watermark, as far as this log goes."""
    node.advance_high_watermark(min(node.leader_high_watermark, node.log.end_offset))


def on_voter_change_reply(node: RaftNode, request: Request, reply: VoterChangeReply, now_ms: int) -> bool:
    """The leader's answer to this replica's wish to vote, or to be known as it is."""
    if node.role is not Role.FOLLOWER:
        return True
    if not isinstance(request, UpdateVoter):
        node.update_voter_ms = now_ms + node.config.fetch_timeout_ms
        return reply.error in (OK, REQUEST_TIMED_OUT, DUPLICATE_VOTER, VOTER_NOT_FOUND)
    if reply.error not in (OK, UNSUPPORTED_VERSION):
        return False
    node.has_updated_leader = True
    _heard(node, now_ms)
    return True


# -- snapshots ----------------------------------------------------------------------------------------------------


def on_snapshot_reply(node: RaftNode, reply: SnapshotReply, handled: bool | None, now_ms: int) -> bool:
    """A piece of a snapshot came from the leader; False if the snapshot cannot be had there now."""
    if handled is None and reply.error in (OK, SNAPSHOT_NOT_FOUND):
        _heard(node, now_ms)
        return reply.error == OK
    node.connections.pause(node.leader_id, now_ms)
    return False
