"""`kavka top`: what a cluster is busy with, live."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from time import monotonic
from typing import Annotated, Any, Final

import typer

from kavka.cli.doctor import MetricsPages
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, run
from kavka.cli.output import Output, print_json, print_rows, write_line
from kavka.cli.rates import Look, Rates, clients_of, rates
from kavka.cli.scraping import get, numbers
from kavka.client import LATEST, Admin, KafkaError, Pool, TopicPartition

CLEAR: Final = "\x1b[H\x1b[2J"
MOST_GROUPS: Final = 200
UNITS: Final = ("B", "KiB", "MiB", "GiB")


def top(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    metrics: MetricsPages = None,
    interval: Annotated[float, typer.Option("--interval", "-i", metavar="SECONDS", min=0.2)] = 2.0,
    count: Annotated[
        int | None, typer.Option("--count", "-n", metavar="N", min=1, help="Show so many times and stop.")
    ] = None,
    most: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="How many of each kind.")] = 10,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 10.0,
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
    async with Pool(bootstrap, timeout_ms=int(seconds * 1000)) as pool, Admin(pool) as admin:
        before, shown = await _look(pool, admin, pages, seconds), 0
        while count is None or shown < count:
            await asyncio.sleep(interval)
            after = await _look(pool, admin, pages, seconds)
            found, shown = rates(before, after, most), shown + 1
            if output is Output.JSON:
                print_json(as_json(found))
            else:
                show(found, live=sys.stdout.isatty(), clients=bool(pages))
            sys.stdout.flush()
            before = after


async def _look(pool: Pool, admin: Admin, pages: Sequence[str], seconds: float) -> Look:
    await pool.refresh()
    topics = await admin.describe_topics([topic.name for topic in await admin.list_topics()])
    leaders = {
        TopicPartition(topic.name, partition.index): partition.leader
        for topic in topics.values()
        for partition in topic.partitions
        if partition.leader >= 0
    }
    ends = await admin.list_offsets(dict.fromkeys(leaders, LATEST)) if leaders else {}
    sizes: dict[TopicPartition, int] = {}
    for node, dirs in (await admin.describe_log_dirs()).items():
        for each in dirs:
            sizes |= {tp: info.size_bytes for tp, info in each.replicas.items() if leaders.get(tp) == node}
    groups = [group.id for group in await admin.list_groups(types=("classic", "consumer", "streams"))][:MOST_GROUPS]
    committed = await asyncio.gather(*(_committed(admin, group) for group in groups))
    scraped = await asyncio.gather(*(asyncio.to_thread(get, page, "/metrics", seconds) for page in pages))
    return Look(
        monotonic(),
        {tp: found.offset for tp, found in ends.items()},
        sizes,
        leaders,
        dict(zip(groups, committed, strict=True)),
        clients_of(numbers(text) for _, text in scraped),
    )


async def _committed(admin: Admin, group: str) -> dict[TopicPartition, int]:
    try:
        return {tp: found.offset for tp, found in (await admin.group_offsets(group)).items()}
    except KafkaError:
        return {}  # it is gone, or moves to another coordinator just now


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


def size(number: float) -> str:
    """Bytes as people read them."""
    unit = 0
    while number >= 1024 and unit < len(UNITS) - 1:
        number /= 1024
        unit += 1
    return f"{number:.0f} {UNITS[unit]}" if unit == 0 else f"{number:.1f} {UNITS[unit]}"
