"""Records of `__share_group_state`: the whole state of a share partition now and then, and what changed in between."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, OWN_TAGS, Int8, Int16, Int32, Int64, message, record, tag
from kavka.protocol.schemas.read_share_group_state import DeadLetterProducer


@record(key=0, versions="0", flexible="none")
class ShareSnapshotKey:
    group_id: str
    topic_id: Uuid
    partition: Int32


@message
class StateBatch:
    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


@record(key=0, versions="0", flexible="0+")
class ShareSnapshotValue:
    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, tag(0)] = -1
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: list[StateBatch]
    dead_letters: Annotated[DeadLetterProducer | None, tag(OWN_TAGS), IGNORABLE] = None


@record(key=1, versions="0", flexible="none")
class ShareUpdateKey:
    group_id: str
    topic_id: Uuid
    partition: Int32


@record(key=1, versions="0", flexible="0+")
class ShareUpdateValue:
    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, tag(0)] = -1
    state_batches: list[StateBatch]
    dead_letters: Annotated[DeadLetterProducer | None, tag(OWN_TAGS), IGNORABLE] = None
