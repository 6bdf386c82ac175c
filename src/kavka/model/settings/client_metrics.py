"""The settings of a client metrics subscription (KIP-714)."""

from __future__ import annotations

from typing import Any, Final

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


def parse_match(entry: str) -> tuple[str, Any]:
    """The name and the RE2 pattern of an entry of `match`; raises SettingError."""
    import re2  # not at start-up: few clusters have subscriptions

    name, equals, pattern = entry.partition("=")
    if not equals or "=" in pattern or not pattern or name.strip() not in _MATCHED:
        raise SettingError(f"match: {entry!r} is not name=pattern with a known name")
    options: Any = re2.Options()
    options.log_errors = False
    try:
        return name.strip(), re2.compile(pattern.strip(), options)
    except re2.error:
        raise SettingError(f"match: {pattern.strip()!r} is no RE2 pattern") from None


SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())
