"""`kavka top`: what a cluster is busy with, live."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from kavka.cli.doctor import MetricsPages
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, run
from kavka.cli.output import Output, note, print_json, print_rows, write_line
from kavka.client import Pool
from kavka.console.looking import look
from kavka.console.rates import Rates, rates, size

CLEAR: Final = "\x1b[H\x1b[2J"


def top(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    metrics: MetricsPages = None,
    interval: Annotated[float, typer.Option("--interval", "-i", metavar="SECONDS", min=0.2)] = 2.0,
    count: Annotated[
        int | None, typer.Option("--count", "-n", metavar="N", min=1, help="Show so many times and stop.")
    ] = None,
    most: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="How many of each kind.")] = 10,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 2.0,
) -> None:
    """Show what the cluster is busy with: rates, the lag of groups, the busiest partitions and clients.

    Which clients are busy is known from the nodes' pages of metrics: name them with `--metrics`. Ctrl-C ends it. With
    `--output json` there is a line of JSON for each interval.

    Example: `kavka top --metrics broker1:9404 --metrics broker2:9404`
    """
    run(_watch(bootstrap, metrics or [], interval, count, most, output, timeout))


async def _watch(
    bootstrap: str,
    pages: Sequence[str],
    interval: float,
    count: int | None,
    most: int,
    output: Output,
    seconds: float,
) -> None:
    async with Pool(bootstrap, timeout_ms=int(seconds * 1000)) as pool:
        before, shown = await look(pool, pages, seconds), 0
        while count is None or shown < count:
            await asyncio.sleep(interval)
            after = await look(pool, pages, seconds)
            found, shown = rates(before, after, most), shown + 1
            if output is Output.JSON:
                print_json(as_json(found))
            else:
                show(found, live=sys.stdout.isatty(), clients=bool(pages))
                for what in after.lacking.values():
                    note(f"not known: {what}")
            sys.stdout.flush()
            before = after


def as_json(found: Rates) -> dict[str, Any]:
    """Rates as a JSON document."""
    return {
        "messages_per_second": found.messages_per_second,
        "bytes_per_second": found.bytes_per_second,
        "partitions": [row._asdict() for row in found.partitions],
        "groups": [row._asdict() for row in found.groups],
        "clients": [row._asdict() for row in found.clients],
    }


def show(found: Rates, *, live: bool, clients: bool) -> None:
    """Print rates for a person; live, in place of those before."""
    if live:
        sys.stdout.write(CLEAR)
    write_line(f"in: {found.messages_per_second:,.0f} records/s, {size(found.bytes_per_second)}/s\n")
    busy = [
        {
            "partition": row.partition,
            "leader": row.leader,
            "records/s": round(row.messages_per_second),
            "bytes/s": size(row.bytes_per_second),
            "end": row.end,
        }
        for row in found.partitions
    ]
    print_rows(Output.TABLE, ["partition", "leader", "records/s", "bytes/s", "end"], busy)
    if found.groups:
        write_line("")
        behind = [
            {"group": row.group, "lag": row.lag, "read/s": round(row.messages_per_second)} for row in found.groups
        ]
        print_rows(Output.TABLE, ["group", "lag", "read/s"], behind)
    if clients:
        write_line("")
        who = [
            {
                "client id": row.client_id,
                "host": row.host,
                "in/s": size(row.in_bytes_per_second),
                "out/s": size(row.out_bytes_per_second),
            }
            for row in found.clients
        ]
        print_rows(Output.TABLE, ["client id", "host", "in/s", "out/s"], who)
