"""Which requests are under way: at most one to a destination, each for so long, and a pause after one that failed."""

from __future__ import annotations

from kavka.raft.messages import Request
from kavka.raft.progress import NEVER


class _Connection:
    __slots__ = ("request", "request_id", "until_ms")

    def __init__(self, request_id: int, request: Request | None, until_ms: int) -> None:
        self.request_id = request_id
        self.request = request  # None while the connection pauses
        self.until_ms = until_ms


class Connections:
    """The destinations that are not free; a destination that is not known here can be sent to."""

    __slots__ = ("_backoff_ms", "_busy", "_next_id", "_timeout_ms")

    def __init__(self, timeout_ms: int, backoff_ms: int, first_id: int) -> None:
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._next_id = first_id
        self._busy: dict[int, _Connection] = {}

    def is_free(self, to: int) -> bool:
        """Whether a request can be sent."""
        return to not in self._busy

    def is_pausing(self, to: int) -> bool:
        """Whether the last request failed a short while ago."""
        connection = self._busy.get(to)
        return connection is not None and connection.request is None

    @property
    def any_under_way(self) -> bool:
        """Whether an answer is waited for, from whomever."""
        return bool(self._busy) and any(connection.request is not None for connection in self._busy.values())

    def sent(self, to: int, request: Request, now_ms: int) -> int:
        """Take note of a request; its id."""
        self._next_id += 1
        self._busy[to] = _Connection(self._next_id, request, now_ms + self._timeout_ms)
        return self._next_id

    def answered(self, request_id: int) -> tuple[int, Request] | None:
        """Whom a request went to, and what it was, if its answer is still waited for; the destination is free then."""
        for to, connection in self._busy.items():
            if connection.request_id == request_id and connection.request is not None:
                del self._busy[to]
                return to, connection.request
        return None

    def pause(self, to: int, now_ms: int) -> None:
        """Send nothing there for a short while."""
        self._busy[to] = _Connection(-1, None, now_ms + self._backoff_ms)

    def expire(self, now_ms: int) -> list[int]:
        """Give up on requests that take too long, and end pauses; the destinations that did not answer."""
        if not self._busy:
            return []
        late = [to for to, connection in self._busy.items() if connection.until_ms <= now_ms]
        return [to for to in late if self._busy.pop(to).request is not None]

    def clear(self) -> None:
        """Wait for no answer any more, and pause nowhere."""
        self._busy.clear()

    def next_deadline_ms(self) -> int:
        """When something expires."""
        deadline = NEVER
        for connection in self._busy.values():
            if connection.until_ms < deadline:
                deadline = connection.until_ms
        return deadline
