"""ElectLeaders (key 43): elect preferred leaders, or unclean ones."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import Int8, Int16, Int32, message, request, response, since


@message
class TopicPartitions:
    topic: str
    partitions: list[Int32]


@request(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    election_type: Annotated[Int8, since(1)] = 0
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: Int32 = 60000


@message
class PartitionResult:
    partition_id: Int32
    error_code: Int16
    error_message: str | None


@message
class ReplicaElectionResult:
    topic: str
    partition_result: list[PartitionResult]


@response(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(1)] = 0
    replica_election_results: list[ReplicaElectionResult]
