"""The table of waiting cases names only cases there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from jvm import waiting

HERE = Path(__file__).resolve().parent


def test_every_waiting_case_exists() -> None:
    listing = subprocess.run(
        [sys.executable, "-m", "pytest", str(HERE), "--collect-only", "-q", "--no-header"],
        capture_output=True,
        text=True,
        check=False,
    )
    nodes = [line for line in listing.stdout.splitlines() if "::" in line and ".py" in line]
    names = [waiting.name_in(node) for node in nodes]
    assert len(names) > 100
    assert waiting.unknown(names) == []
