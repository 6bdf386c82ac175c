"""RegistryCall: v0.

Behaviour:  answers a request to the schema registry that another node handed on. Only nodes of ours ask for it.
Errors:     16 where this node does not lead the registry's log, 14 while it is loaded; the body has the registry's own.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.protocol.schemas.registry_call import RegistryCallRequest, RegistryCallResponse
from kavka.runtime.registry_door import RegistryDoor
from kavka.security.acl import Operation


@handler(RegistryCallRequest, needs=on_cluster(Operation.CLUSTER_ACTION))
async def registry_call(request: RegistryCallRequest, ctx: Context, door: RegistryDoor) -> RegistryCallResponse:
    """Answer for the registry, if this node decides."""
    registry = await door.open()
    return await registry.handed_on(request)
