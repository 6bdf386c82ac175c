"""`kavka log`: what is in the files of a data directory."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from kavka.cli.options import OutputOption, group, run
from kavka.cli.output import Output, write_line
from kavka.cli.stores import URL_HELP, KeysFile, StoreOptions, download, opened

app = group("Look into log files.")


@app.callback()
def log() -> None:
    """Look into log files."""


@app.command("dump")
def dump_files(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files of a data directory, or ids of remote segments.")
    ],
    deep: Annotated[bool, typer.Option("--deep", "-d", help="Also show the records inside the batches.")] = False,
    url: Annotated[str | None, typer.Option("--url", help=URL_HELP)] = None,
    option: StoreOptions = None,
    keys_file: KeysFile = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what files hold: segments, indexes, producer snapshots, checkpoints, the metadata log and its snapshots.

    With `--url` they are read from remote segments, which `kavka tiers list` lists: ID is the log of one, and ID.index,
    ID.timeindex, ID.txnindex, ID.snapshot and ID.leader_epoch_checkpoint what is stored beside it.

    A damaged batch ends the listing of its file and the exit code is 1.

    Examples:

    - `kavka log dump kavka-data/orders-0/00000000000000000000.log`
    - `kavka log dump --deep kavka-data/__cluster_metadata-0/00000000000000000000.log`
    - `kavka log dump --output json kavka-data/recovery-point-offset-checkpoint`
    - `kavka log dump --deep --url s3://bucket/prefix bCqX9U--S-6U8XUM9II25Q`
    """
    if url is None:
        whole = [_shown(name, Path(name), deep=deep, output=output, alone=len(files) == 1) for name in files]
    else:
        with TemporaryDirectory() as folder, opened(url, option, keys_file) as store:
            whole = []
            for name in files:
                path = run(download(store, name, Path(folder)))
                whole.append(_shown(name, path, deep=deep, output=output, alone=len(files) == 1))
                path.unlink()
    if not all(whole):
        raise typer.Exit(1)


def _shown(name: str, path: Path, *, deep: bool, output: Output, alone: bool) -> bool:
    """Show a file; whether it is whole."""
    from kavka.cli.dump import dump

    whole = True
    if not alone and output is Output.TABLE:
        write_line(f"# {name}")
    for row in dump(path, deep=deep):
        whole &= "damaged_at" not in row
        if output is Output.JSON:
            write_line(json.dumps(row if alone else {"file": name, **row}, ensure_ascii=False))
        else:
            inside_a_batch = next(iter(row), "") == "offset" and "timestamp" in row
            write_line(("  " if inside_a_batch else "") + _line(row))
    return whole


def _line(row: dict[str, object]) -> str:
    return " ".join(f"{key}={_show(value)}" for key, value in row.items())


def _show(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | str | None | bool) else str(value)
