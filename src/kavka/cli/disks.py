"""`kavka disks`: the log directories of nodes, and moving replicas between them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, run
from kavka.cli.output import CommandError, Output, print_json, print_rows, write_line
from kavka.cli.places import partitions_of
from kavka.cli.progress import progress
from kavka.client import Admin, ConfigResource, TopicPartition
from kavka.client.admin_cluster import LogDir

app = group("Look at the log directories of nodes, and move replicas between them.")

LOOK_SECONDS: Final = 0.2
RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"

Nodes = Annotated[
    list[int] | None, typer.Option("--node", "-n", help="A node; may be repeated.", show_default="all nodes")
]


@app.command("describe")
def describe_disks(
    node: Nodes = None,
    replicas: Annotated[bool, typer.Option("--replicas", help="A row for each replica.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Show log directories, how much room they have and what lies in them.

    Example: `kavka disks describe --node 1 --replicas`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            found = await admin.describe_log_dirs(nodes=node)
        if replicas:
            columns = ["node", "directory", "topic", "partition", "size_bytes", "offset_lag", "future"]
            print_rows(output, columns, [row for id_ in found for row in _replica_rows(id_, found[id_])])
        else:
            columns = [
                "node",
                "directory",
                "status",
                "replicas",
                "moving_in",
                "size_bytes",
                "usable_bytes",
                "total_bytes",
            ]
            print_rows(output, columns, [_row(id_, log_dir) for id_, dirs in found.items() for log_dir in dirs])

    run(work())


@app.command("move")
def move_replicas(
    partitions: Annotated[list[str], typer.Argument(metavar="TOPIC[:PARTITION]...", help="What to move.")],
    node: Annotated[int, typer.Option("--node", "-n", help="The node whose replicas they are.")],
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="The log directory of that node to move them to.")],
    throttle: Annotated[
        int | None, typer.Option("--throttle", min=1, help="The most bytes a second that the node copies from now on.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Whether to wait until they are there.")] = True,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Move replicas of a node to another of its log directories, while they are used.

    Example: `kavka disks move orders:0 --node 1 --to /disk2/kavka`
    """
    if not os.path.isabs(to):
        raise typer.BadParameter(f"{to!r} is no absolute path", param_hint="--to")
    directory = os.path.normpath(to)  # as the node names it

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            chosen = await partitions_of(admin, partitions, "TOPIC")
            if throttle is not None:
                await admin.alter_configs(ConfigResource.broker(node), set={RATE: str(throttle)})
            await admin.move_replicas(node, dict.fromkeys(chosen, directory))
            if wait:
                await _moved(admin, node, chosen, directory)
        if output is Output.JSON:
            print_json({"node": node, "directory": directory, "replicas": list(map(str, chosen)), "moved": wait})
        else:
            write_line(f"{len(chosen)} replicas of node {node} {'moved' if wait else 'are being moved'} to {directory}")

    run(work())


async def _moved(admin: Admin, node: int, chosen: list[TopicPartition], to: str) -> None:
    """Return when all are there; raises CommandError if one does not come any more."""
    with progress("moving", len(chosen)) as advance:
        done = 0
        while done < len(chosen):
            dirs = {log_dir.path: log_dir for log_dir in (await admin.describe_log_dirs(chosen, nodes=[node]))[node]}
            there = dirs[to].replicas if to in dirs else {}
            lost = [str(tp) for tp in chosen if tp not in there and _lies(dirs, tp)]
            if lost:
                raise CommandError(f"{', '.join(lost)}: no longer moved; the log of node {node} says why")
            arrived = sum(tp in there and not there[tp].is_future for tp in chosen)
            advance(arrived - done)
            done = arrived
            if done < len(chosen):
                await asyncio.sleep(LOOK_SECONDS)


def _lies(dirs: Mapping[str, LogDir], tp: TopicPartition) -> bool:
    return any(tp in log_dir.replicas for log_dir in dirs.values())


def _row(node: int, log_dir: LogDir) -> dict[str, object]:
    replicas = log_dir.replicas.values()
    status = "offline" if log_dir.error is not None else "cordoned" if log_dir.cordoned else "online"
    return {
        "node": node,
        "directory": log_dir.path,
        "status": status,
        "replicas": sum(not replica.is_future for replica in replicas),
        "moving_in": sum(replica.is_future for replica in replicas),
        "size_bytes": sum(replica.size_bytes for replica in replicas),
        "usable_bytes": log_dir.usable_bytes,
        "total_bytes": log_dir.total_bytes,
    }


def _replica_rows(node: int, dirs: list[LogDir]) -> list[dict[str, object]]:
    return [
        {
            "node": node,
            "directory": log_dir.path,
            "topic": tp.topic,
            "partition": tp.partition,
            "size_bytes": replica.size_bytes,
            "offset_lag": replica.offset_lag,
            "future": replica.is_future,
        }
        for log_dir in dirs
        for tp, replica in sorted(log_dir.replicas.items())
    ]
