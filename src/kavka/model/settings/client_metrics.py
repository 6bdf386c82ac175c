"""The settings of a client metrics subscription (KIP-714)."""

from __future__ import annotations

from typing import Any, Final

from kavka.model.pattern import Pattern, PatternError
from kavka.model.settings.types import INT, NO_BLANKS, SET, Setting, SettingError, collect

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


def parse_match(entry: str) -> tuple[str, Pattern]:
    """The name and the pattern of an entry of `match`; raises SettingError."""
    name, equals, pattern = entry.partition("=")
    if not equals or "=" in pattern or not pattern or name.strip() not in _MATCHED:
        raise SettingError(f"match: {entry!r} is not name=pattern with a known name")
    try:
        return name.strip(), Pattern(pattern.strip())
    except PatternError as error:
        raise SettingError(f"match: {pattern.strip()[:100]!r} is no RE2 pattern: {error}") from None


SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())
