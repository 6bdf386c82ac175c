"""Records of committed offsets."""

from __future__ import annotations

from typing import Annotated

from kavka.model.types import Uuid
from kavka.protocol.schema import IGNORABLE, Int32, Int64, between, record, since, tag


@record(key=0, versions="0", flexible="none")
class LegacyOffsetCommitKey:
    group: str
    topic: str
    partition: Int32


@record(key=0, versions="0", flexible="none")
class LegacyOffsetCommitValue:
    offset: Int64
    metadata: str
    commit_timestamp: Int64


@record(key=1, versions="0", flexible="none")
class OffsetCommitKey:
    group: str
    topic: str
    partition: Int32


@record(key=1, versions="0-4", flexible="4+")
class OffsetCommitValue:
    offset: Int64
    leader_epoch: Annotated[Int32, since(3), IGNORABLE] = -1
    metadata: str
    commit_timestamp: Int64
    expire_timestamp: Annotated[Int64, between(1, 1), IGNORABLE] = -1
    topic_id: Annotated[Uuid, since(4), tag(0), IGNORABLE] = Uuid.ZERO


RECORDS = ((LegacyOffsetCommitKey, LegacyOffsetCommitValue), (OffsetCommitKey, OffsetCommitValue))
