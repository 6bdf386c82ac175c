"""AllocateProducerIds (key 67): a broker reserves a block of producer ids."""

from __future__ import annotations

from kavka.protocol.schema import Int16, Int32, Int64, request, response


@request(key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    broker_id: Int32
    broker_epoch: Int64 = -1


@response(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16
    producer_id_start: Int64
    producer_id_len: Int32
