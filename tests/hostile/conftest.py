"""Attacks, one module each: what a node does with them is told by answers, files and memory, never by a clock."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.testing import Cluster

# so that the tests can say `from crash.raw import ...` and `from hostile.attacker import ...`
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


@pytest.fixture(scope="module")
def victim() -> Iterator[Cluster]:
    """A node to attack."""
    with Cluster() as cluster:
        yield cluster
