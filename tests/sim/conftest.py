"""The tests of the simulation share what they plant."""

from __future__ import annotations

import sys
from pathlib import Path

# so that the tests can say `from scale import ...` and `from sim.planted import ...`
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
