"""What a fetch looks at: the partitions of one request, or of a session that lasts (KIP-227).

A session keeps a dirty set: only partitions that may have news are read, so idle ones cost nothing.
Sessions are soft state: a client whose session is gone starts a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from kavka.model.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from kavka.model.types import Uuid

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
MAX_EPOCH = 2**31 - 1
NO_SESSION = 0

Key = tuple[str | Uuid, int]


class Watcher(Protocol):
    """Who asked to be told of a partition's next change."""

    def news(self) -> None:
        """The partition has changed; to hear of the next change one asks again."""


class Watched(Protocol):
    """A partition that tells its watchers when there is news."""

    watchers: dict[Watcher, None]
    end_watchers: dict[FetchEntry, None] | None
    """Those who want to know of records that are not committed yet."""


class FetchEntry:
    """One partition that a fetch looks at, and what the client was last told about it."""

    __slots__ = (
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "owner",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "watching",
    )

    def __init__(
        self,
        topic: str | Uuid,
        index: int,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        max_bytes: int,
    ) -> None:
        self.topic = topic
        self.index = index
        self.owner: FetchSet | None = None
        self.watching: Watched | None = None
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.update(leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, max_bytes)

    def update(
        self, leader_epoch: int, fetch_offset: int, last_fetched_epoch: int, log_start_offset: int, max_bytes: int
    ) -> None:
        """Take over what the client asks for now."""
        self.leader_epoch = leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.max_bytes = max_bytes

    def news(self) -> None:
        """The partition has changed: look at it again."""
        self.watching = None
        owner = self.owner
        if owner is not None:
            owner.dirty[self] = None
            if owner.wake is not None:
                owner.wake()

    def mark(self) -> None:
        """Something is worth telling with the next answer, but nothing to wake anybody for."""
        if self.owner is not None:
            self.owner.dirty[self] = None

    def watch(self, partition: Watched) -> None:
        """Ask to be told of the next commit."""
        if self.watching is not partition:
            self.unwatch()
            self.watching = partition
            partition.watchers[self] = None

    def watch_end(self, partition: Watched) -> None:
        """Ask to be told of the next append, committed or not."""
        if self.watching is not partition:
            self.unwatch()
            self.watching = partition
            if partition.end_watchers is None:
                partition.end_watchers = {}
            partition.end_watchers[self] = None

    def unwatch(self) -> None:
        """No longer ask."""
        watching = self.watching
        if watching is not None:
            watching.watchers.pop(self, None)
            if watching.end_watchers is not None:
                watching.end_watchers.pop(self, None)
            self.watching = None


class FetchSet:
    """The partitions of one fetch request; of all requests of a session when it has an id."""

    __slots__ = ("created_ms", "dirty", "entries", "epoch", "id", "privileged", "used_ms", "uses_topic_ids", "wake")

    def __init__(self, entries: Iterable[FetchEntry], *, uses_topic_ids: bool, privileged: bool = False) -> None:
        self.id = NO_SESSION
        self.privileged = privileged
        self.epoch = INITIAL_EPOCH
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.used_ms = 0
        self.wake: Callable[[], None] | None = None
        self.entries: dict[Key, FetchEntry] = {}
        for entry in entries:
            entry.owner = self
            self.entries[entry.topic, entry.index] = entry
        self.dirty: dict[FetchEntry, None] = dict.fromkeys(self.entries.values())

    def merge(self, changed: Iterable[FetchEntry], forgotten: Iterable[Key]) -> None:
        """Apply an incremental request: new or changed partitions, then the forgotten ones."""
        for entry in changed:
            known = self.entries.get((entry.topic, entry.index))
            if known is None:
                entry.owner = self
                self.entries[entry.topic, entry.index] = known = entry
            else:
                known.update(
                    entry.leader_epoch,
                    entry.fetch_offset,
                    entry.last_fetched_epoch,
                    entry.log_start_offset,
                    entry.max_bytes,
                )
            self.dirty[known] = None
        for key in forgotten:
            gone = self.entries.pop(key, None)
            if gone is not None:
                self.dirty.pop(gone, None)
                gone.owner = None
                gone.unwatch()

    def release(self) -> None:
        """Stop watching everything."""
        self.wake = None
        for entry in self.entries.values():
            entry.unwatch()
            entry.owner = None


class FetchSessions:
    """The sessions of this node, at most as many as there are slots."""

    def __init__(self, slots: int, eviction_ms: int, draw_id: Callable[[], int]) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._draw_id = draw_id
        self._sessions: dict[int, FetchSet] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """How many partitions all sessions look at."""
        return sum(len(session.entries) for session in self._sessions.values())

    def begin(
        self,
        session_id: int,
        epoch: int,
        entries: Iterable[FetchEntry],
        forgotten: Iterable[Key],
        uses_topic_ids: bool,
        now_ms: int,
        *,
        privileged: bool = False,
    ) -> tuple[FetchSet, bool]:
        """The set to fetch from, and whether the answer holds only what is new; followers are privileged."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                self._remove(session_id)
            whole = FetchSet(entries, uses_topic_ids=uses_topic_ids, privileged=privileged)
            if epoch == INITIAL_EPOCH and whole.entries:
                self._try_to_keep(whole, now_ms)
            return whole, False
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFound(f"no fetch session {session_id}")
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch(f"session {session_id} is at epoch {session.epoch}, not {epoch}")
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError(f"session {session_id} began with the other kind of topic names")
        if session.wake is not None:
            session.wake()  # an earlier request still waits: it will see that the session has gone on without it
            session.wake = None
        session.merge(entries, forgotten)
        if not session.entries:
            self._remove(session_id)
            return FetchSet((), uses_topic_ids=uses_topic_ids), False
        session.epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        # Re-inserted at the end: the dict is ordered by last use.
        self._sessions.pop(session_id)
        self._sessions[session_id] = session
        session.used_ms = now_ms
        return session, True

    def forget(self, session: FetchSet) -> None:
        """End a session whose client is not told of it."""
        self._remove(session.id)

    def _try_to_keep(self, candidate: FetchSet, now_ms: int) -> None:
        """Make a session of a full fetch if there is room or a lesser session to evict."""
        if len(self._sessions) >= self._slots and not self._evict(candidate, now_ms):
            return
        session_id = self._draw_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._draw_id()
        candidate.id = session_id
        candidate.epoch = 1
        candidate.created_ms = candidate.used_ms = now_ms
        self._sessions[session_id] = candidate

    def _evict(self, candidate: FetchSet, now_ms: int) -> bool:
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        victim: FetchSet | None = None
        if now_ms - oldest.used_ms > self._eviction_ms:
            victim = oldest
        else:
            # A session that has lived for the eviction time may go for a bigger one (KIP-227).
            # Only a follower may take a follower's place; any other session is its, before a follower's.
            old = [
                session
                for session in self._sessions.values()
                if now_ms - session.created_ms > self._eviction_ms and (candidate.privileged or not session.privileged)
            ]
            smallest = min(old, key=rank, default=None)
            if smallest is not None and rank(smallest) < rank(candidate):
                victim = smallest
        if victim is None:
            return False
        self.evictions += 1
        self._remove(victim.id)
        return True

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None and session.wake is not None:
            session.id = NO_SESSION  # a request waits: it is answered as one without a session, and lets go then
        elif session is not None:
            session.release()


def rank(session: FetchSet) -> tuple[bool, int]:
    """What a session is worth when there are too many: the least goes first."""
    return session.privileged, len(session.entries)
