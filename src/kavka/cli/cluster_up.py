"""`kavka cluster up`: several nodes on this machine, one process each, that come and go together."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from kavka.cli.options import key_values
from kavka.cli.output import CommandError, note, write_line

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 90.0
LOOK_SECONDS: Final = 0.2
READY_SECONDS: Final = 0.01
DEFAULT_NODES: Final = 3
DEFAULT_LISTEN: Final = "127.0.0.1:9092"


def up(
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes", "-n", min=1, max=100, show_default="those that are there, or 3", help="How many nodes."
        ),
    ] = None,
    data_dir: Annotated[
        Path, typer.Option("--data-dir", metavar="DIR", help="Where all of them keep their data, settings and logs.")
    ] = Path("kavka-cluster"),
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            show_default=f"as before, or {DEFAULT_LISTEN}",
            help="Where the first node's clients connect; the others follow. Port 0: any.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--override",
            metavar="KEY=VALUE",
            help="A server.properties key of every node, which a new node keeps; may be repeated.",
        ),
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option("--ready-file", metavar="FILE", help="Written as JSON once all nodes serve.")
    ] = None,
) -> None:
    """Run a cluster of several nodes on this machine until told to stop (SIGTERM or Ctrl-C).

    The first up to three nodes are controllers as well as brokers. What is in the directory already is used again: the
    same nodes with the same data and addresses, and more brokers, on the next ports, if more nodes are asked for. Each
    node's `server.properties` and `node.log` are in `DIR/node-N`. The directory can be moved while nothing runs in it.

    Example: `kavka cluster up --nodes 3 --data-dir /tmp/cluster`
    """
    from kavka.testing.local import lay_out, read_layout

    config = key_values(override or [], "--override")
    base_dir = data_dir.absolute()
    there = read_layout(base_dir)
    if nodes is not None and nodes < len(there):
        raise CommandError(f"--nodes {nodes}: {data_dir} is a cluster of {len(there)}; without --nodes all of them run")
    host, port = _first_address(listen, there[0].listen if there else None, data_dir)
    laid_out = lay_out(base_dir, nodes or len(there) or DEFAULT_NODES, config, host=host, first_port=port)
    overrides = [part for key, value in config.items() for part in ("--override", f"{key}={value}")]
    stopping = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stopping.set())
    local = Processes({node.id: (node.home, [*node.arguments, *overrides]) for node in laid_out})
    try:
        local.start(stopping)
        if not stopping.is_set():
            report = {
                "bootstrap": ",".join(local.address(node.id) for node in laid_out),
                "nodes": [
                    {
                        "id": node.id,
                        "pid": local.pid(node.id),
                        "listen": node.listen,
                        "controller": node.controller,
                        "data_dir": str(node.data_dir),
                    }
                    for node in laid_out
                ],
            }
            if ready_file is not None:
                write_whole(ready_file, report)
            write_line(f"cluster of {len(laid_out)} nodes serves {report['bootstrap']} (Ctrl-C stops it)")
            sys.stdout.flush()
            local.watch(stopping)
    finally:
        local.stop()
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)


def _first_address(listen: str | None, before: str | None, data_dir: Path) -> tuple[str, int]:
    """Where the first node listens: where it did, or where it is told to; a cluster that is there does not move."""
    host, _, port = (listen or before or DEFAULT_LISTEN).rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise typer.BadParameter(f"{listen!r} is not HOST:PORT", param_hint="--listen")
    if listen is not None and before is not None and listen != before and int(port):
        raise CommandError(f"--listen {listen}: {data_dir} is a cluster that listens from {before} on; leave it out")
    return host, int(port)


class Processes:
    """The nodes' processes."""

    def __init__(self, nodes: Mapping[int, tuple[Path, Sequence[str]]]) -> None:
        from kavka.testing.process import NodeProcess

        self._nodes = {id_: NodeProcess(node_dir, os.environ, START_SECONDS) for id_, (node_dir, _) in nodes.items()}
        self._arguments = {id_: arguments for id_, (_, arguments) in nodes.items()}

    def pid(self, node: int) -> int:
        """The process id of a node."""
        return self._nodes[node].pid

    def address(self, node: int) -> str:
        """Where clients of a node that serves connect."""
        return str(self._nodes[node].ready["bootstrap"])

    def start(self, stopping: threading.Event) -> None:
        """Start all, and say of each when it serves; raises CommandError with the cause if one does not."""
        for id_, process in self._nodes.items():
            command = [sys.executable, "-m", "kavka", "serve", *self._arguments[id_]]
            process.spawn([*command, "--ready-file", str(process.ready_file)])
        waiting, deadline = dict(self._nodes), time.monotonic() + START_SECONDS
        while waiting and not stopping.wait(READY_SECONDS):
            for id_, process in list(waiting.items()):
                if process.ready_file.exists():
                    process.await_ready()
                    note(f"node {id_} serves {process.ready['bootstrap']} ({process.started_in_seconds:.1f} s)")
                    del waiting[id_]
                elif not process.running:
                    raise CommandError(f"node {id_} ended at its start: {process.cause} (its log: {process.log_file})")
                elif time.monotonic() > deadline:
                    raise CommandError(
                        f"node {id_} does not serve after {START_SECONDS:g} s; its last words: {process.cause} "
                        f"(its log: {process.log_file})"
                    )

    def watch(self, stopping: threading.Event) -> None:
        """Wait until told to stop, and say so when a node ends before; raises CommandError when none is left."""
        lost: set[int] = set()
        while not stopping.wait(LOOK_SECONDS):
            for id_, process in self._nodes.items():
                if id_ not in lost and not process.running:
                    lost.add(id_)
                    note(f"kavka: node {id_} has ended by itself; its log is {process.log_file}")
            if len(lost) == len(self._nodes):
                raise CommandError("all nodes have ended")

    def stop(self) -> None:
        """Ask all to stop, and wait."""
        from kavka.testing.process import NodeError

        for process in self._nodes.values():
            process.ask_to_stop()
        for id_, process in self._nodes.items():
            try:
                process.await_end(STOP_SECONDS)
            except NodeError as error:
                note(f"kavka: node {id_}: {str(error).partition(';')[0]}")


def write_whole(path: Path, value: object) -> None:
    """Write JSON so that nobody sees half of it."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(json.dumps(value) + "\n", encoding="utf-8")
    temporary.replace(path)
