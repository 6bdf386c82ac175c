"""RegistryCall: v0.

Behaviour:  answers a request to the schema registry that another node handed on. Only nodes of ours ask for it.
Errors:     16 where this node does not lead the registry's log, 14 while it is loaded; the body has the registry's own.
"""

from __future__ import annotations

import json

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.coordinator.registry.calls import RegistryError, Reply, call_of
from kavka.protocol.schemas.registry_call import RegistryCallRequest, RegistryCallResponse
from kavka.runtime.registry import RegistryService, rest_of
from kavka.security.acl import Operation


@handler(RegistryCallRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def registry_call(request: RegistryCallRequest, ctx: Context, registry: RegistryService) -> RegistryCallResponse:
    """Answer for the registry, if this node decides."""
    try:
        reply = await registry.decide(call_of(rest_of(request)))
    except RegistryError as error:
        reply = Reply(error.status, {"error_code": error.code, "message": error.message})
    return RegistryCallResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        status=reply.status,
        body=json.dumps(reply.body).encode(),
    )
