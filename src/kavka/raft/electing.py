"""Elections: who gets this replica's vote, and what comes of asking for the others' (KIP-595, KIP-996)."""

from __future__ import annotations

from typing import Any

from kavka.model.types import Endpoint
from kavka.raft.messages import (
    FENCED_LEADER_EPOCH,
    INVALID_REQUEST,
    INVALID_VOTER_KEY,
    OK,
    UNSUPPORTED_VERSION,
    BeginEpoch,
    BeginEpochReply,
    EndEpoch,
    EndEpochReply,
    Vote,
    VoteReply,
)
from kavka.raft.node import RaftNode, Role
from kavka.raft.voters import NOBODY, ReplicaKey


def learn(node: RaftNode, epoch: int, leader_id: int, endpoints: tuple[Endpoint, ...], now_ms: int) -> bool:
    """Adopt what a peer says of epoch and leader; whether that was news.

    What contradicts what this node knows for certain (a second leader of one epoch) is passed over.
    """
    if epoch < node.epoch:
        return False
    if leader_id == node.key.id:
        if epoch == node.epoch:
            return False
        # This node led an epoch that it forgot. It must not vote in it: it has, for itself.
        node.become_unattached(epoch, now_ms, voted=node.key)
        return True
    if leader_id >= 0 and not endpoints:
        endpoints = node.voters.endpoints(leader_id)
    if epoch > node.epoch:
        if leader_id >= 0 and node.can_reach(leader_id, endpoints):
            node.follow(epoch, leader_id, endpoints, now_ms)
        else:
            node.become_unattached(epoch, now_ms, max(leader_id, NOBODY))
        return True
    if leader_id < 0 or contradicts(node, epoch, leader_id) or not node.can_reach(leader_id, endpoints):
        return False
    if node.has_leader and node.role is not Role.UNATTACHED and len(endpoints) <= len(node.leader_endpoints):
        return False
    node.follow(epoch, leader_id, endpoints, now_ms)
    return True


def contradicts(node: RaftNode, epoch: int, leader_id: int) -> bool:
    """Whether a peer names another leader of this epoch than this node knows, or one that this node knows is not."""
    if leader_id < 0:
        return False
    if leader_id == node.key.id:
        return node.leading is None or epoch != node.epoch
    return epoch == node.epoch and node.has_leader and node.leader_id != leader_id


def _voter_error(node: RaftNode, sender_id: int, epoch: int) -> int:
    if epoch < node.epoch:
        return FENCED_LEADER_EPOCH
    return INVALID_REQUEST if sender_id < 0 else OK


def _is_me(node: RaftNode, voter: ReplicaKey | None) -> bool:
    return voter is None or voter.names(node.key)


# -- votes --------------------------------------------------------------------------------------------------------


def on_vote(node: RaftNode, vote: Vote, now_ms: int, token: Any) -> None:
    """Grant at most one vote per epoch, and only to a log that is at least as long as ours."""
    illegal = vote.last_epoch > vote.epoch if vote.pre_vote else vote.last_epoch >= vote.epoch
    if vote.last_offset < 0 or vote.last_epoch < 0 or illegal:
        error = INVALID_REQUEST
    else:
        error = _voter_error(node, vote.candidate.id, vote.epoch)
    granted = False
    if error == OK:
        if vote.epoch > node.epoch:
            node.become_unattached(vote.epoch, now_ms)
        if not _is_me(node, vote.voter):
            error = INVALID_VOTER_KEY
        else:
            granted = _can_grant(node, vote)
            if granted and not vote.pre_vote and node.voted is None:
                node.vote_for(vote.candidate, now_ms)
    node.reply(token, VoteReply(error, node.epoch, node.leader_id, granted, node.leader_endpoints))


def _can_grant(node: RaftNode, vote: Vote) -> bool:
    up_to_date = (vote.last_epoch, vote.last_offset) >= (node.log.last_epoch, node.log.end_offset)
    role = node.role
    if role is Role.LEADER or vote.candidate.id == node.key.id:
        return False
    if role is Role.FOLLOWER:  # who hears from its leader does not help to depose it
        return vote.pre_vote and not node.has_fetched and up_to_date
    if vote.pre_vote:
        return up_to_date
    if role is Role.CANDIDATE or role is Role.RESIGNED:
        return False
    if node.voted is not None:
        return node.voted.names(vote.candidate)
    return not node.has_leader and up_to_date


def on_vote_reply(node: RaftNode, voter_id: int, reply: VoteReply, now_ms: int) -> bool:
    """Count a vote; whether the answer was one."""
    if reply.error != OK:
        return False
    tally = node.tally
    if tally is None:
        return True
    tally.record(voter_id, reply.granted)
    if tally.is_won:
        if node.role is Role.PROSPECTIVE:
            node.become_candidate(now_ms)
        else:
            node.become_leader(tally.granted, now_ms)
    elif tally.is_lost and node.role is Role.PROSPECTIVE:
        give_up(node, now_ms)
    return True


def on_unsupported_vote(node: RaftNode, reply: VoteReply, now_ms: int) -> bool:
    """A voter that knows no pre-votes: the election must do without."""
    if reply.error != UNSUPPORTED_VERSION or node.role is not Role.PROSPECTIVE:
        return False
    node.become_candidate(now_ms)
    return True


def give_up(node: RaftNode, now_ms: int) -> None:
    """As a prospective that cannot win: go back to the leader that is known, or wait."""
    if node.has_leader and node.can_reach(node.leader_id, node.leader_endpoints):
        node.follow(node.epoch, node.leader_id, node.leader_endpoints, now_ms)
    else:
        node.become_unattached(node.epoch, now_ms, node.leader_id)


def poll_nominee(node: RaftNode, now_ms: int) -> None:
    """As a prospective or candidate: ask whoever has not answered, until it is won, lost or too late."""
    if now_ms >= node.deadline_ms and not node.shutting_down:
        if node.role is Role.CANDIDATE:
            node.become_prospective(now_ms)
        else:
            give_up(node, now_ms)
        return
    tally = node.tally
    if tally is None or tally.is_lost:
        return
    log, pre_vote = node.log, node.role is Role.PROSPECTIVE
    for key in tally.missing:
        if node.connections.is_free(key.id):
            vote = Vote(node.epoch, node.key, log.last_epoch, log.end_offset, pre_vote, key)
            node.send(key.id, node.voters.endpoints(key.id), vote, now_ms)


# -- the beginning and the end of an epoch ----------------------------------------------------------------------------


def on_begin_epoch(node: RaftNode, begin: BeginEpoch, now_ms: int, token: Any) -> None:
    """Follow who was elected."""
    error = _voter_error(node, begin.leader_id, begin.epoch)
    if error == OK and contradicts(node, begin.epoch, begin.leader_id):
        error = INVALID_REQUEST
    if error == OK:
        learn(node, begin.epoch, begin.leader_id, begin.leader_endpoints, now_ms)
        if not _is_me(node, begin.voter):
            error = INVALID_VOTER_KEY
    node.reply(token, BeginEpochReply(error, node.epoch, node.leader_id, node.leader_endpoints))


def on_end_epoch(node: RaftNode, end: EndEpoch, now_ms: int, token: Any) -> None:
    """The leader resigns: stand for election, the sooner the better one's log is."""
    error = _voter_error(node, end.leader_id, end.epoch)
    if error == OK and contradicts(node, end.epoch, end.leader_id):
        error = INVALID_REQUEST
    if error == OK:
        learn(node, end.epoch, end.leader_id, end.leader_endpoints, now_ms)
        if node.role is Role.FOLLOWER and node.leader_id == end.leader_id:
            node.deadline_ms = now_ms + _succession_delay(node, end.preferred)
    node.reply(token, EndEpochReply(error, node.epoch, node.leader_id, node.leader_endpoints))


def _succession_delay(node: RaftNode, preferred: tuple[ReplicaKey, ...]) -> int:
    """No delay for the first successor; doubling up to the maximum for the last; the maximum for all others."""
    longest = node.config.election_backoff_max_ms
    position = next((i for i, key in enumerate(preferred) if key.names(node.key)), len(preferred))
    if position == 0:
        return 0
    if position >= len(preferred):
        return longest
    return min(longest, (longest >> (len(preferred) - 1)) << (position - 1))


def poll_resigned(node: RaftNode, now_ms: int) -> None:
    """Tell the voters, and wait for one of them to be elected."""
    if now_ms >= node.deadline_ms and not node.shutting_down:
        # In a new epoch, so that nobody takes this node for the leader of the one that it resigned from.
        node.become_unattached(node.epoch + 1, now_ms)
        return
    for id_ in node.unacked:
        if node.connections.is_free(id_):
            end = EndEpoch(node.epoch, node.key.id, node.successors, node.me.endpoints)
            node.send(id_, node.voters.endpoints(id_), end, now_ms)
