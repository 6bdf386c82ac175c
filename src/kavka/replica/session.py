"""The asking side of a fetch session (KIP-227): only what has changed since the last request is said again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kavka.model.types import Uuid

Key = tuple[Uuid, int]
"""Topic id and partition."""

NO_SESSION: Final = 0
FULL: Final = 0
MAX_EPOCH: Final = 2**31 - 1


class Asked(NamedTuple):
    """What is asked of one partition."""

    leader_epoch: int
    offset: int
    last_epoch: int
    log_start_offset: int
    max_bytes: int


class Ask(NamedTuple):
    """What a request says beside its limits."""

    session_id: int
    session_epoch: int
    rows: Mapping[Key, Asked]
    forgotten: Iterable[Key]


class FetchSession:
    """One session with one leader; begun anew after each failure."""

    def __init__(self) -> None:
        self.rows: dict[Key, Asked] = {}
        """What the leader knows that we want, once the request that says so is answered."""
        self._id = NO_SESSION
        self._epoch = FULL

    def ask(self, changed: Mapping[Key, Asked | None]) -> Ask:
        """The next request, given what may have changed: a partition with None is not wanted any more."""
        known = self.rows
        rows: dict[Key, Asked] = {}
        forgotten: list[Key] = []
        for key, row in changed.items():
            if row is None:
                if known.pop(key, None) is not None:
                    forgotten.append(key)
            elif known.get(key) != row:
                known[key] = rows[key] = row
        if self._epoch == FULL:
            return Ask(self._id, FULL, dict(known), ())
        return Ask(self._id, self._epoch, rows, forgotten)

    def answered(self, session_id: int) -> None:
        """The leader has served the request, in this session; 0 if it keeps none."""
        self._id = session_id
        if session_id == NO_SESSION:
            self._epoch = FULL
        else:
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1

    def restart(self, *, known: bool = True) -> None:
        """Say everything again with the next request; the leader drops the old session then, if it knows it."""
        self._epoch = FULL
        if not known:
            self._id = NO_SESSION
