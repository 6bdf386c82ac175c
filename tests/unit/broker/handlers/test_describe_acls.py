"""The APIs of ACLs: created, shown and deleted; refused where no authorizer is configured."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.broker.gate import Gate
from kavka.broker.handlers.create_acls import create_acls
from kavka.broker.handlers.delete_acls import delete_acls
from kavka.broker.handlers.describe_acls import describe_acls
from kavka.metadata.delta import MetadataDelta
from kavka.model.errors import InvalidRequest, SecurityDisabled
from kavka.protocol.schemas.create_acls import AclCreation, CreateAclsRequest
from kavka.protocol.schemas.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kavka.protocol.schemas.describe_acls import DescribeAclsRequest
from kavka.security.acl import Operation, PatternType, PermissionType, ResourceType
from kavka.security.authorizer import Authorizer

READ = AclCreation(
    resource_type=ResourceType.TOPIC,
    resource_name="orders",
    resource_pattern_type=PatternType.LITERAL,
    principal="User:alice",
    host="*",
    operation=Operation.READ,
    permission_type=PermissionType.ALLOW,
)
BAD = AclCreation(
    resource_type=ResourceType.TOPIC,
    resource_name="",
    resource_pattern_type=PatternType.LITERAL,
    principal="User:alice",
    host="*",
    operation=Operation.READ,
    permission_type=PermissionType.ALLOW,
)
EVERY: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": PermissionType.ANY,
}


@pytest.fixture
def gate():
    return Gate(Authorizer())


def test_rules_are_created_shown_and_deleted(loop, ask, gate):
    created = ask(create_acls, CreateAclsRequest(creations=[READ, BAD]), 3, gate, loop)
    assert [row.error_code for row in created.results] == [0, InvalidRequest.code]
    gate.apply(loop.image, MetadataDelta())
    (resource,) = ask(describe_acls, DescribeAclsRequest(**EVERY), 3, gate).resources
    assert (resource.resource_name, [acl.principal for acl in resource.acls]) == ("orders", ["User:alice"])
    deleted = ask(delete_acls, DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERY)]), 3, gate, loop)
    assert [acl.resource_name for acl in deleted.filter_results[0].matching_acls] == ["orders"]
    gate.apply(loop.image, MetadataDelta())
    assert ask(describe_acls, DescribeAclsRequest(**EVERY), 3, gate).resources == []


def test_a_filter_of_unknown_types_is_refused(loop, ask, gate):
    wrong = {**EVERY, "operation": 99}
    deleted = ask(delete_acls, DeleteAclsRequest(filters=[DeleteAclsFilter(**wrong)]), 3, gate, loop)
    assert deleted.filter_results[0].error_code == InvalidRequest.code
    with pytest.raises(InvalidRequest):
        ask(describe_acls, DescribeAclsRequest(**wrong), 3, gate)


def test_without_an_authorizer_there_are_no_rules(loop, ask):
    for handler, request, services in (
        (describe_acls, DescribeAclsRequest(**EVERY), ()),
        (create_acls, CreateAclsRequest(creations=[READ]), (loop,)),
        (delete_acls, DeleteAclsRequest(filters=[]), (loop,)),
    ):
        with pytest.raises(SecurityDisabled):
            ask(handler, request, 3, Gate(None), *services)
