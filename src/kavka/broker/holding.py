"""Requests that held the loop: counted by API, and told to the operator by name."""

from __future__ import annotations

import logging
from time import monotonic
from typing import Final, NamedTuple

from kavka.net.session import Session
from kavka.protocol.registry import API

logger = logging.getLogger(__name__)

HELD_SECONDS: Final = 0.02
"""No callback may hold the loop for longer."""
TELL_EVERY_SECONDS: Final = 1.0


class SlowRequest(NamedTuple):
    """One request that held the loop."""

    api: str
    version: int
    client_id: str
    client_host: str
    seconds: float
    ended: float

    def __str__(self) -> str:
        client = f"client {self.client_id!r} at {self.client_host}"
        return f"{self.api} v{self.version} of {client} for {self.seconds * 1000:.0f} ms"


class Holding:
    """Who held the loop for too long."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        """How often, by API key."""
        self.last: SlowRequest | None = None
        self._told = -TELL_EVERY_SECONDS

    def note(self, key: int, version: int, client_id: str, session: Session, began: float) -> None:
        """Count a request whose step began at a time and ends now, if it took too long."""
        now = monotonic()
        if now - began < HELD_SECONDS:
            return
        self.counts[key] = self.counts.get(key, 0) + 1
        self.last = SlowRequest(API[key].name, version, client_id, session.client_host, now - began, now)
        if now - self._told >= TELL_EVERY_SECONDS:
            self._told = now
            logger.warning("event loop held by %s", self.last)

    def since(self, began: float) -> SlowRequest | None:
        """The last one that held the loop since a time, if any did."""
        return self.last if self.last is not None and self.last.ended >= began else None
