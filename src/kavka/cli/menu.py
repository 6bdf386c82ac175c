"""The commands by name: what `kavka --help` says of each, and where it is loaded from once it is asked for.

The help and completion of names read this table alone; importing every command for them would take most of their time.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperGroup


class Entry(NamedTuple):
    """One command, or a group of them."""

    place: str
    """The module in this package, and the name in it if that is not `app`, a group."""
    line: str
    """The first line of its own help."""


MENU: Final[Mapping[str, Entry]] = {
    "format": Entry("format:format_dirs", "Format the data directories of a node."),
    "audit": Entry("audit:audit", "Show who did what, from the topic of all nodes or from the files of one."),
    "produce": Entry("produce:produce", "Send records: a line of standard input each, a file, or generated ones."),
    "consume": Entry("consume:consume", "Print the records of topics up to their end, or follow them."),
    "doctor": Entry("doctor:doctor", "Look at the cluster's health, and say what to do about what is found."),
    "console": Entry("console:console", "Show a cluster in the browser, until Ctrl-C."),
    "top": Entry(
        "top:top", "Show what the cluster is busy with: rates, the lag of groups, the busiest partitions and clients."
    ),
    "bench": Entry(
        "bench:bench", "Produce to a topic of its own, read it back, time single acknowledgements, and give a verdict."
    ),
    "completion": Entry("completion:completion", "Print a script that completes commands and options in a shell."),
    "version": Entry("version:version", "Show the version, and whether the kernels are compiled."),
    "topics": Entry("topics", "Create, look at, change and delete topics."),
    "groups": Entry("groups", "Look at groups of consumers, at how far they have read, and change that."),
    "share": Entry(
        "share", "Look at share groups, which take records from topics as from a queue, and change where they stand."
    ),
    "transactions": Entry("transactions", "Look at transactions, and end those that nobody else ends."),
    "tiers": Entry("tiers", "Look at, check and repair what is in object storage."),
    "disks": Entry("disks", "Look at the log directories of nodes, and move replicas between them."),
    "configs": Entry("configs", "Look at and change configs."),
    "acls": Entry("acls", "Look at and change who may do what."),
    "users": Entry("users", "Look at and change who can log in with a password (SCRAM)."),
    "tokens": Entry("tokens", "Look at and change delegation tokens (KIP-48)."),
    "quotas": Entry("quotas", "Look at and change how much clients may use."),
    "cluster": Entry("cluster", "Run a cluster on this machine, and look at clusters."),
    "log": Entry("log", "Look into log files."),
    "tls": Entry("tls", "Make certificates for a laptop, and have nodes read theirs again."),
    "pipeline": Entry("pipeline", "Data pipelines on Spark: topics in, topics and lake tables out."),
    "profile": Entry("profiles", "Give clusters names, and say which one commands talk to."),
}


class Menu(TyperGroup):
    """Knows its commands by the table, and loads the one that is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name, and what is left of them."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name is not None and name in MENU else command, rest


def load(name: str) -> Any:
    """A command of the table, whole."""
    module, _, attribute = MENU[name].place.partition(":")
    found = getattr(import_module(f"kavka.cli.{module}"), attribute or "app")
    around = typer.Typer(callback=_nothing, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=name)
    else:
        around.command(name)(found)
    return typer.main.get_group(around).commands[name]


def list_in(app: typer.Typer) -> None:
    """Name all commands of the table in an app whose class is `Menu`."""
    for name, entry in MENU.items():
        app.command(name, help=entry.line)(_nothing)


def _nothing() -> None:
    """What is run by nobody."""
