"""Let the tests here import the world that they share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
