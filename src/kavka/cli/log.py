"""`kavka log`: what is in the files of a data directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kavka.cli.options import OutputOption, group
from kavka.cli.output import Output, write_line

app = group("Look into log files.")


@app.callback()
def log() -> None:
    """Look into log files."""


@app.command("dump")
def dump_files(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of a data directory.")],
    deep: Annotated[bool, typer.Option("--deep", "-d", help="Also show the records inside the batches.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what files hold: segments, indexes, producer snapshots, checkpoints, the metadata log and its snapshots.

    A damaged batch ends the listing of its file and the exit code is 1.

    Examples:

    - `kavka log dump kavka-data/orders-0/00000000000000000000.log`
    - `kavka log dump --deep kavka-data/__cluster_metadata-0/00000000000000000000.log`
    - `kavka log dump --output json kavka-data/recovery-point-offset-checkpoint`
    """
    from kavka.cli.dump import dump

    damaged = False
    for path in paths:
        if len(paths) > 1 and output is Output.TABLE:
            write_line(f"# {path}")
        for row in dump(path, deep=deep):
            damaged |= "damaged_at" in row
            if output is Output.JSON:
                write_line(json.dumps(row if len(paths) == 1 else {"file": str(path), **row}, ensure_ascii=False))
            else:
                inside_a_batch = next(iter(row), "") == "offset" and "timestamp" in row
                write_line(("  " if inside_a_batch else "") + _line(row))
    if damaged:
        raise typer.Exit(1)


def _line(row: dict[str, object]) -> str:
    return " ".join(f"{key}={_show(value)}" for key, value in row.items())


def _show(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | str | None | bool) else str(value)
