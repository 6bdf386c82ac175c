"""Where the answers of hot handlers go: to a new place on their connection, or to one that a request has already."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kavka.model.types import Piece
from kavka.net.session import Session


class ResponseSlot(Protocol):
    """Where a late answer is given."""

    @property
    def closed(self) -> bool:
        """Whether nobody waits for the answer any more."""

    @property
    def left(self) -> bool:
        """Whether long work for the answer is in vain, as the client has closed its side."""

    def answer(self, pieces: list[Piece] | None) -> None:
        """Give the response (None: there is none)."""

    def abort(self) -> None:
        """Close the connection instead of answering, after what is owed before."""


class Slots(Protocol):
    """Where an answer finds its place."""

    @property
    def session(self) -> Session:
        """Who asks, and by which door they came."""

    def open_slot(self, *, exclusive: bool) -> ResponseSlot:
        """Hold a place for a later answer."""

    def serve_large(self, size: int) -> None:
        """Count the bytes of a copy that the request in an exclusive place holds until it is answered."""


class OneSlot(NamedTuple):
    """The place of a request that has been waiting already."""

    slot: ResponseSlot
    session: Session

    def open_slot(self, *, exclusive: bool) -> ResponseSlot:
        """The place that it has."""
        return self.slot

    def serve_large(self, size: int) -> None:
        """It was counted when the request got its place."""
