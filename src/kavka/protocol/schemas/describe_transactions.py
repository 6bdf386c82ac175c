"""DescribeTransactions (key 65): show the state of transactional ids."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, Int64, message, request, response


@request(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    transactional_ids: list[str]


@message
class TopicData:
    topic: str
    partitions: list[Int32]


@message
class TransactionState:
    error_code: Int16
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: Int32
    transaction_start_time_ms: Int64
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TopicData]


@response(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState]
