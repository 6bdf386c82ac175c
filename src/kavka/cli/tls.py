"""`kavka tls`: certificates to try things with, and have nodes read theirs again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, run
from kavka.cli.output import CommandError, Output, print_rows, tell

app = group("Make certificates for a laptop, and have nodes read theirs again.")

KEYSTORE = "ssl.keystore.location"


@app.command("demo-ca")
def demo_ca(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where everything goes; made if it is not there.")],
    hosts: Annotated[
        str, typer.Option("--hosts", metavar="HOST,...", help="The names and addresses of the nodes.")
    ] = "localhost,127.0.0.1",
    clients: Annotated[
        str, typer.Option("--clients", metavar="NAME,...", help="Clients that get a certificate each.")
    ] = "",
    days: Annotated[int, typer.Option("--days", min=1, max=825, help="How long certificates last.")] = 365,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a certificate authority and certificates for nodes and clients, in PEM.

    For trying things out: the authority's own key is thrown away, so that nobody can ever have it sign another one.

    Example: `kavka tls demo-ca certificates --hosts localhost --clients alice`
    """
    try:
        from kavka.testing.authority import Authority
    except ImportError:
        raise CommandError("certificates are made with `pip install 'kavka[tls]'`") from None
    names = [name for part in clients.split(",") if (name := part.strip())]
    taken = sorted({"node", "ca"} & set(names)) or [name for name in names if not name.isidentifier()]
    if taken:
        raise CommandError(f"--clients: {taken[0]} is no name for a file of a client", 2)
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority("Kavka demo authority", days)
    files = {"ca.pem": authority.pem}
    nodes = [host for part in hosts.split(",") if (host := part.strip())]
    files["node.pem"] = authority.issue("kavka", nodes, days).pem
    files |= {f"{name}.pem": authority.issue(name, [], days).pem for name in names}
    for name, text in files.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="ascii")
        tell(output, str(path), file=str(path))


@app.command()
def reload(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = 30.0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Have every broker read its key stores and trust stores again.

    Nodes look at the files every second by themselves, and at SIGHUP; this says at once whether new ones can be used. A
    broker that cannot use them goes on with those before.

    Example: `kavka tls reload`
    """
    from kavka.client import ConfigResource, ResourceType
    from kavka.client.admin import Admin
    from kavka.client.admin_configs import ConfigSource
    from kavka.model.errors import KafkaError

    async def work() -> list[dict[str, object]]:
        rows: list[dict[str, object]] = []
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            for node in (await admin.describe_cluster()).nodes:
                broker = ConfigResource(ResourceType.BROKER, str(node.id))
                entries = (await admin.describe_configs(broker))[broker]
                for name in listener_names(entries["listeners"].value or ""):
                    key = f"listener.name.{name.lower()}.{KEYSTORE}"
                    own = entries.get(key)
                    location = own.value if own is not None else entries[KEYSTORE].value
                    if not location:
                        continue
                    error = None
                    try:
                        await admin.alter_configs(broker, set={key: location})
                        if own is None or own.source is not ConfigSource.DYNAMIC_BROKER:
                            await admin.alter_configs(broker, delete=[key])
                    except KafkaError as refused:
                        error = str(refused)
                    rows.append({"broker": node.id, "listener": name, "keystore": location, "error": error})
        return rows

    rows = run(work())
    print_rows(output, ["broker", "listener", "keystore", "error"], rows)
    if any(row["error"] for row in rows):
        raise typer.Exit(1)


def listener_names(listeners: str) -> list[str]:
    """The names in a broker's `listeners`."""
    return [
        name.strip() for name, found, _ in (listener.partition("://") for listener in listeners.split(",")) if found
    ]
