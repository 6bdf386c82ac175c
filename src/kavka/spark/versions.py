"""Which Spark this works with: data sources in Python came with 4.0, and what ours is made of with 4.3."""

from __future__ import annotations

import re
from typing import Final

LEAST: Final = (4, 3)


class SparkVersionError(RuntimeError):
    """A Spark that this does not work with."""


def check_version(version: str) -> None:
    """Raise SparkVersionError for a version of Spark that is too old."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is not None and (int(found[1]), int(found[2])) < LEAST:
        raise SparkVersionError(
            f"Kavka needs Spark {LEAST[0]}.{LEAST[1]} or newer, and this is {version}: pip install 'kavka[spark]' for "
            "the driver, and the same Spark on the cluster"
        )
