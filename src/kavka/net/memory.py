"""What clients hold of the node's memory, within one budget: requests that are not served yet, answers not yet sent.

Frames that fit the shared buffer may use all of it, larger ones three quarters, so that those who send giants leave
room for the others. Where there is no room, a connection is not read until there is: no memory is taken for what a
frame announces, only for what has come. While somebody waits, or more is held than there should be, those who neither
send nor take what is theirs are closed, the longest first; so a client that begins requests and does not end them
keeps nobody out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

logger = logging.getLogger(__name__)

DEFAULT_BYTES: Final = 128 << 20
LARGE_SHARE: Final = 0.75
LOOK_SECONDS: Final = 1.0
MOVES_BYTES: Final = 64 << 10
"""Who moves less than this between two looks stands still."""
STILL_LOOKS: Final = 1
"""The first look may come right after the first bytes."""
SERVED_LOOKS: Final = 30
"""For so many looks a request that is being served is not taken for one that stands still."""
TELL_EVERY_SECONDS: Final = 10.0


class Holder(Protocol):
    """A connection, as far as memory is concerned."""

    @property
    def moved_bytes(self) -> int:
        """All that it has sent and received."""

    @property
    def since(self) -> int:
        """When it began what it has not ended, as `tick` counts."""

    @property
    def serving(self) -> bool:
        """Whether it waits for the node, and not the node for it."""

    def close(self) -> None:
        """Drop it."""

    def __str__(self) -> str:
        """Who it is, for the log."""


class Share:
    """What one connection holds."""

    __slots__ = ("held", "looks", "seen")

    def __init__(self, seen: int) -> None:
        self.held = 0
        self.seen = seen
        self.looks = 0
        """How many looks ago it last moved."""


class _Wait(NamedTuple):
    """What a connection waits for."""

    more: int
    then: Callable[[], None]


def _wanted_bytes(waiting: tuple[Holder, _Wait]) -> int:
    _, wait = waiting
    return wait.more


class RequestMemory:
    """The budget of a server's connections."""

    def __init__(self, limit: int = DEFAULT_BYTES, on_full: Callable[[bool], None] = lambda full: None) -> None:
        """`on_full` is told when the budget is used up, and when it no longer is."""
        self.limit = limit
        self.held = 0
        self.waits = 0
        """How often somebody had to wait for room."""
        self.closed = 0
        """How many connections were closed to make room."""
        self._on_full = on_full
        self._full = False
        self._shares: dict[Holder, Share] = {}
        self._waiting: dict[Holder, _Wait] = {}
        self._looking: asyncio.TimerHandle | None = None
        self._waking = False
        self._ticks = 0
        self._told = -TELL_EVERY_SECONDS

    def tick(self) -> int:
        """A number for a request that begins, larger than those before."""
        self._ticks += 1
        return self._ticks

    def has_room(self, holder: Holder, more: int) -> bool:
        """Whether a large frame may take so much more; the only one there is always may."""
        others = self.held - self.of(holder)
        return self.held + more <= self.limit * LARGE_SHARE or others <= self.limit * (1 - LARGE_SHARE) / 2

    def of(self, holder: Holder) -> int:
        """What a connection holds."""
        share = self._shares.get(holder)
        return 0 if share is None else share.held

    def hold(self, holder: Holder, more: int) -> None:
        """Count what a connection holds more; it is there already, or there was room for it."""
        share = self._shares.get(holder)
        if share is None:
            share = self._shares[holder] = Share(holder.moved_bytes)
        share.held += more
        self.held += more
        if self.held > self.limit:
            self._set_full(True)
            self._look_later()

    def release(self, holder: Holder, less: int) -> None:
        """Count what a connection holds no more."""
        share = self._shares[holder]
        share.held -= less
        self.held -= less
        if share.held == 0:
            del self._shares[holder]
        if self._full and self.held <= self.limit:
            self._set_full(False)
        if self._waiting:
            self._wake_later()

    @property
    def full(self) -> bool:
        """Whether more is held than there should be."""
        return self._full

    def wait(self, holder: Holder, more: int, then: Callable[[], None]) -> None:
        """Call back when there is room for so much; the smallest wish is the first."""
        self.waits += 1
        self._waiting[holder] = _Wait(more, then)
        self._tell()
        self._look_later()

    def forget(self, holder: Holder) -> None:
        """A connection is gone."""
        self._waiting.pop(holder, None)
        if (held := self.of(holder)) > 0:
            self.release(holder, held)

    # -- making room ----------------------------------------------------------------------

    def _set_full(self, full: bool) -> None:
        if full != self._full:
            self._full = full
            self._on_full(full)

    def _tell(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._told >= TELL_EVERY_SECONDS:
            self._told = now
            logger.warning(
                "%d connections hold %d MiB for unfinished requests and unsent answers, of %d MiB "
                "(queued.max.request.bytes): %d wait",
                len(self._shares),
                self.held >> 20,
                self.limit >> 20,
                len(self._waiting),
            )

    def _wake_later(self) -> None:
        if not self._waking:
            self._waking = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._waking = False
        for holder, (more, then) in sorted(self._waiting.items(), key=_wanted_bytes):
            if self._fits(holder, more) and self._waiting.pop(holder, None) is not None:
                then()

    def _fits(self, holder: Holder, more: int) -> bool:
        return self.has_room(holder, more) if more else not self._full

    def _look_later(self) -> None:
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._looking = None
        self._wake()
        still: list[Holder] = []
        for holder, share in self._shares.items():
            moved = holder.moved_bytes
            if moved - share.seen >= MOVES_BYTES:
                share.looks = 0
            else:
                share.looks += 1
            share.seen = moved
            if share.looks > (SERVED_LOOKS if holder.serving else STILL_LOOKS) and holder not in self._waiting:
                still.append(holder)
        still.sort(key=lambda holder: self._shares[holder].looks)
        while still and (self._full or self._waiting):
            self._close(still.pop())
            self._wake()
        while self._waiting and all(holder in self._waiting for holder in self._shares):
            # Nobody can go on: who began first has had his chance.
            self._close(min(self._waiting, key=lambda holder: holder.since))
            self._wake()
        if self._waiting or self._full:
            self._look_later()

    def _close(self, holder: Holder) -> None:
        self.closed += 1
        logger.warning("closing %s, which holds %d KiB and stands still, to make room", holder, self.of(holder) >> 10)
        holder.close()
