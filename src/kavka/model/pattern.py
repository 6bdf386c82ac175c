"""Patterns that clients give: RE2's, matched whole, weighed before they are compiled.

RE2 takes a time linear in the text, but not in the pattern: a class of Unicode is a table of hundreds of ranges, and a
repeat of eight characters stands for a thousand copies. Whoever compiles holds the loop, and threads do not help.
"""

from __future__ import annotations

import re
from typing import Any, Final

MAX_WEIGHT: Final = 10_000
"""The heaviest pattern: as many plain characters take some milliseconds."""
CLASS_WEIGHT: Final = 750
RANGE_WEIGHT: Final = 10
REPEAT_WEIGHT: Final = 5
MAX_WORK: Final = 1 << 31
"""The memory of a pattern times the length of a text: more is not matched."""

_HEAVY: Final = re.compile(r"\\[pP]|\{(\d{1,9}),?(\d{0,9})|[^\0-\x7f]|\\x|\[|\\[DSWdsw]|\.")


class PatternError(ValueError):
    """A text is no pattern of RE2, or too heavy."""


def weigh(text: str) -> int:
    """About how much it takes to compile a pattern, in plain characters."""
    weight = len(text)
    if weight > MAX_WEIGHT:
        return weight
    for found in _HEAVY.finditer(text):
        if found[1]:
            weight += REPEAT_WEIGHT * max(int(number) for number in found.groups("") if number)
        else:
            weight += CLASS_WEIGHT if found[0] in (r"\p", r"\P") else RANGE_WEIGHT
    return weight


class Pattern:
    """A pattern that texts are matched with as a whole."""

    __slots__ = ("_set", "size")

    def __init__(self, text: str) -> None:
        """Raises PatternError."""
        import re2  # not at start-up: few clusters have patterns

        weight = weigh(text)
        if weight > MAX_WEIGHT:
            raise PatternError("it is too large")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        self.size = options.max_mem = min((64 << 10) + 128 * weight, 512 << 10)
        """How many bytes it takes at most."""
        # A set tells whether there is a match several times faster than a pattern tells what matched.
        self._set: Any = re2.Set.FullMatchSet(options)
        try:
            self._set.Add(text)
            self._set.Compile()
        except re2.error as error:
            too_large = str(error).startswith("failed to compile")
            raise PatternError("it is too large" if too_large else "RE2 cannot read it") from None

    def is_too_long(self, text: str) -> bool:
        """Whether it would take too long to match a text."""
        return len(text) * self.size > MAX_WORK

    def matches(self, text: str) -> bool:
        """Whether a text matches as a whole."""
        return bool(self._set.Match(text))
