"""The order of responses: each leaves in the place of its request, however late it comes."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

from kavka.model.types import FileSlice, Piece
from kavka.net.transport import pin, unpin

logger = logging.getLogger(__name__)

SLOT_BYTES: Final = 1024
"""What an answer that is not there yet counts for among the unsent bytes."""


class Pending(Enum):
    """A receiver's answer when the response comes later, through the slot it opened."""

    PENDING = "pending"


PENDING: Final = Pending.PENDING


Reply = bytes | list[Piece] | Pending | None
"""An answer to send now, whole or in pieces, nothing at all, or an answer that comes later through a slot."""


class Answered(Protocol):
    """The connection whose requests are answered."""

    @property
    def closed(self) -> bool:
        """Whether nobody waits for answers any more."""

    @property
    def left(self) -> bool:
        """Whether the client is gone, or about to be: it sends nothing more."""

    def on_answer(self, slot: Slot) -> None:
        """A slot has its answer: send what has become sendable."""

    def refuse(self) -> None:
        """Serve nothing more, and close when all that is owed is sent."""

    def close(self) -> None:
        """Drop the connection."""


class Slot:
    """A request whose response is not there yet; it keeps its place in the order."""

    __slots__ = ("_connection", "done", "exclusive", "on_done", "pieces")

    def __init__(self, connection: Answered, exclusive: bool) -> None:
        self._connection = connection
        self.exclusive = exclusive
        self.done = False
        self.on_done: Callable[[], None] | None = None
        """Is called when the response is there."""
        self.pieces: list[Piece] = []

    @property
    def closed(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._connection.closed

    @property
    def left(self) -> bool:
        """Whether long work for the answer is in vain, as the client has closed its side."""
        return self._connection.left

    def answer(self, pieces: list[Piece] | None) -> None:
        """Give the response (None: there is none)."""
        if self.done:
            raise RuntimeError("a request is answered once")
        self.done = True
        if self._connection.closed:
            return
        if pieces:
            try:
                pin(pieces)
            except OSError as error:
                logger.error("cannot open the segment of a response: %s", error)
                self._connection.close()
                return
            self.pieces = pieces
        if self.on_done is not None:
            self.on_done()
        self._connection.on_answer(self)

    def abort(self) -> None:
        """Close the connection instead of answering, after what is owed before; nothing if it was answered."""
        if self.done:
            return
        self.done = True
        if self._connection.closed:
            return
        self._connection.refuse()
        self._connection.on_answer(self)


class Responses:
    """The answers of one connection on their way into the queue of its transport."""

    __slots__ = ("_connection", "_out", "slots", "unsent")

    def __init__(self, connection: Answered, out: deque[Piece]) -> None:
        self._connection = connection
        self._out = out
        self.slots: deque[Slot] = deque()
        """Answers that are not there yet, and those that wait behind them."""
        self.unsent = 0
        """What the answers since everything was sent hold of memory."""

    def put_whole(self, reply: bytes) -> bytearray | None:
        """Send an answer after those before it; where the next may join it, as long as that is last in the queue."""
        if self.slots:
            self.put([reply])
            return None
        gathered = bytearray(reply)
        self._out.append(gathered)
        self.unsent += len(reply)
        return gathered

    def put(self, reply: list[Piece]) -> None:
        """Send an answer in pieces after those before it; raises OSError if a file of it cannot be opened."""
        if self._count(reply):
            pin(reply)
        if self.slots:
            slot = Slot(self._connection, exclusive=False)
            slot.done = True
            slot.pieces = reply
            self.slots.append(slot)
        else:
            self._out.extend(reply)

    def open_slot(self, exclusive: bool) -> Slot:
        """Hold a place for a later answer."""
        slot = Slot(self._connection, exclusive)
        self.slots.append(slot)
        self.unsent += SLOT_BYTES
        return slot

    def when_answered(self, told: Callable[[], None]) -> None:
        """Have a function called when the request that came last has its answer, which may be by now."""
        newest = self.slots[-1] if self.slots else None
        if newest is None or newest.done or newest.on_done is not None:
            told()
        else:
            newest.on_done = told

    def and_then(self, told: Callable[[], None]) -> None:
        """Have a function called after whoever else waits for the answer to the request that came last."""
        newest = self.slots[-1] if self.slots else None
        if newest is None or newest.done:
            told()
            return
        before = newest.on_done

        def both() -> None:
            if before is not None:
                before()
            told()

        newest.on_done = both

    def _count(self, reply: list[Piece]) -> bool:
        """Count what an answer holds of memory; whether it has files as well."""
        files = False
        for piece in reply:
            if type(piece) is FileSlice:
                files = True
            else:
                self.unsent += len(piece)
        return files

    def release(self, answered: Slot) -> None:
        """Count an answer that came late, and let go what waits for nothing any more."""
        self._count(answered.pieces)
        slots = self.slots
        while slots and slots[0].done:
            self._out.extend(slots.popleft().pieces)

    def drop(self) -> None:
        """Send nothing of what waits."""
        for slot in self.slots:
            if slot.done:
                unpin(slot.pieces)
        self.slots.clear()
