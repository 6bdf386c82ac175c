"""Patterns of JSON schemas, read by RE2: whoever sends a schema chooses them, so only so much of them is looked at."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kavka.model.pattern import MAX_WEIGHT, weigh

MAX_MEMORY: Final = 128 << 10
MOST_WEIGHT: Final = 300_000
"""About a second's work: of patterns beyond it nothing is known, as of those that only other engines can read."""


class Found(NamedTuple):
    """What RE2 makes of a pattern."""

    compiled: Any = None
    """None if nothing is known of what it matches."""
    fault: str = ""
    """What RE2 has against it."""


class Patterns:
    """The patterns of a schema, or of two that are compared; each is read once."""

    def __init__(self) -> None:
        self._left = MOST_WEIGHT
        self._known: dict[str, Found] = {}

    def find(self, pattern: str) -> Found:
        """What is to be known of a pattern."""
        found = self._known.get(pattern)
        if found is None:
            found = self._known[pattern] = self._read(pattern)
        return found

    def matches(self, pattern: str, text: str) -> bool:
        """Whether a pattern is known to match a part of a text."""
        compiled = self.find(pattern).compiled
        return compiled is not None and compiled.search(text) is not None

    def _read(self, pattern: str) -> Found:
        import re2  # not at start-up; and no pattern takes it longer than the text is

        weight = weigh(pattern)
        if weight > min(MAX_WEIGHT, self._left):
            return Found()
        self._left -= weight
        options: Any = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_MEMORY
        try:
            return Found(re2.compile(pattern, options))
        except re2.error as error:
            return Found(fault=str(error.args[0], "utf-8", "replace"))
