"""DescribeAcls: v1-3.

Behaviour:  the ACLs that a filter matches, grouped by resource.
Errors:     42 for a filter with types that are not known; 54 where no authorizer is configured.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.gate import Gate
from kavka.broker.handlers.marks import handler, on_cluster
from kavka.model.errors import InvalidRequest, SecurityDisabled
from kavka.protocol.schemas.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kavka.security.acl import AclFilter, Operation


@handler(DescribeAclsRequest, needs=on_cluster(Operation.DESCRIBE))
async def describe_acls(request: DescribeAclsRequest, ctx: Context, gate: Gate) -> DescribeAclsResponse:
    """Show access rules."""
    if gate.authorizer is None:
        raise SecurityDisabled("No Authorizer is configured on the broker")
    wanted = AclFilter(
        request.resource_type_filter,
        request.resource_name_filter,
        request.pattern_type_filter,
        request.operation,
        request.principal_filter,
        request.host_filter,
        request.permission_type,
    )
    if wanted.is_unknown:
        raise InvalidRequest("DescribeAclsRequest contains UNKNOWN elements")
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in gate.rules.acls:
        if not wanted.matches(acl):
            continue
        resource = resources.setdefault(
            (acl.resource_type, acl.resource_name, acl.pattern_type),
            DescribeAclsResource(
                resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type, acls=[]
            ),
        )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    return DescribeAclsResponse(error_code=0, error_message=None, resources=list(resources.values()))
