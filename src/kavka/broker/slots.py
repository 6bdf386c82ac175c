"""Where the answers of hot handlers go: to a new place on their connection, or to one that a request has already."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kavka.net.responses import Slot
from kavka.net.session import Session


class Slots(Protocol):
    """Where an answer finds its place."""

    @property
    def session(self) -> Session:
        """Who asks, and by which door they came."""

    def open_slot(self, *, exclusive: bool) -> Slot:
        """Hold a place for a later answer."""


class OneSlot(NamedTuple):
    """The place of a request that has been waiting already."""

    slot: Slot
    session: Session

    def open_slot(self, *, exclusive: bool) -> Slot:
        """The place that it has."""
        return self.slot
