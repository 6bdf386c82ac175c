"""Quotas' door: once a request is handled somebody may say how long its client has to wait (KIP-219).

The response leaves at once and tells the time; then nothing of the connection is read until it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol

from kavka.broker.slots import Place
from kavka.model.types import Piece
from kavka.net.connection import Connection
from kavka.net.responses import PENDING, Reply
from kavka.net.session import Session
from kavka.protocol.throttle_time import with_throttle_time


class Throttle(Protocol):
    """Keeps count of what clients use."""

    def __call__(
        self, session: Session, client_id: str, api_key: int, request_bytes: int, response: list[Piece] | None, /
    ) -> int:
        """For how many milliseconds the client shall wait after a response (None: it gets none); 0 for none."""


class Throttled:
    """A request of a connection whose answer, now or later, is counted before it leaves."""

    __slots__ = ("_api_key", "_client_id", "_connection", "_request_bytes", "_throttle", "_version")

    def __init__(
        self,
        connection: Connection,
        throttle: Throttle,
        api_key: int,
        version: int,
        client_id: str,
        request_bytes: int,
    ) -> None:
        self._connection = connection
        self._throttle = throttle
        self._api_key = api_key
        self._version = version
        self._client_id = client_id
        self._request_bytes = request_bytes

    @property
    def session(self) -> Session:
        """Who asks."""
        return self._connection.session

    def open_slot(self, *, exclusive: bool) -> Place:
        """Hold a place for a later answer."""
        return ThrottledSlot(self, self._connection.open_slot(exclusive=exclusive))

    def when_closed(self, key: Hashable, callback: Callable[[], None]) -> None:
        """Have a function called once the connection closes."""
        self._connection.when_closed(key, callback)

    def serve_large(self, size: int) -> None:
        """Count the bytes that the request holds until it is answered."""
        self._connection.serve_large(size)

    def close(self) -> None:
        """Drop the connection."""
        self._connection.close()

    def settle(self, reply: Reply) -> Reply:
        """Count an answer that is there."""
        if reply is PENDING:
            return reply
        return self.counted([reply] if isinstance(reply, bytes) else reply)

    def counted(self, response: list[Piece] | None) -> list[Piece] | None:
        """An answer, with the time in it that its client has to wait now."""
        throttle_ms = self._throttle(self.session, self._client_id, self._api_key, self._request_bytes, response)
        if throttle_ms <= 0:
            return response
        self._connection.mute(throttle_ms)
        return None if response is None else with_throttle_time(self._api_key, self._version, response, throttle_ms)


class ThrottledSlot:
    """The place of a late answer that is counted when it comes."""

    __slots__ = ("_request", "_slot")

    def __init__(self, request: Throttled, slot: Place) -> None:
        self._request = request
        self._slot = slot

    @property
    def closed(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._slot.closed

    def answer(self, pieces: list[Piece] | None) -> None:
        """Give the response."""
        self._slot.answer(self._request.counted(pieces))

    def abort(self) -> None:
        """Close the connection instead of answering."""
        self._slot.abort()
