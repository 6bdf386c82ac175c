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
from kavka.net.buffers import POOLED_BUFFER_BYTES, SHARED_BUFFER_BYTES, ReceiveBuffers
from kavka.net.memory import RequestMemory
from kavka.net.responses import PENDING, Reply, Responses, Slot
from kavka.net.session import Session
from kavka.net.transport import END, Transport

logger = logging.getLogger(__name__)

MAX_UNSENT_BYTES: Final = 1024 * 1024
"""Requests behind this much unsent response wait, so that a client that sends without reading costs no memory."""
TURN_SECONDS: Final = 0.01
"""After this long the other connections have their turn, however many requests one client has sent at once."""
FRAMES_BETWEEN_LOOKS: Final = 64
KEY_END: Final = 6
"""Where the size of a frame and the key of its API end."""


class Receiver(Protocol):
    """What a connection calls for each frame."""

    def __call__(self, connection: Connection, buffer: memoryview, start: int, end: int, /) -> Reply:
        """Answer now, never (None) or later (PENDING); raise to close the connection."""


class Meter(Protocol):
    """Counts the requests that one read brought together, where that makes no difference to their client."""

    on: bool
    """Whether anything is counted."""

    def begin(
        self, connection: Connection, buffer: memoryview, frames: list[tuple[int, int]], /
    ) -> Callable[[int, int], None] | None:
        """What is called after the frames, with where the last that was served ends and how many get no answer.

        None if each has to be counted by itself.
        """


class Connection:
    """A connected client."""

    __slots__ = (
        "_buffers",
        "_cap_of",
        "_closing",
        "_ending",
        "_held",
        "_holds",
        "_large",
        "_large_filled",
        "_large_needed",
        "_loop",
        "_memory",
        "_on_close",
        "_partial",
        "_responses",
        "_resting",
        "_served",
        "_unmute",
        "_unsent",
        "closed",
        "max_frame",
        "meter",
        "receiver",
        "session",
        "since",
        "together",
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
        cap_of: Callable[[int], int] | None,
        memory: RequestMemory,
        on_close: Callable[[Connection], None],
        meter: Meter | None = None,
    ) -> None:
        self._loop = loop
        self.transport = transport
        self.session = session
        self.receiver = receiver
        """Whoever serves the next frame: the dispatcher, unless somebody who logs clients in has taken its place."""
        self._buffers = buffers
        self.max_frame = max_frame
        """The largest frame that is taken; less before a client has logged in."""
        self._cap_of = cap_of
        self._memory = memory
        self.meter = meter
        """None before a client has logged in, and where nothing is counted."""
        self.together = False
        """Whether the requests being served are counted together."""
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
        self._served = 0
        """The bytes of large requests that are being served."""
        self._unsent = 0
        """The bytes of answers that the client does not take, as they were last counted."""
        self.since = 0
        """When the frame that has not all come began, as the memory counts; 0 if there is none."""
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

    def when_answered(self, told: Callable[[], None]) -> None:
        """Have a function called when the request that came last has its answer."""
        self._responses.when_answered(told)

    def and_then(self, told: Callable[[], None]) -> None:
        """Have a function called after whoever else waits for the answer to the request that came last."""
        self._responses.and_then(told)

    def on_answer(self, slot: Slot) -> None:
        """Send what has become sendable and go on with requests that were held back."""
        if self.closed:
            return
        self._responses.release(slot)
        if slot.exclusive:
            self._holds -= 1
            if self._served:
                self._memory.release(self, self._served)
                self._served = 0
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
            if self._unsent or responses.unsent > MAX_UNSENT_BYTES:
                self._count_unsent(responses.unsent)
            if not self._held or self._stalled:
                break
            self._held = False
            frames = memoryview(self._partial)
            self._partial = b""
            self._memory.release(self, len(frames))
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

    # -- memory ---------------------------------------------------------------------------

    @property
    def left(self) -> bool:
        """Whether the client has closed its side."""
        return self.closed or self.transport.left

    @property
    def moved_bytes(self) -> int:
        """All that was sent and received."""
        return self.transport.received_bytes + self.transport.sent_bytes

    @property
    def serving(self) -> bool:
        """Whether the client waits for an answer that is not there."""
        return self._holds > 0

    def __str__(self) -> str:
        session = self.session
        return f"connection {session.id} of {session.client_host}:{session.client_port} ({session.principal})"

    def serve_large(self, size: int) -> None:
        """Count a copy of so many bytes that the request in the exclusive slot holds until it is answered."""
        if not self.closed:
            self._served += size
            self._memory.hold(self, size)

    def _count_unsent(self, unsent: int) -> None:
        unsent = unsent if unsent > MAX_UNSENT_BYTES else 0
        if self.closed:
            return
        if unsent > self._unsent:
            self._memory.hold(self, unsent - self._unsent)
        elif unsent < self._unsent:
            self._memory.release(self, self._unsent - unsent)
        self._unsent = unsent

    def _wait_for_room(self, more: int) -> None:
        self._holds += 1
        self._memory.wait(self, more, self._has_room)

    def _has_room(self) -> None:
        self._holds -= 1
        if self._large is None and self._partial:
            self._held = True  # look again at what the frame needs
        self._advance()

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

    def look_for_end(self) -> None:
        """Read on from a client that left while it was made to wait, as nobody else does: if that was all, close."""
        if self.muted and not self._held and not self._ending and self.transport.left:
            self.on_readable()

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
        partial_size = len(self._partial)
        if partial_size:
            shared = self._buffers.whole
            shared[:partial_size] = self._partial
            received = self._receive(shared[partial_size:])
        else:
            shared = self._buffers.shared
            received = self._receive(shared)
        if received > 0:
            if partial_size:
                self._partial = b""
                self._memory.release(self, partial_size)
            self._process(shared, partial_size + received)
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
        slots, gathered, meter, counted, unanswered = responses.slots, None, self.meter, None, 0
        try:
            frames, consumed, needed = split(view, 0, total, self.max_frame)
            if meter is not None and meter.on and len(frames) > 1:
                counted = meter.begin(self, view, frames)
                self.together = counted is not None
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
                elif reply is None:
                    unanswered += 1
                elif reply is not PENDING:
                    responses.put(reply)  # type: ignore[arg-type]
                if self.closed:
                    return
        except KafkaError:
            self.refuse()
            return
        except Exception:
            logger.exception("a request of connection %d failed", self.session.id)
            self.refuse()
            return
        finally:
            if counted is not None:
                self.together = False
                # One that closes the connection is the last that is served, whatever came behind it.
                counted(end if end < consumed else consumed, unanswered)
        if consumed < total:
            self._keep(view, consumed, total, needed)
        elif self.since:
            self.since = 0

    def _keep(self, view: memoryview, start: int, end: int, needed: int) -> None:
        """Put aside what is not served yet."""
        if start or not self.since:
            self.since = self._memory.tick()
        large = needed > SHARED_BUFFER_BYTES and end - start >= KEY_END
        # Who has not logged in has sent as much as it is given; others mean what they announce.
        known = self.max_frame > POOLED_BUFFER_BYTES
        room = POOLED_BUFFER_BYTES if known else 2 * (end - start)
        if needed < 0 or (large and known and not self._admits(view, start, needed)):
            self.refuse()
        elif large and self._memory.has_room(self, room):
            self._large = self._buffers.take() if known else bytearray(room)
            self._large_needed = needed
            self._large_filled = end - start
            self._large[: self._large_filled] = view[start:end]
            self._memory.hold(self, len(self._large))
        else:
            self._partial = bytes(view[start:end])
            self._memory.hold(self, end - start)
            if large:
                self._wait_for_room(room)
            elif self._memory.full and not self._held:
                self._wait_for_room(0)

    def _admits(self, view: memoryview, start: int, needed: int) -> bool:
        """Whether the API of a large frame may have one of that size."""
        api_key = int.from_bytes(view[start + 4 : start + KEY_END], "big", signed=True)
        if self._cap_of is None or needed - 4 <= self._cap_of(api_key):
            return True
        logger.warning("closing %s: a request of %d bytes to the API with key %d", self, needed - 4, api_key)
        return False

    def _read_large(self, buffer: bytearray) -> None:
        filled, needed = self._large_filled, self._large_needed
        if filled == len(buffer):
            # Grow with the bytes that came, so that a frame's announced size alone costs nothing.
            more = min(2 * filled, needed) - filled
            if not self._memory.has_room(self, more):
                self._wait_for_room(more)
                self._advance()
                return
            self._memory.hold(self, more)
            grown = bytearray(filled + more)
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
            self._memory.release(self, len(buffer))
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
        if self._partial:
            self._memory.release(self, len(self._partial))
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
        self._memory.forget(self)
        self._served = 0
        self._partial = b""
        self._large = None
        self.transport.close()
        self._on_close(self)
        for callback in (self._closing or {}).values():
            callback()
