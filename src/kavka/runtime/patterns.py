"""The topics that clients' patterns match, by RE2: the time is linear in the text, whatever the pattern.

What a pattern matches is kept and goes on with the metadata, so that only new topics are matched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kavka.coordinator.requests import Client
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image.metadata import EMPTY, MetadataImage
from kavka.model.errors import InvalidRegularExpression
from kavka.model.pattern import Pattern, PatternError
from kavka.pacing.turn import Turn

MAX_KEPT_BYTES: Final = 64 << 20
"""So much is kept; what was asked for longest ago goes first."""
NAME_BYTES: Final = 64


class MatchedTopics:
    """A pattern and the topics that it matches."""

    __slots__ = ("_pattern", "topics")

    def __init__(self, text: str) -> None:
        try:
            self._pattern = Pattern(text)
        except PatternError as error:
            raise InvalidRegularExpression(f"{text[:100]!r} is no RE2 pattern: {error}") from None
        self.topics: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return self._pattern.size + NAME_BYTES * len(self.topics)

    def matches(self, name: str) -> bool:
        """Whether it matches a topic."""
        return self._pattern.matches(name)

    def add(self, names: Iterable[str]) -> None:
        """Look at more topics."""
        self.topics |= {name for name in names if self.matches(name)}

    def remove(self, names: Iterable[str]) -> None:
        """Forget topics that are gone."""
        self.topics -= set(names)


class Patterns:
    """The patterns that consumer groups ask for."""

    def __init__(self) -> None:
        self._image: MetadataImage = EMPTY
        self._known: dict[str, MatchedTopics] = {}
        self._kept_bytes = 0

    def start(self, image: MetadataImage) -> None:
        """Begin with an image."""
        self._image = image
        self._known.clear()
        self._kept_bytes = 0

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Go on to a later image, one pattern at a time."""
        self._image = image
        new = [topic.name for topic in delta.created_topics.values()]
        gone = [topic.name for topic in delta.deleted_topics.values()]
        if new or gone:
            for found in list(self._known.values()):
                before = found.size
                found.remove(gone)
                found.add(new)
                self._kept_bytes += found.size - before
                yield

    def match(self, text: str, client: Client) -> frozenset[str]:
        """The topics that a pattern matches and a client may know of; raises InvalidRegularExpression."""
        found = self._known.get(text)
        if found is None:
            found = MatchedTopics(text)
            found.add(self._image.topics.by_name)
        self._keep(text, found)
        return found.topics if client.sees is None else frozenset(filter(client.sees, found.topics))

    async def prepare(self, text: str) -> None:
        """Match a pattern in slices, so that `match` need not look at every topic; a bad one is left to `match`."""
        if text in self._known:
            return
        try:
            found = MatchedTopics(text)
        except InvalidRegularExpression:
            return
        names, turn = set(self._image.topics.by_name), Turn()
        matched = set()
        for name in names:
            if found.matches(name):
                matched.add(name)
            await turn.breathe()
        names_now = set(self._image.topics.by_name)
        found.topics = frozenset(matched & names_now)
        found.add(names_now - names)
        self._keep(text, found)

    def _keep(self, text: str, found: MatchedTopics) -> None:
        before = self._known.pop(text, None)
        self._kept_bytes += found.size - (0 if before is None else before.size)
        self._known[text] = found
        while self._kept_bytes > MAX_KEPT_BYTES and len(self._known) > 1:
            self._kept_bytes -= self._known.pop(next(iter(self._known))).size
