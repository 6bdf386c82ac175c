"""The settings of a client metrics subscription (KIP-714)."""

from __future__ import annotations

import re
from typing import Any, Final

from kavka.model.settings.types import INT, NO_BLANKS, SET, Setting, collect

METRICS = SET("metrics", (), NO_BLANKS)
INTERVAL_MS = INT("interval.ms", 300_000)
MATCH = SET("match", (), NO_BLANKS)

_MATCHED: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def is_match(entry: str) -> bool:
    """Whether an entry of `match` is name=pattern, with a name that clients are matched by."""
    name, equals, pattern = entry.partition("=")
    if not equals or "=" in pattern or not pattern or name.strip() not in _MATCHED:
        return False
    try:
        re.compile(pattern.strip())
    except re.error:
        return False
    return True


SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())
