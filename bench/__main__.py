"""`python -m bench`: ask the questions, print one table, keep it as JSON."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
import traceback
from collections.abc import Sequence

from rich.console import Console

from bench.node import Bench, Node
from bench.report import Answer, save, show

QUESTIONS = (
    "cold_start",
    "memory",
    "ack_latency",
    "tiny_requests",
    "batches",
    "compressed",
    "fetches",
    "tls",
    "acls",
    "flood",
    "bulk",
    "many_topics",
    "groups",
    "share",
    "tiered",
    "remote_segments",
    "registry",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; a missed target is shown, not an error."""
    options = _parser().parse_args(arguments)
    given = None
    if options.bootstrap:
        given = Node(options.bootstrap, options.pid)
    quick = options.quick or os.environ.get("KAVKA_SCALE", "full") == "ci"
    bench = Bench(quick=quick, given=given)
    answers = [_ask(name, bench) for name in options.only or QUESTIONS]
    console = Console(width=None if sys.stdout.isatty() else 170)
    show(answers, console)
    path = save(answers, {"quick": quick, "bootstrap": options.bootstrap})
    console.print(f"written to {os.path.relpath(path)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--only", action="append", choices=QUESTIONS, metavar="NAME", help=f"one of {', '.join(QUESTIONS)}"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes (as KAVKA_SCALE=ci does)")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="measure a broker that runs already, of any make")
    parser.add_argument("--pid", type=int, default=0, help="its process id, with --bootstrap")
    return parser


def _ask(name: str, bench: Bench) -> Answer:
    module = importlib.import_module(f"bench.{name}")
    print(f"{name}: {(module.__doc__ or '').splitlines()[0]}", file=sys.stderr, flush=True)
    began = time.perf_counter()
    try:
        rows, failure = tuple(module.rows(bench)), ""
    except Exception as error:  # the other questions can still be answered
        traceback.print_exc()
        rows, failure = (), f"{type(error).__name__}: {error}".splitlines()[0][:200]
    seconds = time.perf_counter() - began
    for row in rows:
        print(f"  {row.case}: {row.figure:,.2f} {row.unit}", file=sys.stderr, flush=True)
    return Answer(name, rows, seconds, failure)


if __name__ == "__main__":
    sys.exit(main())
