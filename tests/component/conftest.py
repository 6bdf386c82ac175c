"""Component tests run real nodes in temporary directories."""

from __future__ import annotations

import sys
from pathlib import Path

# so that the tests can say `from crash.raw import ...`
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
