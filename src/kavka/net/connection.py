"""One client connection: frames in, responses out in request order.

Whole frames are handed to the connection's receiver inside the read callback; all responses that one read produced
leave together. What carries the bytes is the transport's business, whose answer comes when that of `responses`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from typing import Final, Protocol

from kavka.kernels.frames import split
from kavka.model.errors import KafkaError
from kavka.net.buffers import SHARED_BUFFER_BYTES, ReceiveBuffers
from kavka.net.responses import PENDING, Reply, Responses, Slot
from kavka.net.session import Session
from kavka.net.transport import END, Transport

log = logging.getLogger(__name__)

MAX_UNSENT_BYTES: Final = 1024 * 1024
"""Requests behind this much unsent response wait, so that a client that sends without reading costs no memory."""
TURN_SECONDS: Final = 0.01
"""After this long the other connections have their turn, however many requests one client has sent at once."""
FRAMES_BETWEEN_LOOKS: Final = 64


class Receiver(Protocol):
    """What a connection calls for each frame."""

    def __call__(self, connection: Connection, buffer: memoryview, start: int, end: int, /) -> Reply:
        """Answer now, never (None) or later (PENDING); raise to close the connection."""


class Connection:
    """A connected client."""

    __slots__ = (
        "_buffers",
        "_closing",
        "_ending",
        "_held",
        "_holds",
        "_large",
        "_large_filled",
        "_large_needed",
        "_loop",
        "_on_close",
        "_partial",
        "_responses",
        "_resting",
        "_unmute",
        "closed",
        "max_frame",
        "receiver",
        "session",
        "transport",
    )

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        transport: Transport,
        session: Session,
        receiver: Receiver,
        buffers: ReceiveBuffers,
        max_frame: int,
        on_close: Callable[[Connection], None],
    ) -> None:
        self._loop = loop
        self.transport = transport
        self.session = session
        self.receiver = receiver
        """Whoever serves the next frame: the dispatcher, unless somebody who logs clients in has taken its place."""
        self._buffers = buffers
        self.max_frame = max_frame
        """The largest frame that is taken; less before a client has logged in."""
        self._on_close = on_close
        self._closing: dict[Hashable, Callable[[], None]] | None = None
        self._responses = Responses(self, transport.out)
        self._partial = b""
        self._large: bytearray | None = None
        self._large_filled = 0
        self._large_needed = 0
        self._holds = 0
        """How many reasons there are to serve no request: an exclusive slot, the others' turn, a throttle."""
        self._resting = False
        self._unmute: asyncio.TimerHandle | None = None
        self._held = False
        """Whether whole frames may be among what is kept."""
        self._ending = False
        self.closed = False

    def start(self) -> None:
        """Begin to read."""
        self.transport.open(self)

    def when_closed(self, key: Hashable, callback: Callable[[], None]) -> None:
        """Have a function called once the connection closes; a later one of the same key takes its place."""
        if self.closed:
            callback()
        elif self._closing is None:
            self._closing = {key: callback}
        else:
            self._closing[key] = callback

    # -- answers that come later ----------------------------------------------------------

    def open_slot(self, *, exclusive: bool) -> Slot:
        """Hold a place for a later answer; an exclusive one holds back the requests behind it."""
        if exclusive:
            self._holds += 1
        return self._responses.open_slot(exclusive)

    def on_answer(self, slot: Slot) -> None:
        """Send what has become sendable and go on with requests that were held back."""
        self._responses.release()
        if slot.exclusive:
            self._holds -= 1
        self._advance()

    def _advance(self) -> None:
        """Send what can be sent, serve the frames held back, and read on unless something holds us."""
        if self.closed:
            return
        transport, responses = self.transport, self._responses
        while True:
            transport.flush()
            if not transport.out and not responses.slots:
                responses.unsent = 0
            if not self._held or self._stalled:
                break
            self._held = False
            frames = memoryview(self._partial)
            self._partial = b""
            self._process(frames, len(frames))
        if self.closed:
            return
        if self._ending and not self._held and not transport.out and not responses.slots:
            self.close()
        elif self._ending or self._stalled:
            transport.read_off()
        else:
            transport.read_on()

    on_writable = _advance

    @property
    def _stalled(self) -> bool:
        responses = self._responses
        behind_a_slot = responses.unsent > MAX_UNSENT_BYTES and bool(responses.slots)
        return self._holds > 0 or self.transport.busy or self.closed or behind_a_slot

    # -- waiting on purpose ---------------------------------------------------------------

    def mute(self, throttle_ms: int) -> None:
        """Send what is there to send, but serve and read nothing for so long (KIP-219)."""
        if self.closed:
            return
        until = self._loop.time() + throttle_ms / 1000
        if self._unmute is None:
            self._holds += 1
        elif self._unmute.when() >= until:
            return
        else:
            self._unmute.cancel()
        self._unmute = self._loop.call_at(until, self._unmuted)

    @property
    def muted(self) -> bool:
        """Whether the client is made to wait."""
        return self._unmute is not None

    def _unmuted(self) -> None:
        self._unmute = None
        self._holds -= 1
        self._advance()

    def _rest(self) -> None:
        """Go on with what has come already when the others have had their turn."""
        self._resting = True
        self._holds += 1
        self._loop.call_soon(self._rested)

    def _rested(self) -> None:
        self._resting = False
        self._holds -= 1
        self._advance()

    # -- reading ------------------------------------------------------------------------

    def on_readable(self) -> None:
        """Receive what there is, and serve the frames that are whole."""
        if self._large is not None:
            self._read_large(self._large)
            return
        shared = self._buffers.shared
        kept = len(self._partial)
        if kept:
            shared[:kept] = self._partial
            received = self._receive(shared[kept:])
        else:
            received = self._receive(shared)
        if received > 0:
            self._partial = b""
            self._process(shared, kept + received)
            self._advance()

    def _receive(self, into: memoryview) -> int:
        try:
            received = self.transport.receive_into(into)
        except OSError:
            self.close()
            return END
        if received == END:
            self.finish()
        return received

    def _process(self, view: memoryview, total: int) -> None:
        responses, out = self._responses, self.transport.out
        slots, gathered = responses.slots, None
        try:
            frames, consumed, needed = split(view, 0, total, self.max_frame)
            turn_ends = self._loop.time() + TURN_SECONDS if len(frames) > FRAMES_BETWEEN_LOOKS else 0.0
            for number, (start, end) in enumerate(frames, 1):
                if number % FRAMES_BETWEEN_LOOKS == 0 and self._loop.time() > turn_ends:
                    self._rest()
                if self._holds or responses.unsent > MAX_UNSENT_BYTES:
                    consumed = start - 4
                    needed = 0
                    self._held = True
                    break
                reply = self.receiver(self, view, start, end)
                if type(reply) is bytes:
                    if gathered is not None and out and out[-1] is gathered and not slots:
                        gathered += reply
                        responses.unsent += len(reply)
                    else:
                        gathered = responses.put_whole(reply)
                elif reply is not None and reply is not PENDING:
                    responses.put(reply)  # type: ignore[arg-type]
                if self.closed:
                    return
        except KafkaError:
            self.refuse()
            return
        except Exception:
            log.exception("a request of connection %d failed", self.session.id)
            self.refuse()
            return
        if consumed < total:
            self._keep(view, consumed, total, needed)

    def _keep(self, view: memoryview, start: int, end: int, needed: int) -> None:
        """Put aside what is not served yet."""
        if needed < 0:  # a bad size behind good frames
            self.refuse()
        elif needed > SHARED_BUFFER_BYTES:
            self._large = self._buffers.take()
            self._large_needed = needed
            self._large_filled = end - start
            self._large[: self._large_filled] = view[start:end]
        else:
            self._partial = bytes(view[start:end])

    def _read_large(self, buffer: bytearray) -> None:
        filled, needed = self._large_filled, self._large_needed
        if filled == len(buffer):
            # Grow with the bytes that came, so that a frame's announced size alone costs nothing.
            grown = bytearray(min(2 * len(buffer), needed))
            grown[:filled] = buffer
            self._large = buffer = grown
        with memoryview(buffer) as view:
            received = self._receive(view[filled : min(needed, len(buffer))])
            if received <= 0:
                return
            self._large_filled = filled + received
            if self._large_filled < needed:
                return
            self._large = None
            self._process(view[:needed], needed)
        self._buffers.give_back(buffer)
        self._advance()

    # -- closing ------------------------------------------------------------------------

    def on_hang_up(self) -> None:
        """Serve what a client that is gone sent before, as far as none of it has to wait, and close."""
        if self.closed:
            return
        if not self._resting:
            before = self.transport.received_bytes
            if not self._ending and not self._stalled:
                self.on_readable()
            if self.transport.received_bytes == before:
                self.close()
        if not self.closed:
            self._loop.call_soon(self.on_hang_up)

    def finish(self) -> None:
        """Read no more, and close when all that was asked is answered."""
        self._ending = True
        self._advance()

    def refuse(self) -> None:
        """Serve nothing more, not even what has come already, and close when all that is owed is sent."""
        self._partial = b""
        self._held = False
        self.finish()

    def close(self) -> None:
        """Drop the connection and everything not yet sent."""
        if self.closed:
            return
        self.closed = True
        if self._unmute is not None:
            self._unmute.cancel()
            self._unmute = None
        self._responses.drop()
        self._partial = b""
        self._large = None
        self.transport.close()
        self._on_close(self)
        for callback in (self._closing or {}).values():
            callback()
