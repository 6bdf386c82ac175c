"""InitProducerId (key 22): get a producer id and epoch, and take over a transactional id."""

from __future__ import annotations

from typing import Annotated

from kavka.protocol.schema import Int16, Int32, Int64, request, response, since


@request(key=22, versions="0-6", flexible="2+", latest_version_unstable=True)
class InitProducerIdRequest:
    transactional_id: str | None
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, since(3)] = -1
    producer_epoch: Annotated[Int16, since(3)] = -1
    enable2_pc: Annotated[bool, since(6)] = False
    keep_prepared_txn: Annotated[bool, since(6)] = False


@response(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id: Int64 = -1
    producer_epoch: Int16
    ongoing_txn_producer_id: Annotated[Int64, since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[Int16, since(6)] = -1
