"""Changing the voters, one at a time (KIP-853), and the kraft.version that makes it possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kavka.model.errors import InvalidUpdateVersion, NotLeaderOrFollower
from kavka.model.types import Uuid
from kavka.raft.effects import WriteControl
from kavka.raft.messages import (
    DUPLICATE_VOTER,
    INVALID_REQUEST,
    OK,
    REQUEST_TIMED_OUT,
    UNSUPPORTED_VERSION,
    VOTER_NOT_FOUND,
    AddVoter,
    AskVersions,
    RemoveVoter,
    UpdateVoter,
    VersionsReply,
)
from kavka.raft.node import Leading, RaftNode, VoterChange
from kavka.raft.voters import ControlChange, ReplicaKey, Voter


class _RefusalError(Exception):
    """Why a change cannot be made now."""

    def __init__(self, error: int, message: str = "") -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def _leading(node: RaftNode, epoch: int, key: ReplicaKey, now_ms: int) -> Leading:
    """What the leader has, if it can change the voters now."""
    error = node.leader_error(epoch)
    leading = node.leading
    if error != OK or leading is None:
        raise _RefusalError(error)
    if key.id < 0 or key.directory_id == Uuid.ZERO:
        raise _RefusalError(INVALID_REQUEST, "The request names no voter: an id and a directory id")
    expire(node, leading, now_ms)
    if leading.change is not None:
        raise _RefusalError(REQUEST_TIMED_OUT, "The leader is busy with another change of the voters")
    if leading.high_watermark < 0:
        raise _RefusalError(REQUEST_TIMED_OUT, "The leader has not committed anything in its epoch yet")
    return leading


def _require_committed_voters(node: RaftNode, leading: Leading) -> None:
    version = node.history.kraft_version
    if version == 0:
        raise _RefusalError(UNSUPPORTED_VERSION, f"The voters cannot be changed at kraft.version {version}")
    offset = node.history.voters_offset
    if offset is None or offset >= leading.high_watermark:
        raise _RefusalError(REQUEST_TIMED_OUT, f"The last change of the voters, at {offset}, is not committed yet")


# -- adding ---------------------------------------------------------------------------------------------------------


def on_add_voter(node: RaftNode, request: AddVoter, now_ms: int, token: Any) -> None:
    """Begin to add a voter: ask it first which versions it knows."""
    voter = request.voter
    try:
        leading = _leading(node, node.epoch, voter.key, now_ms)
        if not voter.endpoints:
            raise _RefusalError(INVALID_REQUEST, "The request does not say where the voter listens")
        _require_committed_voters(node, leading)
        if voter.key.id in node.voters:
            raise _RefusalError(DUPLICATE_VOTER, f"There is a voter with the id {voter.key.id}")
        if not node.connections.is_free(voter.key.id):
            raise _RefusalError(REQUEST_TIMED_OUT, f"Node {voter.key.id} cannot be asked now")
    except _RefusalError as refused:
        node.reply(token, node.change_reply(refused.error, refused.message))
        return
    deadline = now_ms + node.config.request_timeout_ms
    leading.change = VoterChange(token, voter, request.ack_when_committed, deadline)
    node.send(voter.key.id, voter.endpoints, AskVersions(), now_ms)


def on_versions_reply(node: RaftNode, peer_id: int, reply: VersionsReply | None, now_ms: int) -> bool:
    """The voter to be has told its versions: write the new set, if it is fit to vote."""
    leading = node.leading
    change = leading.change if leading is not None else None
    if leading is None or change is None or change.voter is None or change.offset is not None:
        return True
    voter = change.voter
    if voter.key.id != peer_id:
        return True
    if reply is None or reply.error != OK:
        _finish(node, leading, REQUEST_TIMED_OUT, f"Node {peer_id} does not tell its versions")
        return False
    version = node.history.kraft_version
    voter = Voter(voter.key, voter.endpoints, reply.min_version, reply.max_version)
    voters = node.voters.with_added(voter)
    if not voter.supports(version):
        _finish(node, leading, INVALID_REQUEST, f"Node {peer_id} does not know kraft.version {version}")
    elif not leading.followers.is_caught_up(voter.key, now_ms):
        _finish(node, leading, REQUEST_TIMED_OUT, f"Node {peer_id} has not caught up with the log")
    elif voters is None:
        _finish(node, leading, DUPLICATE_VOTER, f"There is a voter with the id {peer_id}")
    else:
        node.emit(WriteControl(node.epoch, voters, None))
        if not change.ack_when_committed:
            node.reply(change.token, node.change_reply(OK))
            change.answered = True
    return True


# -- removing -------------------------------------------------------------------------------------------------------


def on_remove_voter(node: RaftNode, request: RemoveVoter, now_ms: int, token: Any) -> None:
    """Write a set without a voter; it may be the leader itself, which resigns once that is committed."""
    try:
        leading = _leading(node, node.epoch, request.key, now_ms)
        _require_committed_voters(node, leading)
        voters = node.voters.without(request.key)
        if voters is None:
            raise _RefusalError(
                VOTER_NOT_FOUND, f"Voter {request.key.id} cannot be removed: not there, or the only one"
            )
    except _RefusalError as refused:
        node.reply(token, node.change_reply(refused.error, refused.message))
        return
    leading.change = VoterChange(token, None, True, now_ms + node.config.request_timeout_ms)
    node.emit(WriteControl(node.epoch, voters, None))


# -- updating -------------------------------------------------------------------------------------------------------


def on_update_voter(node: RaftNode, request: UpdateVoter, now_ms: int, token: Any) -> None:
    """Take over how a voter describes itself: into the log, or into memory while the log cannot say (version 0)."""
    voter = request.voter
    try:
        if not 0 <= voter.min_version <= voter.max_version or not voter.endpoints:
            leader_error = node.leader_error(request.epoch)
            raise _RefusalError(leader_error or INVALID_REQUEST, "The voter's versions or endpoints make no sense")
        leading = _leading(node, request.epoch, voter.key, now_ms)
        _update(node, leading, voter)
    except _RefusalError as refused:
        node.reply(token, node.change_reply(refused.error, refused.message))
        return
    leading.followers.heard_from(voter.key, now_ms)
    node.reply(token, node.change_reply(OK))


def _update(node: RaftNode, leading: Leading, voter: Voter) -> None:
    version = node.history.kraft_version
    if version > 0:
        _require_committed_voters(node, leading)
    voters = node.voters if version > 0 else leading.described
    if not voter.supports(version):
        raise _RefusalError(INVALID_REQUEST, f"The voter does not know kraft.version {version}")
    updated = voters.with_updated(voter, any_directory=version == 0)
    if updated is None:
        raise _RefusalError(VOTER_NOT_FOUND, f"There is no voter {voter.key.id} in this directory")
    if version > 0:
        node.emit(WriteControl(node.epoch, updated, None))
    else:
        leading.described = updated


def upgrade(node: RaftNode, version: int, *, validate_only: bool) -> None:
    """Raise the kraft.version to 1, which puts the voters into the log; raises InvalidUpdateVersion."""
    leading, present = node.leading, node.history.kraft_version
    if leading is None:
        raise NotLeaderOrFollower("only the leader can change the kraft.version")
    if version == present:
        return
    if version < present:
        raise InvalidUpdateVersion(f"kraft.version cannot go back from {present} to {version}")
    voters = leading.described
    if not all(voter.supports(version) for voter in voters):
        raise InvalidUpdateVersion(f"not all voters are known to support kraft.version {version}")
    if any(voter.key.directory_id == Uuid.ZERO for voter in voters):
        raise InvalidUpdateVersion("not all voters have told their directory ids yet")
    if not validate_only:
        node.emit(WriteControl(node.epoch, voters, version))


# -- the end of a change --------------------------------------------------------------------------------------------


def on_written(leading: Leading, changes: Sequence[ControlChange]) -> None:
    """Take note of where the voters of the change under way were written."""
    change = leading.change
    if change is not None and change.offset is None:
        change.offset = next((written.offset for written in changes if written.voters is not None), None)


def on_commit(node: RaftNode, leading: Leading) -> None:
    """The high watermark has moved: a change may be done, and a leader that may no longer vote resigns."""
    change = leading.change
    if change is not None and change.offset is not None and change.offset < leading.high_watermark:
        _finish(node, leading, OK)
    offset = node.history.voters_offset
    if offset is not None and offset < leading.high_watermark and not node.is_voter:
        leading.resigning = True


def expire(node: RaftNode, leading: Leading, now_ms: int) -> None:
    """Stop waiting for a change that takes too long; if it was written, it may be committed all the same."""
    if leading.change is not None and leading.change.deadline_ms <= now_ms:
        _finish(node, leading, REQUEST_TIMED_OUT)


def _finish(node: RaftNode, leading: Leading, error: int, message: str = "") -> None:
    change, leading.change = leading.change, None
    if change is not None and not change.answered:
        node.reply(change.token, node.change_reply(error, message))
