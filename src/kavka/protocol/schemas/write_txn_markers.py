"""WriteTxnMarkers (key 27): write the markers that end a transaction into partitions."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import IGNORABLE, Int8, Int16, Int32, Int64, message, request, response, since


@message
class WritableTxnMarkerTopic:
    name: str
    partition_indexes: list[Int32]


@message
class WritableTxnMarker:
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: Int32
    transaction_version: Annotated[Int8, since(2), IGNORABLE] = 0


@request(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker]


@message
class WritableTxnMarkerPartitionResult:
    partition_index: Int32
    error_code: Int16


@message
class WritableTxnMarkerTopicResult:
    name: str
    partitions: list[WritableTxnMarkerPartitionResult]


@message
class WritableTxnMarkerResult:
    producer_id: Int64
    topics: list[WritableTxnMarkerTopicResult]


@response(key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult]
