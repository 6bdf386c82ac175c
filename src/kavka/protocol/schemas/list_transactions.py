"""ListTransactions (key 66): list transactional ids."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import Int16, Int32, Int64, message, request, response, since


@request(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    state_filters: list[str]
    producer_id_filters: list[Int64]
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[str | None, since(2)] = None


@message
class TransactionState:
    transactional_id: str
    producer_id: Int64
    transaction_state: str


@response(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    unknown_state_filters: list[str]
    transaction_states: list[TransactionState]
