"""The simulation runs the shipped code: nearly every line of raft, controller and replication."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

WANTED_PERCENT = 90
SEEDS = 14
PROGRAM = """
import coverage, sys
about = ["kavka.raft", "kavka.controller", "kavka.replication"]
measured = coverage.Coverage(source_pkgs=about, data_file=None, config_file=False)
measured.start()
from kavka.testing.sim import simulate
for seed in range(int(sys.argv[1])):
    simulate(seed)
measured.stop()
measured.json_report(outfile=sys.argv[2])
"""


@pytest.mark.timeout(900)
def test_the_simulation_runs_nearly_all_of_what_it_is_about(tmp_path: Path) -> None:
    report = tmp_path / "coverage.json"
    subprocess.run([sys.executable, "-c", PROGRAM, str(SEEDS), str(report)], check=True, timeout=900)
    found = json.loads(report.read_text())
    least = sorted((one["summary"]["percent_covered"], name) for name, one in found["files"].items())
    assert found["totals"]["percent_covered"] >= WANTED_PERCENT, least[:8]
