"""Who may do what: the ACLs, and the question "may X do Y?"."""

from __future__ import annotations

from typing import Final, TypeVar

from starlette.responses import Response

from kavka.client import Acl, AclOperation, AclPattern, AclPermission, AclResource, KafkaError
from kavka.console.visits import Visit, explain
from kavka.model.errors import SecurityDisabled

MOST_ROWS: Final = 500
RESOURCES: Final[list[AclResource]] = [each for each in AclResource if each != AclResource.ANY]
_EITHER: Final = (AclOperation.ANY, AclOperation.ALL)
OPERATIONS: Final[list[AclOperation]] = [each for each in AclOperation if each not in _EITHER]
CLUSTER: Final = "kafka-cluster"
E = TypeVar("E", AclResource, AclOperation)


async def show(visit: Visit) -> Response:
    """The page, with the verdict if something is asked."""
    admin, search = visit.admin, visit.asked("search").strip()
    rules: list[Acl] = []
    problem, off = None, False
    try:
        rules = await admin.describe_acls()
    except SecurityDisabled:
        off = True
    except KafkaError as error:
        problem = explain(error, visit.seat.user)
    found = [_row(rule) for rule in rules]
    found = [row for row in found if search.lower() in " ".join(row.values()).lower()]
    principal, name = visit.asked("principal").strip(), visit.asked("name").strip()
    resource = _of(RESOURCES, visit.asked("resource"), AclResource.TOPIC)
    operation = _of(OPERATIONS, visit.asked("operation"), AclOperation.READ)
    verdict, verdict_problem = None, None
    if principal:
        if ":" not in principal:
            principal = f"User:{principal}"
        try:
            target = CLUSTER if resource == AclResource.CLUSTER else name
            verdict = await admin.may(principal, operation, resource, target, visit.asked("host").strip() or "*")
        except KafkaError as error:
            verdict_problem = explain(error, visit.seat.user)
    return visit.page(
        "security.html",
        rows=found[:MOST_ROWS],
        total=len(found),
        off=off,
        problem=problem,
        search=search,
        principal=principal,
        name=name,
        host=visit.asked("host").strip(),
        resource=resource,
        operation=operation,
        resources=RESOURCES,
        operations=OPERATIONS,
        verdict=verdict,
        verdict_problem=verdict_problem,
    )


def _of(known: list[E], text: str, default: E) -> E:
    return next((each for each in known if each.name.lower() == text.lower()), default)


def _row(rule: Acl) -> dict[str, str]:
    return {
        "principal": rule.principal,
        "permission": AclPermission(rule.permission_type).name.lower(),
        "operation": AclOperation(rule.operation).title,
        "resource": AclResource(rule.resource_type).title,
        "name": rule.resource_name,
        "pattern": AclPattern(rule.pattern_type).name.lower(),
        "host": rule.host,
    }
