"""DeleteAcls: v1-3.

Behaviour:  deletes all ACLs that a filter matches, and says which those were.
Errors:     one per filter: 42 types that are not known, or more ACLs than can be deleted at once; 54 no authorizer.
"""

from __future__ import annotations

from kavka.broker.context import Context
from kavka.broker.gate import Gate
from kavka.broker.handlers.marks import Parts, handler, on_cluster
from kavka.model.errors import KafkaError, SecurityDisabled
from kavka.protocol.schemas.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kavka.quorum.controller_loop import ControllerLoop
from kavka.security.acl import Acl, AclFilter, Operation


@handler(DeleteAclsRequest, on_cluster(Operation.ALTER), Parts(("filters",), ("filter_results",)))
async def delete_acls(
    request: DeleteAclsRequest, ctx: Context, gate: Gate, controller: ControllerLoop
) -> DeleteAclsResponse:
    """End access rules."""
    if gate.authorizer is None:
        raise SecurityDisabled("No Authorizer is configured.")
    filters = [
        AclFilter(
            acl_filter.resource_type_filter,
            acl_filter.resource_name_filter,
            acl_filter.pattern_type_filter,
            acl_filter.operation,
            acl_filter.principal_filter,
            acl_filter.host_filter,
            acl_filter.permission_type,
        )
        for acl_filter in request.filters
    ]
    outcomes = await controller.submit(lambda machine, _: machine.delete_acls(filters))
    return DeleteAclsResponse(filter_results=list(map(result, outcomes)))


def result(outcome: list[Acl] | KafkaError) -> DeleteAclsFilterResult:
    """What became of a filter."""
    if isinstance(outcome, KafkaError):
        return DeleteAclsFilterResult(error_code=outcome.code, error_message=str(outcome), matching_acls=[])
    return DeleteAclsFilterResult(error_code=0, error_message=None, matching_acls=list(map(ended, outcome)))


def ended(acl: Acl) -> DeleteAclsMatchingAcl:
    """A rule that is no longer in force."""
    return DeleteAclsMatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
