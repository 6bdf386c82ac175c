"""ControllerRegistration: v0.

Behaviour:  a controller says where it is reached and which features it supports, at each of its starts.
Errors:     UNSUPPORTED_VERSION before metadata.version 3.7-IV0; INVALID_REGISTRATION for a listener of no known kind.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.broker_registration import endpoints, supported
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.controller.brokers import ControllerRequest
from kavka.protocol.schemas.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Operation


@handler(ControllerRegistrationRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def controller_registration(
    request: ControllerRegistrationRequest, ctx: Context, controller: ControllerLoop
) -> ControllerRegistrationResponse:
    """Register a controller."""
    wanted = ControllerRequest(
        request.controller_id, request.incarnation_id, endpoints(request.listeners), supported(request.features)
    )
    await controller.submit(lambda machine, _: machine.register_controller(wanted))
    return ControllerRegistrationResponse(error_code=0, error_message=None)
