"""Where the answers of hot handlers go: to a new place on their connection, or to one that a request has already."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kavka.net.connection import Slot


class Slots(Protocol):
    """Where an answer finds its place."""

    @property
    def listener(self) -> str:
        """What the client came through."""

    def open_slot(self, *, exclusive: bool) -> Slot:
        """Hold a place for a later answer."""


class OneSlot(NamedTuple):
    """The place of a request that has been waiting already."""

    slot: Slot
    listener: str

    def open_slot(self, *, exclusive: bool) -> Slot:
        """The place that it has."""
        return self.slot
