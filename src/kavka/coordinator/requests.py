"""What the machines know of a request beside its body, and what a decision is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from kavka.coordinator.record import Record
from kavka.model.transition import Answer, Effect, Parked, Transition

T = TypeVar("T")


class Client(NamedTuple):
    """Who asks, and at which version of the API."""

    id: str
    host: str
    api_version: int
    principal: str = "User:ANONYMOUS"
    sees: Callable[[str], bool] | None = None
    """Whether it may know of a topic; None where everybody may."""


Match = Callable[[str, Client], frozenset[str]]
"""The topics that a pattern matches and a client may see; raises InvalidRegularExpression."""


class Draft:
    """A decision being made: the records and effects so far."""

    __slots__ = ("effects", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.effects: list[Effect] = []

    def answer(self, token: Any, reply: Any) -> None:
        """Answer a parked request."""
        self.effects.append(Answer(token, reply))

    def done(self, reply: T | Parked) -> Transition[T]:
        """The decision."""
        return Transition(reply, tuple(self.records), tuple(self.effects))
