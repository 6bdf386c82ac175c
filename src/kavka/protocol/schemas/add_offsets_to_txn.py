"""AddOffsetsToTxn (key 25): make a group's offsets part of a transaction."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, Int64, request, response


@request(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    group_id: str


@response(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
