"""`kavka users`: who can log in by SCRAM."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, run
from kavka.cli.output import CommandError, Output, print_rows, tell
from kavka.client import Admin, ScramMechanism

app = group("Look at and change who can log in with a password (SCRAM).")


class Choice(StrEnum):
    """The mechanisms by their SASL names."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def mechanism(self) -> ScramMechanism:
        """By Kafka's number."""
        return ScramMechanism[f"SCRAM_{self.name}"]


NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The user's name, without User: before it.")]


@app.command("list")
def list_users(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME...]", help="Only these users.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """List who can log in by which mechanism.

    Example: `kavka users list`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            found = await admin.describe_scram_users(*names or ())
        rows = [
            {"user": user, "mechanism": credential.mechanism.mechanism_name, "iterations": credential.iterations}
            for user, credentials in found.items()
            for credential in credentials
        ]
        print_rows(output, ["user", "mechanism", "iterations"], rows)

    run(work())


@app.command("set")
def set_user(
    name: NameArgument,
    mechanism: Annotated[Choice, typer.Option("--mechanism", help="How the user logs in.")] = Choice.SHA_256,
    iterations: Annotated[
        int, typer.Option("--iterations", min=4096, max=16384, help="How dear a guess at the password is.")
    ] = 4096,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", metavar="FILE", help="The password's file; - or a pipe: standard input."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Let a user log in with a password, or give it another one.

    The password is asked for, or read from a file or a pipe: on a command line others could see it. It is not sent,
    only what the cluster keeps of it.

    Examples:

    - `kavka users set alice`
    - `kavka users set alice --mechanism SCRAM-SHA-512 --password-file alice.secret`
    """
    password = _password(password_file)

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            await admin.set_scram_credential(name, password, mechanism=mechanism.mechanism, iterations=iterations)
        tell(output, f"user {name} can log in by {mechanism.value}", user=name, mechanism=mechanism.value)

    run(work())


@app.command("remove")
def remove_user(
    name: NameArgument,
    mechanism: Annotated[
        list[Choice] | None, typer.Option("--mechanism", show_default="all", help="Only by this mechanism; repeatable.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Let a user log in no more; connections that are open stay.

    Example: `kavka users remove alice`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            chosen = [choice.mechanism for choice in mechanism or ()]
            if not chosen:
                chosen = [credential.mechanism for credential in (await admin.describe_scram_users(name))[name]]
            for scram in chosen:
                await admin.delete_scram_credential(name, scram)
                words = f"user {name} can no longer log in by {scram.mechanism_name}"
                tell(output, words, user=name, mechanism=scram.mechanism_name)

    run(work())


def _password(file: Path | None) -> str:
    if file is not None and str(file) != "-":
        password = file.read_text(encoding="utf-8").rstrip("\r\n")
    elif file is not None or not sys.stdin.isatty():
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = typer.prompt("password", hide_input=True, confirmation_prompt=True)
    if not password:
        raise CommandError("a password is needed", 2)
    return password
