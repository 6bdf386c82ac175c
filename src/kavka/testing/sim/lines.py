"""How much of the shipped code a simulation runs: lines that were executed, package by package."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import PurePath
from typing import Final, NamedTuple

from kavka.testing.sim.seeds import same_hashes

PROGRAM: Final = """
import coverage, json, sys
measured = coverage.Coverage(source_pkgs=["kavka"], data_file=None, config_file=False, messages=False)
measured.start()
from kavka.testing.sim.seeds import attempt
for seed in sys.argv[1].split(","):
    attempt(int(seed))
measured.stop()
counts = {}
for path in measured.get_data().measured_files():
    _, lines, _, missing, _ = measured.analysis2(path)
    counts[path] = (len(lines) - len(missing), len(lines))
json.dump(counts, sys.stdout)
"""


APART: Final = ("cli", "spark", "testing")
"""What is no part of a node or of a client."""


class Lines(NamedTuple):
    """Lines of code, and how many of them were executed."""

    executed: int
    all: int

    @property
    def percent(self) -> float:
        """The share that was executed."""
        return 100 * self.executed / self.all if self.all else 100.0


def executed(seeds: Sequence[int]) -> dict[str, Lines] | None:
    """By package: the lines that the runs of some seeds execute; None where `coverage` is not installed."""
    if find_spec("coverage") is None:
        return None
    with same_hashes():
        program = [sys.executable, "-c", PROGRAM, ",".join(map(str, seeds))]
        found = json.loads(subprocess.run(program, check=True, capture_output=True).stdout)
    packages: defaultdict[str, Lines] = defaultdict(lambda: Lines(0, 0))
    for path, (done, total) in found.items():
        parts = PurePath(path).parts
        below = parts[len(parts) - parts[::-1].index("kavka") :]
        if len(below) > 1 and below[0] not in APART:
            known = packages[below[0]]
            packages[below[0]] = Lines(known.executed + done, known.all + total)
    return dict(sorted(packages.items()))
