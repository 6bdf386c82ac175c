"""`kavka quotas`: how much users, client ids and addresses may use."""

from __future__ import annotations

from typing import Annotated

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, key_values, run
from kavka.cli.output import Output, print_json, print_rows, write_line
from kavka.client import DEFAULT, Admin, QuotaEntity

app = group("Look at and change how much clients may use.")

User = Annotated[str | None, typer.Option("--user", "-u", help='A user; "" means those without a quota of their own.')]
ClientId = Annotated[
    str | None, typer.Option("--client-id", "-c", help='A client id; "" means those without a quota of their own.')
]
Ip = Annotated[
    str | None, typer.Option("--ip", help='An address or a host; "" means those without a quota of their own.')
]


@app.command("describe")
def describe_quotas(
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    strict: Annotated[bool, typer.Option("--strict", help="Only quotas for exactly what is given.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Show quotas: all, or those of a user, a client id or an address.

    Example: `kavka quotas describe --user alice`
    """
    entity = _entity(user, client_id, ip)

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            found = await admin.describe_quotas(entity, strict=strict)
        rows: list[dict[str, object]] = [
            {**{kind: str(name) for kind, name in entity.parts}, "quota": key, "value": value}
            for entity, quotas in sorted(found.items(), key=lambda item: str(item[0]))
            for key, value in sorted(quotas.items())
        ]
        print_rows(output, ["user", "client-id", "ip", "quota", "value"], rows)

    run(work())


@app.command("alter")
def alter_quotas(
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="QUOTA=VALUE", help="Set a quota; may be repeated."),
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", "-d", metavar="QUOTA", help="Remove a quota; may be repeated.")
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Only check whether it could be done.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Set and remove quotas.

    Quotas are producer_byte_rate and consumer_byte_rate (bytes a second), request_percentage (of the time of a node),
    controller_mutation_rate (partitions created or deleted a second), and for addresses connection_creation_rate
    (connections a second).

    Example: `kavka quotas alter --user alice --set producer_byte_rate=1048576`
    """
    entity = _entity(user, client_id, ip)
    if not entity.parts:
        raise typer.BadParameter("say whom it is for: --user, --client-id or --ip")
    if not (set_ or delete):
        raise typer.BadParameter("give at least one of --set, --delete")
    changes: dict[str, float | None] = {
        key: _number(key, text) for key, text in key_values(set_ or [], "--set").items()
    }
    changes |= dict.fromkeys(delete or [])

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            await admin.alter_quotas(entity, changes, validate_only=validate_only)
        if output is Output.JSON:
            print_json({**{kind: str(name) for kind, name in entity.parts}, "altered": not validate_only})
        else:
            write_line(f"quotas of {entity} {'could be changed' if validate_only else 'changed'}")

    run(work())


def _entity(user: str | None, client_id: str | None, ip: str | None) -> QuotaEntity:
    return QuotaEntity(*(DEFAULT if name == "" else name for name in (user, client_id, ip)))


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{key}: {text!r} is not a number", param_hint="--set") from None
