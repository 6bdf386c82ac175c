"""CreateAcls: v1-3.

Behaviour:  each ACL stands or falls by itself; one that is there already counts as created.
Errors:     one per ACL: 42 one that would mean nothing, 54 no authorizer is configured.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.gate import Gate
from kavka.broker.handlers.marks import Parts, handler, on_cluster
from kavka.model.errors import SecurityDisabled
from kavka.protocol.schemas.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Acl, Operation


@handler(CreateAclsRequest, on_cluster(Operation.ALTER), Parts(("creations",), ("results",), 200))
async def create_acls(
    request: CreateAclsRequest, ctx: Context, gate: Gate, controller: ControllerLoop
) -> CreateAclsResponse:
    """Put access rules in force."""
    if gate.authorizer is None:
        raise SecurityDisabled("No Authorizer is configured.")
    wanted = [
        Acl(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.operation,
            creation.principal,
            creation.host,
            creation.permission_type,
        )
        for creation in request.creations
    ]
    outcomes = await controller.submit(lambda machine, _: machine.create_acls(wanted))
    results = [
        AclCreationResult(error_code=0, error_message=None)
        if error is None
        else AclCreationResult(error_code=error.code, error_message=str(error))
        for error in outcomes
    ]
    return CreateAclsResponse(results=results)
