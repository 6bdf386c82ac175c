"""Share sessions: which partitions a member fetches from this node, so that it need not name them each time.

A session belongs to the connection that opened it and ends with it. Nothing of it is remembered: the records that a
member holds are the share partitions' business.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from kavka.model.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1

P = TypeVar("P", bound=Hashable)


class SessionKey(NamedTuple):
    """Whose session it is."""

    group_id: str
    member_id: str


@dataclass(slots=True)
class ShareSession(Generic[P]):
    """The partitions of a member, in the order in which they are read."""

    key: SessionKey
    connection: Hashable
    epoch: int
    """Of the next request."""
    partitions: dict[P, bool]
    """Whether the next answer must name it although there is nothing to say."""

    def update(self, named: Iterable[P], forgotten: Iterable[P]) -> None:
        """Take in what a request names and forgets; naming a partition only to acknowledge adds it as well."""
        for each in named:
            self.partitions.setdefault(each, True)
        for each in forgotten:
            self.partitions.pop(each, None)

    def must_answer(self, partition: P, has_records: bool, has_error: bool) -> bool:
        """Whether an answer names a partition; one that had records goes to the end, so that others come first."""
        if partition not in self.partitions:
            return has_records or has_error
        due = self.partitions[partition]
        self.partitions[partition] = has_error
        if has_records:
            self.partitions[partition] = self.partitions.pop(partition)
        return due or has_records or has_error


class Closed(NamedTuple, Generic[P]):
    """What follows from the end of a connection."""

    released: SessionKey | None
    """Whose records are to be released."""
    partitions: tuple[P, ...]
    """Where they may be."""
    empty_group: str | None
    """A group that has no session here any more: its share partitions may be dropped."""


class ShareSessions(Generic[P]):
    """The share sessions of a node."""

    def __init__(self) -> None:
        self._sessions: dict[SessionKey, ShareSession[P]] = {}
        self._of_connection: dict[Hashable, SessionKey] = {}
        self._of_group: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, key: SessionKey) -> ShareSession[P] | None:
        """A member's session, if it has one."""
        return self._sessions.get(key)

    def fetch(
        self,
        key: SessionKey,
        epoch: int,
        named: Iterable[P],
        forgotten: Iterable[P],
        acknowledges: bool,
        connection: Hashable,
        limit: int,
    ) -> ShareSession[P]:
        """The session of a ShareFetch, which is opened, goes on or is about to end; raises what Kafka answers."""
        if epoch == INITIAL_EPOCH:
            if acknowledges:
                raise InvalidRequest("the first request of a share session acknowledges nothing")
            return self._open(key, named, connection, limit)
        session = self._next(key, epoch)
        if epoch != FINAL_EPOCH:
            session.update(named, forgotten)
        return session

    def acknowledge(self, key: SessionKey, epoch: int) -> ShareSession[P]:
        """The session of a ShareAcknowledge; raises what Kafka answers."""
        if epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpoch("no share session is opened by an acknowledgement")
        return self._next(key, epoch)

    def remove(self, key: SessionKey) -> tuple[P, ...]:
        """End a session; the partitions it had, where its member's records are to be released."""
        session = self._sessions.pop(key, None)
        if session is None:
            return ()
        self._of_group[key.group_id] -= 1
        return tuple(session.partitions)

    def disconnected(self, connection: Hashable) -> Closed[P]:
        """A connection has ended, and the session with it, unless its member has opened another elsewhere."""
        key = self._of_connection.pop(connection, None)
        if key is None:
            return Closed(None, (), None)
        session = self._sessions.get(key)
        released: SessionKey | None = None
        partitions: tuple[P, ...] = ()
        if session is not None and session.connection == connection:
            released, partitions = key, self.remove(key)
        empty = None
        if not self._of_group.get(key.group_id):
            self._of_group.pop(key.group_id, None)
            empty = key.group_id
        return Closed(released, partitions, empty)

    def clear(self) -> None:
        """Share groups are switched off."""
        self._sessions.clear()
        self._of_connection.clear()
        self._of_group.clear()

    def _open(self, key: SessionKey, named: Iterable[P], connection: Hashable, limit: int) -> ShareSession[P]:
        self.remove(key)  # its records stay with the member
        if len(self._sessions) >= limit:
            raise ShareSessionLimitReached(f"this node has {limit} share sessions")
        session = ShareSession(key, connection, next_epoch(INITIAL_EPOCH), dict.fromkeys(named, False))
        self._sessions[key] = session
        self._of_connection[connection] = key
        self._of_group[key.group_id] = self._of_group.get(key.group_id, 0) + 1
        return session

    def _next(self, key: SessionKey, epoch: int) -> ShareSession[P]:
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFound(f"{key.member_id} of {key.group_id} has no share session here")
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise InvalidShareSessionEpoch(f"the share session is at epoch {session.epoch}, not {epoch}")
        session.epoch = next_epoch(epoch)
        return session


def next_epoch(epoch: int) -> int:
    """The epoch after one: 0 is never reached again."""
    return 1 if epoch >= MAX_EPOCH else epoch + 1


def rotated(partitions: list[P], epoch: int) -> list[P]:
    """The partitions in the order of a request: each epoch begins with the next one."""
    if len(partitions) < 2 or epoch < 1:
        return partitions
    at = epoch % len(partitions)
    return partitions[at:] + partitions[:at]
