"""Leading: serving fetches, moving the high watermark, and BeginQuorumEpoch to the voters."""

from __future__ import annotations

from typing import Any

from kavka.raft import membership
from kavka.raft.messages import (
    INVALID_REQUEST,
    OK,
    UNKNOWN_SERVER_ERROR,
    BeginEpoch,
    Fetch,
    FetchReply,
    OffsetAndEpoch,
)
from kavka.raft.node import Leading, LogView, ParkedFetch, RaftError, RaftNode


def on_fetch(node: RaftNode, fetch: Fetch, now_ms: int, token: Any) -> None:
    """Serve a fetch, or let it wait until there is something to tell."""
    if fetch.offset < 0 or fetch.max_wait_ms < 0 or not 0 <= fetch.last_epoch <= fetch.epoch:
        node.reply(token, node.fetch_error(INVALID_REQUEST))
        return
    error = node.leader_error(fetch.epoch)
    leading = node.leading
    if error != OK or leading is None:
        node.reply(token, node.fetch_error(error))
        return
    diverging, snapshot = _compare(node.log, fetch)
    if diverging is None and snapshot is None:
        if fetch.replica.id == node.key.id:  # another node with this one's id
            node.reply(token, node.fetch_error(UNKNOWN_SERVER_ERROR))
            return
        if fetch.replica.id >= 0:
            leading.followers.fetched(fetch.replica, fetch.offset, node.log.end_offset, now_ms)
            update_high_watermark(node, now_ms)
        if (
            fetch.max_wait_ms
            and fetch.offset >= node.log.end_offset
            and fetch.high_watermark >= leading.high_watermark
            and node.leading is leading
        ):
            leading.parked.append(ParkedFetch(token, fetch, now_ms + fetch.max_wait_ms))
            return
    node.reply(token, _reply(node, fetch, diverging, snapshot))


def _compare(log: LogView, fetch: Fetch) -> tuple[OffsetAndEpoch | None, OffsetAndEpoch | None]:
    """Where a replica's log leaves ours, or the snapshot that it needs instead; neither if it is a prefix of ours."""
    latest, start = log.latest_snapshot, log.start_offset
    if fetch.offset == 0 and (latest is not None or start == 0):
        return None, latest  # a snapshot is quicker than all the records it stands for
    earliest = log.earliest_snapshot
    if earliest is not None and (
        fetch.offset < start
        or (fetch.offset == start and fetch.last_epoch != earliest.epoch)
        or fetch.last_epoch < earliest.epoch
    ):
        if latest is None:
            raise RaftError(f"the log begins at {start}, but there is no snapshot")
        return None, latest
    end = log.end_offset_for_epoch(fetch.last_epoch)
    if earliest is not None and end == (earliest.offset, fetch.last_epoch):
        end = earliest  # the log has nothing of that epoch: what is before it is the snapshot's
    if end.epoch != fetch.last_epoch or end.offset < fetch.offset:
        return end, None
    return None, None


def _reply(
    node: RaftNode, fetch: Fetch, diverging: OffsetAndEpoch | None, snapshot: OffsetAndEpoch | None
) -> FetchReply:
    leading, log = node.leading, node.log
    return FetchReply(
        OK,
        node.epoch,
        node.leader_id,
        leading.high_watermark if leading is not None else -1,
        log.start_offset,
        diverging,
        snapshot,
        node.leader_endpoints,
        diverging is None and snapshot is None and fetch.offset < log.end_offset,
    )


def answer_parked(node: RaftNode, now_ms: int, *, everyone: bool = False) -> None:
    """Answer the fetches that have waited long enough, or that there is something for now."""
    leading = node.leading
    if leading is None or not leading.parked:
        return
    end_offset = node.log.end_offset
    parked, leading.parked = leading.parked, []
    for waiting in parked:
        if everyone or waiting.until_ms <= now_ms or waiting.fetch.offset < end_offset:
            node.reply(waiting.token, _reply(node, waiting.fetch, *_compare(node.log, waiting.fetch)))
        else:
            leading.parked.append(waiting)


def update_high_watermark(node: RaftNode, now_ms: int) -> None:
    """Move the high watermark to what a majority of the voters has, once that covers a record of this epoch."""
    leading = node.leading
    if leading is None:
        return
    offset = leading.followers.majority_offset()
    if offset <= leading.epoch_start_offset or offset <= leading.high_watermark:
        return
    leading.high_watermark = offset
    node.advance_high_watermark(offset)
    membership.on_commit(node, leading)
    answer_parked(node, now_ms, everyone=True)


def on_log_grown(node: RaftNode, leading: Leading, now_ms: int, *, new_voters: bool) -> None:
    """The leader's log has new records, perhaps other voters, which count from now on."""
    if new_voters:
        leading.followers.set_voters(node.voters, now_ms)
        update_high_watermark(node, now_ms)
    answer_parked(node, now_ms)


def on_log_synced(node: RaftNode, leading: Leading, now_ms: int) -> None:
    """The leader's own disk counts as one of the majority."""
    leading.followers.synced(node.synced_offset)
    update_high_watermark(node, now_ms)


def poll_leader(node: RaftNode, now_ms: int) -> None:
    """Resign if that is due; else answer parked fetches, and send BeginQuorumEpoch to silent voters."""
    leading = node.leading
    if leading is None:
        return
    if leading.resigning or node.shutting_down or now_ms >= leading.followers.check_deadline_ms:
        node.resign(now_ms)
        return
    membership.expire(node, leading, now_ms)
    answer_parked(node, now_ms)
    if now_ms < leading.begin_ms:
        return
    period = node.config.fetch_timeout_ms // 2
    leading.begin_ms = now_ms + max(period, 1)
    for key in leading.followers.silent_since(now_ms - period):
        if node.connections.is_free(key.id):
            begin = BeginEpoch(node.epoch, node.key.id, node.me.endpoints, key)
            node.send(key.id, node.voters.endpoints(key.id), begin, now_ms)


def next_deadline_ms(leading: Leading) -> int:
    """When a leader has something to do."""
    deadline = min(leading.followers.check_deadline_ms, leading.begin_ms)
    if leading.change is not None and leading.change.deadline_ms < deadline:
        deadline = leading.change.deadline_ms
    for waiting in leading.parked:
        if waiting.until_ms < deadline:
            deadline = waiting.until_ms
    return deadline
