"""`kavka acls`: list, add and remove ACLs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Annotated

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, run
from kavka.cli.output import CommandError, Output, note, print_rows
from kavka.client import ANY_ACL, Acl, AclFilter, AclOperation, AclPattern, AclPermission, AclResource, Admin
from kavka.security.acl import CLUSTER_NAME

app = group("Look at and change who may do what.")

COLUMNS = ["resource", "name", "pattern", "principal", "host", "operation", "permission"]

Names = list[str] | None
TopicOption = Annotated[Names, typer.Option("--topic", metavar="NAME", help="A topic; * means all.")]
GroupOption = Annotated[Names, typer.Option("--group", metavar="NAME", help="A group; * means all.")]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
TransactionalOption = Annotated[Names, typer.Option("--transactional-id", metavar="ID", help="A transactional id.")]
TokenOption = Annotated[Names, typer.Option("--delegation-token", metavar="ID", help="A delegation token.")]
UserOption = Annotated[
    Names, typer.Option("--user", metavar="PRINCIPAL", help="Whom tokens are made for or looked at: User:name.")
]
OperationOption = Annotated[
    list[str] | None, typer.Option("--operation", metavar="NAME", help="read, write, describe, all, ...; repeatable.")
]
PrincipalOption = Annotated[
    list[str] | None, typer.Option("--principal", metavar="PRINCIPAL", help="Only ACLs for this principal; repeatable.")
]
HostOption = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Only ACLs for this host address.")]


class AddedPatternType(StrEnum):
    """How an ACL's name stands for names of resources."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class Meant(StrEnum):
    """Which ACLs a name matches."""

    ANY = "any"
    MATCH = "match"
    LITERAL = "literal"
    PREFIXED = "prefixed"


MeantOption = Annotated[
    Meant, typer.Option("--pattern", help="Rules that have the name (any), that concern it (match), or of a kind.")
]


def _resources(
    topics: Names, groups: Names, cluster: bool, transactional_ids: Names, tokens: Names, users: Names
) -> list[tuple[AclResource, str]]:
    """What the options name."""
    named = [
        (AclResource.TOPIC, topics),
        (AclResource.GROUP, groups),
        (AclResource.CLUSTER, [CLUSTER_NAME] if cluster else None),
        (AclResource.TRANSACTIONAL_ID, transactional_ids),
        (AclResource.DELEGATION_TOKEN, tokens),
        (AclResource.USER, users),
    ]
    return [(resource, name) for resource, names in named for name in names or ()]


@app.command("list")
def list_acls(
    topic: TopicOption = None,
    group: GroupOption = None,
    cluster: ClusterOption = False,
    transactional_id: TransactionalOption = None,
    delegation_token: TokenOption = None,
    user: UserOption = None,
    pattern: MeantOption = Meant.ANY,
    principal: PrincipalOption = None,
    operation: OperationOption = None,
    host: HostOption = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """List ACLs: all, or those for some resources and principals.

    Examples:

    - `kavka acls list`
    - `kavka acls list --topic orders --pattern match` (every rule that concerns this topic)
    """
    resources = _resources(topic, group, cluster, transactional_id, delegation_token, user)
    filters = _filters(resources, pattern, principal, operation, host)

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            found = {acl for wanted in filters for acl in await admin.describe_acls(wanted)}
        _show(output, found)

    run(work())


@app.command("add")
def add_acls(
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="PRINCIPAL", help="Who may: User:name, User:*; repeatable.")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option("--deny", metavar="PRINCIPAL", help="Who may not; repeatable.")
    ] = None,
    operation: OperationOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    cluster: ClusterOption = False,
    transactional_id: TransactionalOption = None,
    delegation_token: TokenOption = None,
    user: UserOption = None,
    producer: Annotated[
        bool, typer.Option("--producer", help="What producers need on the topics and transactional ids.")
    ] = False,
    consumer: Annotated[bool, typer.Option("--consumer", help="What consumers need on the topics and groups.")] = False,
    pattern: Annotated[
        AddedPatternType, typer.Option("--pattern", help="Whether names are whole names or what names begin with.")
    ] = AddedPatternType.LITERAL,
    host: Annotated[
        list[str] | None, typer.Option("--host", metavar="ADDRESS", show_default="*", help="From where; repeatable.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Add ACLs: each principal, operation and resource that is named, with each other.

    Examples:

    - `kavka acls add --allow User:alice --operation read --operation write --topic orders`
    - `kavka acls add --allow User:shop --producer --topic shop- --pattern prefixed`
    - `kavka acls add --allow User:billing --consumer --topic orders --group billing`
    """
    resources = _resources(topic, group, cluster, transactional_id, delegation_token, user)
    rights = list(_rights(resources, operation, producer=producer, consumer=consumer))
    kind = AclPattern[pattern.name]
    acls = [
        Acl(resource, name, AclPattern.LITERAL if resource == AclResource.CLUSTER else kind, each, who, where, may)
        for may, principals in ((AclPermission.ALLOW, allow), (AclPermission.DENY, deny))
        for who in principals or ()
        for where in host or ["*"]
        for resource, name, each in rights
    ]
    if not acls:
        raise CommandError("name whom (--allow, --deny), what (--topic, ...) and the operations", 2)

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            await admin.create_acls(acls)
        _show(output, acls)

    run(work())


@app.command("remove")
def remove_acls(
    topic: TopicOption = None,
    group: GroupOption = None,
    cluster: ClusterOption = False,
    transactional_id: TransactionalOption = None,
    delegation_token: TokenOption = None,
    user: UserOption = None,
    pattern: MeantOption = Meant.ANY,
    principal: PrincipalOption = None,
    operation: OperationOption = None,
    host: HostOption = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it, instead of showing what would be.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Remove the ACLs that `list` shows for the same options; only shows them unless `--execute` is given.

    Example: `kavka acls remove --principal User:alice --topic orders --execute`
    """
    resources = _resources(topic, group, cluster, transactional_id, delegation_token, user)
    filters = _filters(resources, pattern, principal, operation, host)

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            if execute:
                found = set(await admin.delete_acls(*filters))
            else:
                found = {acl for wanted in filters for acl in await admin.describe_acls(wanted)}
        _show(output, found)
        if not execute:
            note("nothing was changed: add --execute to do it")

    run(work())


def _rights(
    resources: Iterable[tuple[AclResource, str]], operations: list[str] | None, *, producer: bool, consumer: bool
) -> Iterator[tuple[AclResource, str, AclOperation]]:
    """The operations on each resource: those that are named, and those of a role."""
    wanted: dict[AclResource, list[AclOperation]] = {}
    if producer:
        wanted[AclResource.TOPIC] = [AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE]
        wanted[AclResource.TRANSACTIONAL_ID] = [AclOperation.WRITE, AclOperation.DESCRIBE]
    if consumer:
        wanted.setdefault(AclResource.TOPIC, []).extend([AclOperation.READ, AclOperation.DESCRIBE])
        wanted[AclResource.GROUP] = [AclOperation.READ]
    named = _operations(operations)
    for resource, name in resources:
        chosen = dict.fromkeys([*named, *wanted.get(resource, ())])
        if not chosen:
            raise CommandError(f"no operation is named for {resource.title} {name}", 2)
        yield from ((resource, name, each) for each in chosen)


def _filters(
    resources: Iterable[tuple[AclResource, str]],
    pattern: Meant,
    principals: list[str] | None,
    operations: list[str] | None,
    host: str | None,
) -> list[AclFilter]:
    """A filter for each resource, principal and operation that is named."""
    names = [
        ANY_ACL._replace(resource_type=resource, resource_name=name, pattern_type=AclPattern[pattern.name])
        for resource, name in resources
    ]
    return [
        wanted._replace(principal=who, operation=operation, host=host)
        for wanted in names or [ANY_ACL]
        for who in principals or (None,)
        for operation in _operations(operations) or (AclOperation.ANY,)
    ]


def _operations(names: list[str] | None) -> list[AclOperation]:
    """Operations by Kafka's names, with any case and either separator."""
    found: list[AclOperation] = []
    for name in names or ():
        key = "".join(letter for letter in name.upper() if letter.isalpha())
        known = {each.name.replace("_", ""): each for each in AclOperation if each != AclOperation.ANY}
        if key not in known:
            allowed = ", ".join(each.name.lower().replace("_", "-") for each in known.values())
            raise typer.BadParameter(f"{name!r} is none of {allowed}", param_hint="--operation")
        found.append(known[key])
    return found


def _show(output: Output, acls: Iterable[Acl]) -> None:
    rows = [
        {
            "resource": AclResource(acl.resource_type).title,
            "name": acl.resource_name,
            "pattern": AclPattern(acl.pattern_type).name,
            "principal": acl.principal,
            "host": acl.host,
            "operation": AclOperation(acl.operation).title,
            "permission": AclPermission(acl.permission_type).name,
        }
        for acl in sorted(acls)
    ]
    print_rows(output, COLUMNS, rows)
