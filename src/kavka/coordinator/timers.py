"""When something shall happen unless someone is heard of before: soft state, which dies with the shard.

A deadline that is put off again and again (a session, at every heartbeat) does not set a timer each time: the timer
that is set already goes off, finds the deadline later, and is set anew.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kavka.model.transition import CancelTimer, Effect, SetTimer

SESSION: Final = "session"
"""A member of a consumer group is silent."""
REVOCATION: Final = "revocation"
"""A member does not give partitions back."""
REJOIN: Final = "rejoin"
"""A classic member of a consumer group was told to join again and does not."""
RESYNC: Final = "resync"
"""A classic member of a consumer group joined and does not ask for its assignment."""
HEARTBEAT: Final = "heartbeat"
"""A member of a classic group is silent."""
JOIN: Final = "join"
"""The members of a classic group have had their time to join."""
SYNC: Final = "sync"
"""The members of a classic group have had their time to ask for their assignments."""
EXPIRE: Final = "expire"
"""Offsets and groups may be too old."""


class TimerKey(NamedTuple):
    """What a timer of this shard is for."""

    kind: str
    group: str = ""
    member: str = ""


class Deadlines:
    """The deadlines of a shard, and for when their timers are set."""

    __slots__ = ("_armed", "_at")

    def __init__(self) -> None:
        self._at: dict[TimerKey, int] = {}
        self._armed: dict[TimerKey, int] = {}

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._at

    def put(self, key: TimerKey, at_ms: int) -> tuple[Effect, ...]:
        """Set a deadline, or move it; an effect only when the timer that is set would be too late."""
        self._at[key] = at_ms
        armed = self._armed.get(key)
        if armed is not None and armed <= at_ms:
            return ()
        self._armed[key] = at_ms
        return (SetTimer(key, at_ms),)

    def drop(self, key: TimerKey) -> tuple[Effect, ...]:
        """Forget a deadline."""
        self._at.pop(key, None)
        return (CancelTimer(key),) if self._armed.pop(key, None) is not None else ()

    def fire(self, key: TimerKey, now_ms: int) -> tuple[bool, tuple[Effect, ...]]:
        """A timer has gone off: whether its deadline has passed, which ends it."""
        self._armed.pop(key, None)
        at_ms = self._at.get(key)
        if at_ms is None:
            return False, ()
        if at_ms > now_ms:
            return False, self.put(key, at_ms)
        del self._at[key]
        return True, ()
