"""AllocateProducerIds: v0.

Behaviour:  a broker gets a block of producer ids that nobody else has.
Errors:     STALE_BROKER_EPOCH for another incarnation of the broker, or one that is not registered.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.protocol.schemas.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation


@handler(AllocateProducerIdsRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def allocate_producer_ids(
    request: AllocateProducerIdsRequest, ctx: Context, controller: ControllerLoop
) -> AllocateProducerIdsResponse:
    """Give a broker a block of producer ids."""
    block = await controller.submit(
        lambda machine, _: machine.allocate_producer_ids(request.broker_id, request.broker_epoch)
    )
    return AllocateProducerIdsResponse(error_code=0, producer_id_start=block.first, producer_id_len=block.size)
