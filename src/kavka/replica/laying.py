"""Logs laid into the directory of a node that does not run: the node finds them as if it had written them."""

from __future__ import annotations

from collections.abc import Iterable

from kavka.model.types import TopicPartition, Uuid
from kavka.records.batch import scan
from kavka.replica.tier import StateBefore
from kavka.storage.config import LogConfig
from kavka.storage.disk import Disk
from kavka.storage.log import Log


def lay_after(
    disk: Disk,
    folder: str,
    tp: TopicPartition,
    topic_id: Uuid,
    state: StateBefore,
    log_start_offset: int,
    now_ms: int,
) -> None:
    """An empty log that begins after what is in tiered storage, knowing what the records there would have told it."""
    made = Log.create(disk, f"{folder}/{tp}", tp, topic_id, LogConfig(), now_ms)
    made.start_after(state.next_offset, log_start_offset, state.epochs, state.producers, now_ms)
    made.close()


def lay_with(disk: Disk, folder: str, tp: TopicPartition, topic_id: Uuid, batches: Iterable[bytes], now_ms: int) -> int:
    """A log with these batches, written in leader epoch 0; where it ends."""
    made = Log.create(disk, f"{folder}/{tp}", tp, topic_id, LogConfig(), now_ms)
    for batch in batches:
        made.append_as_leader(batch, scan(batch), 0, now_ms)
    made.close()
    return made.log_end_offset
