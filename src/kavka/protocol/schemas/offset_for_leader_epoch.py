"""OffsetForLeaderEpoch (key 23): ask where a leader epoch ends (KIP-101, KIP-320)."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int16, Int32, Int64, message, request, response, since


@message
class OffsetForLeaderPartition:
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


@message
class OffsetForLeaderTopic:
    topic: str
    partitions: list[OffsetForLeaderPartition]


@request(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    replica_id: Annotated[Int32, since(3), IGNORABLE] = -2
    topics: list[OffsetForLeaderTopic]


@message
class EpochEndOffset:
    error_code: Int16
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@message
class OffsetForLeaderTopicResult:
    topic: str
    partitions: list[EpochEndOffset]


@response(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult]
