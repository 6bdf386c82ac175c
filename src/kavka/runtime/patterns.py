"""The topics that clients' patterns match, by RE2: the time is linear in the text, whatever the pattern.

What a pattern matches is kept and goes on with the metadata, so that only new topics are matched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kavka.coordinator.requests import Client
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image.metadata import EMPTY, MetadataImage
from kavka.model.errors import InvalidRegularExpression

MAX_PATTERNS: Final = 1000
"""So many are kept; the one that was asked for longest ago goes first."""
NAMES_AT_ONCE: Final = 1000


class Pattern:
    """A pattern and the topics that it matches."""

    __slots__ = ("_set", "topics")

    def __init__(self, text: str) -> None:
        import re2  # not at start-up: few clusters have patterns

        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        # A set tells whether there is a match several times faster than a pattern tells what matched.
        self._set: Any = re2.Set.FullMatchSet(options)
        try:
            self._set.Add(text)
        except re2.error as error:
            raise InvalidRegularExpression(f"{text!r} is no RE2 pattern: {_words(error)}") from None
        self._set.Compile()
        self.topics: frozenset[str] = frozenset()

    def add(self, names: Iterable[str]) -> None:
        """Look at more topics."""
        match = self._set.Match
        self.topics |= {name for name in names if match(name)}

    def remove(self, names: Iterable[str]) -> None:
        """Forget topics that are gone."""
        self.topics -= set(names)


class Patterns:
    """The patterns that consumer groups ask for."""

    def __init__(self) -> None:
        self._image: MetadataImage = EMPTY
        self._known: dict[str, Pattern] = {}

    def start(self, image: MetadataImage) -> None:
        """Begin with an image."""
        self._image = image
        self._known.clear()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Go on to a later image, one pattern at a time."""
        self._image = image
        new = [topic.name for topic in delta.created_topics.values()]
        gone = [topic.name for topic in delta.deleted_topics.values()]
        if new or gone:
            for pattern in list(self._known.values()):
                pattern.remove(gone)
                pattern.add(new)
                yield

    def match(self, text: str, client: Client) -> frozenset[str]:
        """The topics that a pattern matches; raises InvalidRegularExpression."""
        pattern = self._known.pop(text, None)
        if pattern is None:
            pattern = Pattern(text)
            pattern.add(self._image.topics.by_name)
        self._keep(text, pattern)
        return pattern.topics

    async def prepare(self, text: str) -> None:
        """Match a pattern in slices, so that `match` need not look at every topic; a bad one is left to `match`."""
        if text in self._known or len(self._image.topics.by_name) <= NAMES_AT_ONCE:
            return
        try:
            pattern = Pattern(text)
        except InvalidRegularExpression:
            return
        image = self._image
        names = list(image.topics.by_name)
        for first in range(0, len(names), NAMES_AT_ONCE):
            pattern.add(names[first : first + NAMES_AT_ONCE])
            await asyncio.sleep(0)
        if image is self._image:  # else topics came or went meanwhile, and it is not known which
            self._keep(text, pattern)

    def _keep(self, text: str, pattern: Pattern) -> None:
        self._known[text] = pattern
        if len(self._known) > MAX_PATTERNS:
            del self._known[next(iter(self._known))]


def _words(error: Exception) -> str:
    first = error.args[0] if error.args else ""
    return first.decode(errors="replace") if isinstance(first, bytes) else str(first)
