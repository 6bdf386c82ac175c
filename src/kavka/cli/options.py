"""What several commands have in common: options, and a client to work with."""

from __future__ import annotations

import os
import signal
from collections.abc import Coroutine, Iterable, Mapping
from typing import Annotated, Any, TypeVar

import typer

from kavka.cli.output import CommandError, Output

T = TypeVar("T")

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
CLIENT_CONFIG = "KAVKA_CLIENT_CONFIG"
"""The environment variable that names a client.properties; `--config` sets it for one command."""
REGISTRY_URL = "KAVKA_REGISTRY_URL"
"""The environment variable that says where the schema registry is; a profile may set it for one command."""


def read_client_config(path: str) -> Mapping[str, str]:
    """The options in a client.properties file; raises CommandError."""
    from kavka.model.properties import parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise CommandError(f"{path}: {error}") from None


def secured(bootstrap: str | None) -> str | None:
    """An address with how connections to it are secured, if a client.properties says it."""
    path = os.environ.get(CLIENT_CONFIG)
    if bootstrap is None or not path:
        return bootstrap
    from kavka.client.security import SecuredBootstrap

    return SecuredBootstrap(bootstrap, read_client_config(path))


Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="KAVKA_BOOTSTRAP",
        metavar="HOST:PORT",
        callback=secured,
        help="Where the cluster is; several addresses with commas between.",
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="A table for people or JSON for scripts.")]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long the cluster may take to answer.")
]


def group(help: str) -> typer.Typer:
    """A group of commands that shows its help when called alone."""
    return typer.Typer(
        help=help,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end; SIGTERM cancels it as Ctrl-C does, so that it can leave in order."""
    import asyncio

    import uvloop

    async def stoppable() -> T:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        result: T = uvloop.run(stoppable())
    except asyncio.CancelledError:
        raise typer.Exit(128 + signal.SIGTERM) from None
    return result


def key_values(pairs: Iterable[str], option: str) -> dict[str, str]:
    """Read key=value options."""
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        found[key] = value
    return found
