"""`kavka console`: the console of a cluster on this machine, and a browser that shows it."""

from __future__ import annotations

import socket
import sys
import webbrowser
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, run
from kavka.cli.output import CommandError, Output, tell
from kavka.client.security import SecuredBootstrap

MOST_PORT: Final = 65_535


def console(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where browsers find it; port 0: any free one.")
    ] = "127.0.0.1:0",
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="HOST:PORT", help="The page of metrics of a node, for /metrics and /readyz."),
    ] = None,
    registry: Annotated[
        str | None, typer.Option("--registry", metavar="URL", help="A schema registry, as http://HOST:PORT.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only show, and change nothing.")] = False,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Show it in a browser.")] = True,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a cluster in the browser, until Ctrl-C.

    A node has one too, with `kavka serve --console HOST:PORT`; any of them shows the whole cluster. Where the cluster
    has clients log in and `--config` has no credentials, people sign in with theirs.

    Example: `kavka console --bootstrap broker1:9092`
    """
    try:
        from kavka.console.server import run as serve
    except ImportError as error:
        raise CommandError(f"the console needs pip install 'kavka[console]': {error}") from None
    from kavka.console.settings import ConsoleSettings

    security: Mapping[str, str] = bootstrap.security if isinstance(bootstrap, SecuredBootstrap) else {}
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MOST_PORT:
        raise typer.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    settings = ConsoleSettings(
        str(bootstrap),
        security,
        metrics=metrics,
        registry=registry or security.get("schema.registry.url"),
        registry_options=security,
        read_only=read_only,
    )
    try:
        listening = socket.create_server((host.strip("[]"), int(port)), family=_family(host))
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]  # it names the address once more
        raise CommandError(f"cannot listen on {listen}: {why}") from None
    with listening:
        url = f"http://{host}:{listening.getsockname()[1]}"
        tell(output, url, console=url)
        sys.stdout.flush()
        if open_:
            webbrowser.open(url)
        run(serve(settings, listening))


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
