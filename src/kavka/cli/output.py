"""What commands print: tables for people, JSON for scripts, one line for an error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NoReturn, TextIO


class Output(StrEnum):
    """How a command shows its result."""

    TABLE = "table"
    JSON = "json"


class CommandError(Exception):
    """A command that could not do its job; the message is all that the user sees."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def print_json(value: object) -> None:
    """Print one JSON document on a line of its own."""
    write_line(json.dumps(value, ensure_ascii=False, default=_plain))


def print_rows(
    output: Output, columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, title: str | None = None
) -> None:
    """Print rows as a table with these columns, or whole as a JSON array."""
    rows = list(rows)
    if output is Output.JSON:
        print_json(rows)
        return
    if not rows:
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        numeric = all(isinstance(row.get(column), int | float) for row in rows)
        table.add_column(column.replace("_", " "), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    console = Console(width=None if sys.stdout.isatty() else 10_000)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        write_line(line.rstrip())


def tell(output: Output, text: str, **fields: object) -> None:
    """Say what was done: in words, or as a JSON object with these fields."""
    if output is Output.JSON:
        print_json(fields)
    else:
        write_line(text)


def write_line(text: str, stream: TextIO | None = None) -> None:
    """Write a line to standard output (or another stream)."""
    (stream or sys.stdout).write(text + "\n")


def note(text: str) -> None:
    """Tell a person on standard error, where it does not mix with results."""
    write_line(text, sys.stderr)


def fail(message: str, exit_code: int = 1) -> NoReturn:
    """End the command with one line on standard error."""
    first = " ".join(message.split())
    sys.stdout.flush()
    note(f"kavka: {first}")
    raise SystemExit(exit_code)


def abandon_stdout() -> None:
    """Stop writing to a pipe whose reader has gone, without a complaint at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value) or "-"
    return str(value)


def _plain(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
