"""`kavka audit`: who did what, from the topic of all nodes or from the files of one."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, run
from kavka.cli.output import CommandError, Output, write_line
from kavka.cli.places import parse_place
from kavka.client import Consumer
from kavka.console.places import PLACE
from kavka.metadata.names import AUDIT
from kavka.model.errors import UnknownTopicOrPartition

POLL_SECONDS: Final = 0.2
COLUMNS: Final = {"time": 24, "node": 4, "principal": 20, "host": 15, "api": 24, "resource": 30, "allowed": 7}
"""The columns for people, and how wide they are at least; what came of it is the last."""

Wanted = Callable[[Mapping[str, Any]], bool]


def audit(
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Read the files of one node: kavka-audit in its data directory."),
    ] = None,
    start: Annotated[str, typer.Option("--from", metavar="PLACE", help=PLACE + " Of the topic only.")] = "start",
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new entries after the last.")] = False,
    denied: Annotated[bool, typer.Option("--denied", help="Only what was denied.")] = False,
    principal: Annotated[str | None, typer.Option("--principal", help="Only of this one, as User:alice.")] = None,
    api: Annotated[str | None, typer.Option("--api", metavar="API", help="Only of this API, as CreateTopics.")] = None,
    resource: Annotated[str | None, typer.Option("--resource", metavar="NAME", help="Only about this one.")] = None,
    output: OutputOption = Output.TABLE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show who did what, from the topic of all nodes or from the files of one.

    Nodes keep an audit log with `kavka.audit.enable=true`; it is in a topic too with `kavka.audit.topic.enable=true`.

    Examples:

    - `kavka audit --denied`
    - `kavka audit --follow --api DeleteTopics`
    - `kavka audit --dir kavka-data/kavka-audit --principal User:alice --output json`
    """
    named = {"principal": principal, "api": api, "resource": resource}
    asked = {field: value for field, value in named.items() if value is not None}

    def wanted(entry: Mapping[str, Any]) -> bool:
        if denied and entry.get("allowed") is not False:
            return False
        return all(entry.get(field) == value for field, value in asked.items())

    show = Shown(output, wanted)
    if folder is not None:
        if start != "start":
            raise typer.BadParameter("files are read from their start", param_hint="--from")
        for line in lines(folder, follow=follow):
            show(line)
        return
    place = parse_place(start)

    async def work() -> None:
        async with Consumer(bootstrap, isolation="read_committed") as consumer:
            try:
                await consumer.assign(AUDIT, start=place)
            except UnknownTopicOrPartition:
                raise CommandError(f"there is no topic {AUDIT}: set kavka.audit.topic.enable, or give --dir") from None
            ends = None if follow else await consumer.end_offsets()
            while records := await consumer.read(ends=ends):
                for record in records:
                    show(record.value or b"")

    run(work())


class Shown:
    """Prints the entries that are wanted, each once: a node numbers its entries, and none comes after a later one."""

    def __init__(self, output: Output, wanted: Wanted) -> None:
        self._output = output
        self._wanted = wanted
        self._last: dict[object, int] = {}
        self._headed = False

    def __call__(self, line: bytes) -> None:
        """Print an entry, if it is one."""
        try:
            entry = json.loads(line)
            log, number = entry["spool"], int(entry["seq"])
        except (ValueError, KeyError, TypeError):
            return  # anybody who may write to the topic can write what is none
        if number <= self._last.get(log, 0):
            return
        self._last[log] = number
        if self._wanted(entry):
            write_line(line.decode() if self._output is Output.JSON else self._row(entry))
            sys.stdout.flush()

    def _row(self, entry: Mapping[str, Any]) -> str:
        head = ""
        if not self._headed:
            self._headed = True
            head = " ".join(name.ljust(width) for name, width in COLUMNS.items()) + " outcome\n"
        outcome = entry.get("outcome") or f"{entry.get('count', 1)} times"
        cells = {
            **entry,
            "resource": f"{entry.get('resource_type')}:{entry.get('resource')}",
            "allowed": "yes" if entry.get("allowed") else "no",
        }
        shown = (printable(cells.get(name, "")).ljust(width) for name, width in COLUMNS.items())
        return f"{head}{' '.join(shown)} {printable(outcome)}"


def printable(value: object) -> str:
    """A text of a client's without what would move the cursor of a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(value))


def lines(folder: Path, *, follow: bool) -> Iterator[bytes]:
    """The lines in the files of an audit log, and if asked those that come."""
    if not folder.is_dir():
        raise CommandError(f"{folder}: there is no such directory; a node's is kavka-audit in its data directory")
    done: dict[Path, int] = {}
    while True:
        for path in sorted(folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(done.get(path, 0))
                for line in file:
                    if line.endswith(b"\n"):
                        done[path] = done.get(path, 0) + len(line)
                        yield line.rstrip(b"\n")
        if not follow:
            return
        time.sleep(POLL_SECONDS)
