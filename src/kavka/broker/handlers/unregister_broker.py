"""UnregisterBroker: v0.

Behaviour:  unregisters a broker; if it still runs, it must register anew. It leaves every ISR.
Errors:     BROKER_ID_NOT_REGISTERED.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.protocol.schemas.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation


@handler(UnregisterBrokerRequest, needs=on_cluster(Operation.ALTER))
async def unregister_broker(
    request: UnregisterBrokerRequest, ctx: Context, controller: ControllerLoop
) -> UnregisterBrokerResponse:
    """Forget a broker."""
    await controller.submit(lambda machine, _: machine.unregister_broker(request.broker_id))
    return UnregisterBrokerResponse(error_code=0, error_message=None)
