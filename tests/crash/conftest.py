"""Crash tests kill, cut, fill and corrupt real nodes; chance comes from one seed, which a failing test prints."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

# so that the tests can say `from scale import ...` and `from crash.history import ...`
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


@pytest.fixture
def rng() -> random.Random:
    """Chance that can be had again: KAVKA_SEED repeats a run."""
    seed = int(os.environ.get("KAVKA_SEED") or int.from_bytes(os.urandom(4)))
    sys.stdout.write(f"KAVKA_SEED={seed}\n")
    return random.Random(seed)
