"""What a state machine answers: a reply (or that it waits), records to remember, effects to run."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")


class Parked(Enum):
    """The reply of a request that is answered later, by an `Answer` effect."""

    PARKED = "parked"


PARKED: Final = Parked.PARKED


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer the request parked under a key; an exception is answered as its error."""

    key: Hashable
    reply: Any


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Call the machine's `on_timer(key, now_ms)` at a time; a later set replaces an earlier one."""

    key: Hashable
    at_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Forget a timer."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Publish:
    """Tell the machine's surroundings something, once all that was decided so far is committed."""

    news: Any


Effect = Answer | SetTimer | CancelTimer | Publish


class Divisible(tuple[Any, ...]):
    """Records that may be written in several batches: after a crash between two, deciding again goes on from there."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Transition(Generic[T]):
    """A machine's decision. Records are appended and replayed before effects run or the reply leaves."""

    reply: T | Parked
    records: tuple[Any, ...] = ()
    effects: tuple[Effect, ...] = ()
