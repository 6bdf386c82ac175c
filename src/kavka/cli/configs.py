"""`kavka configs`: describe and alter the configs of topics, brokers, groups and client metrics."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, key_values, run
from kavka.cli.output import Output, print_json, print_rows, write_line
from kavka.client import Admin, ConfigEntry, ConfigResource, ConfigSource, ResourceType

app = group("Look at and change configs.")


class EntityType(StrEnum):
    """What has configs."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"
    CLIENT_METRICS = "client-metrics"


EntityTypeArgument = Annotated[EntityType, typer.Argument(help="What has the configs.")]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help='Its name; a broker\'s is its node id, "" means all brokers.')
]


@app.command("describe")
def describe_configs(
    kind: EntityTypeArgument,
    name: NameArgument,
    key: Annotated[
        list[str] | None, typer.Option("--key", "-k", help="Only this config; may be repeated. Implies --all.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also those that have their default.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Show configs: those that were changed, or all.

    Example: `kavka configs describe topic orders --all`
    """
    resource = _resource(kind, name)

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            found = await admin.describe_configs(resource, names=key)
        rows = [_row(entry) for _, entry in sorted(found[resource].items()) if everything or key or _changed(entry)]
        print_rows(output, ["config", "value", "source"], rows)

    run(work())


@app.command("alter")
def alter_configs(
    kind: EntityTypeArgument,
    name: NameArgument,
    set_: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="Set a config; may be repeated.")
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", "-d", metavar="KEY", help="Return to the default; may be repeated.")
    ] = None,
    append: Annotated[
        list[str] | None, typer.Option("--append", metavar="KEY=VALUE", help="Add to a list; may be repeated.")
    ] = None,
    subtract: Annotated[
        list[str] | None, typer.Option("--subtract", metavar="KEY=VALUE", help="Take from a list; may be repeated.")
    ] = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Only check whether it could be done.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Change configs.

    Example: `kavka configs alter topic orders --set retention.ms=3600000 --delete cleanup.policy`
    """
    if not (set_ or delete or append or subtract):
        raise typer.BadParameter("give at least one of --set, --delete, --append, --subtract")
    resource = _resource(kind, name)
    setting = key_values(set_ or [], "--set")
    adding = key_values(append or [], "--append")
    taking = key_values(subtract or [], "--subtract")

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            await admin.alter_configs(
                resource,
                set=setting,
                delete=delete or [],
                append=adding,
                subtract=taking,
                validate_only=validate_only,
            )
        if output is Output.JSON:
            print_json({"kind": kind.value, "name": name, "altered": not validate_only})
        else:
            write_line(f"configs of {kind.value} {name} {'could be changed' if validate_only else 'changed'}")

    run(work())


def _resource(kind: EntityType, name: str) -> ConfigResource:
    if kind is EntityType.BROKER and name and not name.isdecimal():
        raise typer.BadParameter(f"a broker's name is its node id, not {name!r}", param_hint="NAME")
    return ConfigResource(ResourceType[kind.name], name)


def _changed(entry: ConfigEntry) -> bool:
    return entry.source not in (ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER, ConfigSource.UNKNOWN)


def _row(entry: ConfigEntry) -> dict[str, object]:
    return {
        "config": entry.name,
        "value": "(sensitive)" if entry.sensitive else entry.value,
        "source": entry.source.name.lower().replace("_", " "),
        "read_only": entry.read_only,
        "type": entry.type.name.lower(),
    }
