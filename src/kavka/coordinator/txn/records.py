"""Records of `__transaction_state`: one per transactional id, with the whole state of its transaction."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import Int8, Int16, Int32, Int64, message, record, since, tag


@record(key=0, versions="0", flexible="none")
class TransactionLogKey:
    transactional_id: str


@message
class PartitionsSchema:
    topic: str
    partition_ids: list[Int32]


@record(key=0, versions="0-1", flexible="1+")
class TransactionLogValue:
    producer_id: Int64
    previous_producer_id: Annotated[Int64, since(1), tag(0)] = -1
    next_producer_id: Annotated[Int64, since(1), tag(1)] = -1
    producer_epoch: Int16
    next_producer_epoch: Annotated[Int16, since(1), tag(3)] = -1
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Annotated[Int16, since(1), tag(2)] = 0
