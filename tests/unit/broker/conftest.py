"""The replicas of one node on a real directory, for tests to change and use."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# so that the tests can say `from held import ...`
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from held import FaultyDisk, Held

from kavka.model.clock import ManualClock


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def held(tmp_path: Path, disk: FaultyDisk, clock: ManualClock) -> Held:
    return Held(tmp_path, disk, clock)


@pytest.fixture
def helds(tmp_path: Path, disk: FaultyDisk, clock: ManualClock) -> list[Held]:
    """Two nodes that are alike, to serve the same things in two ways."""
    roots = [tmp_path / "one", tmp_path / "other"]
    for root in roots:
        root.mkdir()
    return [Held(root, disk, clock) for root in roots]
