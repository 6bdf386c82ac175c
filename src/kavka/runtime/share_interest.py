"""Which partitions of a share session may have something for it.

A session may have thousands of partitions that nobody writes to. One that had nothing when it was looked at rests until
it has news, and costs nothing meanwhile, however often the member asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kavka.model.types import Uuid
from kavka.runtime.led_share import LedShare
from kavka.share.session import ShareSession, rotated

Where = tuple[Uuid, int]
"""Topic id and partition."""


class ShareInterest:
    """The partitions of one session: those to be looked at, and those that rest."""

    def __init__(self, session: ShareSession[Where]) -> None:
        self.session = session
        self.active: dict[Where, None] = {}
        """Those to be looked at, in their order."""
        self.wake: Callable[[], None] | None = None
        """Has the fetch look that waits for news; None while none does."""
        self._watched: dict[Where, _Watched] = {}
        self._moment: object = None

    @property
    def rests(self) -> bool:
        """Whether there are partitions that need not be looked at."""
        return len(self.active) < len(self.session.partitions)

    def begin(self, moment: object, named: Iterable[Where], forgotten: Iterable[Where], epoch: int) -> None:
        """A request names partitions and forgets others; when metadata or settings have changed, all are looked at."""
        for where in forgotten:
            self.active.pop(where, None)
            watched = self._watched.pop(where, None)
            if watched is not None:
                watched.stop()
        if moment is not self._moment:
            self._moment = moment
            self.active = dict.fromkeys(self.session.partitions)
        else:
            self.active |= {where: None for where in named if where not in self._watched}
        if len(self.active) > 1:
            self.active = dict.fromkeys(rotated(list(self.active), epoch))

    def watch(self, where: Where, led: LedShare, *, rests: bool) -> None:
        """Hear of what is appended to a partition, and of what becomes available again; it may rest until then."""
        watched = self._watched.get(where)
        if watched is None or watched.led is not led:
            if watched is not None:
                watched.stop()
            watched = self._watched[where] = _Watched(self, where, led)
        led.waiting.add(watched)
        led.partition.watchers[watched] = None
        if rests:
            self.active.pop(where, None)

    def stir(self, where: Where) -> None:
        """A partition has news."""
        self.active.setdefault(where)
        if self.wake is not None:
            self.wake()

    def gave(self, where: Where) -> None:
        """A partition had records: others come first next time."""
        if where in self.active:
            del self.active[where]
            self.active[where] = None

    def close(self) -> None:
        """The session has ended."""
        for watched in self._watched.values():
            watched.stop()
        self._watched.clear()
        self.active.clear()


class _Watched:
    """A partition that is told of."""

    __slots__ = ("_interest", "led", "where")

    def __init__(self, interest: ShareInterest, where: Where, led: LedShare) -> None:
        self.where = where
        self.led = led
        self._interest = interest

    def news(self) -> None:
        """Something has changed."""
        self._interest.stir(self.where)

    def stop(self) -> None:
        """Hear of nothing any more."""
        self.led.waiting.discard(self)
        self.led.partition.watchers.pop(self, None)
