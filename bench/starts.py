"""`python -m bench.starts --base TREE`: does this tree start as fast as another one, idle as small, help as soon?

Ten of each, in turns, now this tree first, now the other one; what counts is the 90th percentile of each ten. A start
is one of `kavka serve` in an empty directory, until it serves; then it idles for two seconds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from bench.node import Node
from bench.report import percentile, shown

T = TypeVar("T")

HERE: Final = Path(__file__).resolve().parents[1]
TIMES: Final = 10
SETTLE_S: Final = 2.0
PATIENCE_S: Final = 60.0
SLOWER: Final = 1.05
"""Times as much as the other tree: what is below may be the machine's doing."""


class Started(NamedTuple):
    """What one start has shown."""

    start_ms: float
    cpu_ms: float
    idle_mb: float


def kavka(tree: Path, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """A command with the code of a tree, and its environment."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else what is measured is the compiler
    return [sys.executable, "-m", "kavka", *arguments], environment


def start(tree: Path) -> Started:
    """Start a node in an empty directory, and look at it once it has settled."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.json"
        where = ("--data-dir", f"{folder}/data", "--listen", "127.0.0.1:0", "--ready-file", str(ready))
        command, environment = kavka(tree, "serve", *where)
        began = time.perf_counter()
        with subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.DEVNULL) as process:
            try:
                while not ready.exists():
                    if process.poll() is not None or time.perf_counter() - began > PATIENCE_S:
                        raise RuntimeError(f"the node of {tree} does not serve")
                    time.sleep(0.001)
                took, node = time.perf_counter() - began, Node("", process.pid)
                spent = node.cpu_seconds()
                time.sleep(SETTLE_S)
                return Started(took * 1000, spent * 1000, node.rss_bytes() / 1e6)
            finally:
                process.terminate()


def help_ms(tree: Path) -> float:
    """How long `kavka --help` takes."""
    command, environment = kavka(tree, "--help")
    began = time.perf_counter()
    subprocess.run(command, env=environment, cwd=tempfile.gettempdir(), stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000


def in_turns(measure: Callable[[Path], T], base: Path) -> tuple[list[T], list[T]]:
    """Measurements of the other tree, and of this one."""
    found: dict[Path, list[T]] = {base: [], HERE: []}
    for number in range(TIMES):
        for tree in (base, HERE) if number % 2 == 0 else (HERE, base):
            found[tree].append(measure(tree))
    return found[base], found[HERE]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 if something of this tree is worse."""
    parser = argparse.ArgumentParser(prog="python -m bench.starts", description=__doc__)
    parser.add_argument("--base", type=Path, metavar="TREE", required=True, help="a checkout to compare with, built")
    base = parser.parse_args(arguments).base.resolve()
    for tree in (base, HERE):
        help_ms(tree)  # both are compiled to bytecode, and in the page cache
        start(tree)
    then, now = in_turns(start, base)
    helped = in_turns(help_ms, base)
    worse = False
    for what, unit, before, after in (
        ("start in an empty directory", "ms", [one.start_ms for one in then], [one.start_ms for one in now]),
        ("of which CPU", "ms", [one.cpu_ms for one in then], [one.cpu_ms for one in now]),
        ("idle", "MB RSS", [one.idle_mb for one in then], [one.idle_mb for one in now]),
        ("kavka --help", "ms", *helped),
    ):
        old, new = percentile(before, 0.9), percentile(after, 0.9)
        worse |= new > old * SLOWER
        change = f"{shown(old):>6} -> {shown(new):>6} {unit} ({new / old:.2f} times)"
        print(f"{what:28} p90 of {TIMES}: {change}", flush=True)
    return int(worse)


if __name__ == "__main__":
    sys.exit(main())
