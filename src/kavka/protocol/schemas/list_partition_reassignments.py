"""ListPartitionReassignments (key 46): list replicas on the move."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, message, request, response


@message
class ListPartitionReassignmentsTopics:
    name: str
    partition_indexes: list[Int32]


@request(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@message
class OngoingPartitionReassignment:
    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


@message
class OngoingTopicReassignment:
    name: str
    partitions: list[OngoingPartitionReassignment]


@response(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: str | None
    topics: list[OngoingTopicReassignment]
