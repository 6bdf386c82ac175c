"""How much the long tests do: KAVKA_SCALE=ci (a few rounds, the default) or full."""

from __future__ import annotations

import os

FULL = os.environ.get("KAVKA_SCALE", "ci") == "full"


def rounds(full: int, ci: int) -> int:
    """The number of rounds for this run."""
    return full if FULL else ci
