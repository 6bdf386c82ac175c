"""Creating and deleting ACLs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kavka.controller.results import MAX_RECORDS, bounded
from kavka.metadata.access import acl_of
from kavka.metadata.image import MetadataImage
from kavka.metadata.records.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from kavka.model.errors import InvalidRequest, KafkaError
from kavka.model.transition import Transition
from kavka.model.types import Uuid
from kavka.security.acl import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Acls,
    Named,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)


def create(there: Acls, acls: Sequence[Acl], new_id: Callable[[], Uuid]) -> Transition[list[KafkaError | None]]:
    """Create ACLs, each by itself; one that is `there` already counts as created."""
    made: set[Acl] = set()
    outcomes: list[KafkaError | None] = []
    records = []
    for acl in acls:
        try:
            _check(acl)
        except InvalidRequest as error:
            outcomes.append(error)
            continue
        outcomes.append(None)
        if acl in there or acl in made:
            continue
        made.add(acl)
        records.append(
            AccessControlEntryRecord(
                id=new_id(),
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    return Transition(outcomes, bounded(records))


def delete(image: MetadataImage, filters: Sequence[AclFilter]) -> Transition[list[list[Acl] | KafkaError]]:
    """Delete the ACLs that filters match; for each filter those that it matched."""
    outcomes: list[list[Acl] | KafkaError] = []
    gone: dict[Uuid, RemoveAccessControlEntryRecord] = {}
    for wanted in filters:
        if wanted.is_unknown:
            outcomes.append(InvalidRequest("the filter has a type that is not known"))
            continue
        found = []
        for record in image.security.acls.values():
            acl = acl_of(record)
            if wanted.matches(acl):
                found.append(acl)
                gone[record.id] = RemoveAccessControlEntryRecord(id=record.id)
        if len(gone) > MAX_RECORDS:
            raise InvalidRequest(f"Cannot remove more than {MAX_RECORDS} acls in a single delete operation.")
        outcomes.append(found)
    return Transition(outcomes, tuple(gone.values()))


def _check(acl: Acl) -> None:
    """Raise InvalidRequest for an ACL that would mean nothing."""
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise InvalidRequest("Invalid empty resource name")
    if ResourceType.of(acl.resource_type) in (None, ResourceType.ANY):
        raise InvalidRequest(f"Invalid resourceType {_name(ResourceType.of(acl.resource_type))}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequest(f"Invalid patternType {_name(PatternType.of(acl.pattern_type))}")
    if Operation.of(acl.operation) in (None, Operation.ANY):
        raise InvalidRequest(f"Invalid operation {_name(Operation.of(acl.operation))}")
    if acl.permission_type not in (PermissionType.ALLOW, PermissionType.DENY):
        raise InvalidRequest(f"Invalid permissionType {_name(PermissionType.of(acl.permission_type))}")
    if ":" not in acl.principal:
        raise InvalidRequest(
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )


def _name(known: Named | None) -> str:
    return "UNKNOWN" if known is None else known.name
