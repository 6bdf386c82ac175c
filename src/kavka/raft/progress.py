"""What a leader knows of the other replicas: their log end offsets, and whether enough of them still fetch from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kavka.raft.majority import majority_offset
from kavka.raft.voters import ReplicaKey, VoterSet

NEVER: Final = 1 << 62
"""A time that does not come."""
_OBSERVER_SESSION_MS: Final = 300_000
_CAUGHT_UP_WITHIN_MS: Final = 3_600_000


class ReplicaProgress(NamedTuple):
    """The progress of a replica as the leader knows it; -1 where it does not."""

    key: ReplicaKey
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class _Replica:
    """One replica, the leader's own included: of that one the end offset is how far its log is durable."""

    __slots__ = ("end_offset", "key", "last_caught_up_ms", "last_fetch_ms", "leader_end")

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.end_offset = -1
        self.last_fetch_ms = -1
        self.last_caught_up_ms = -1
        self.leader_end = -1  # the end of the leader's log at the last fetch

    def fetched(self, offset: int, leader_end: int, now_ms: int) -> None:
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif 0 < self.leader_end <= offset:  # it has what there was when it last fetched
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.leader_end = leader_end
        self.last_fetch_ms = max(self.last_fetch_ms, now_ms)
        self.end_offset = offset

    def told(self) -> ReplicaProgress:
        return ReplicaProgress(self.key, self.end_offset, self.last_fetch_ms, self.last_caught_up_ms)


class Followers:
    """The replicas of a leader's log, during its epoch.

    Check-quorum: a leader that a majority did not fetch from for one and a half fetch timeouts must resign.
    """

    __slots__ = ("_fetched", "_me", "_observers", "_patience_ms", "_voters", "check_deadline_ms")

    def __init__(self, me: ReplicaKey, voters: VoterSet, fetch_timeout_ms: int, now_ms: int) -> None:
        self._me = me
        self._voters = {voter.key.id: _Replica(voter.key) for voter in voters}
        self._observers: dict[ReplicaKey, _Replica] = {}
        self._fetched: set[int] = set()
        self._patience_ms = fetch_timeout_ms * 3 // 2
        self.check_deadline_ms = self._next_check(now_ms)

    def _next_check(self, now_ms: int) -> int:
        return NEVER if len(self._voters) == 1 and self._me.id in self._voters else now_ms + self._patience_ms

    def _find(self, key: ReplicaKey) -> _Replica:
        voter = self._voters.get(key.id)
        if voter is not None and voter.key.names(key):
            return voter
        observer = self._observers.get(key)
        if observer is None:
            observer = self._observers[key] = _Replica(key)
        return observer

    def synced(self, end_offset: int) -> None:
        """The leader's own log is durable up to here."""
        own = self._find(self._me)
        own.end_offset = max(own.end_offset, end_offset)

    def fetched(self, key: ReplicaKey, offset: int, leader_end: int, now_ms: int) -> None:
        """A replica fetched from an offset, so it has all that is before."""
        self._find(key).fetched(offset, leader_end, now_ms)
        self.heard_from(key, now_ms)

    def heard_from(self, key: ReplicaKey, now_ms: int) -> None:
        """A replica follows this leader; once a majority does, the leader may go on for another while."""
        voter = self._voters.get(key.id)
        if voter is not None and voter.key.names(key):
            self._fetched.add(key.id)
            others = len(self._voters) // 2 + (self._me.id not in self._voters)
            if len(self._fetched) >= others:
                self._fetched.clear()
                self.check_deadline_ms = self._next_check(now_ms)

    def set_voters(self, voters: VoterSet, now_ms: int) -> None:
        """Another voter set is in force: what is known of a replica stays known."""
        alone = self.check_deadline_ms == NEVER
        former, self._voters = self._voters, {}
        for voter in voters:
            known = former.get(voter.key.id)
            if known is not None and known.key.names(voter.key):
                del former[voter.key.id]
            else:
                known = self._observers.pop(voter.key, None) or _Replica(voter.key)
            known.key = voter.key
            self._voters[voter.key.id] = known
        for replica in former.values():
            self._observers.setdefault(replica.key, replica)
        self._fetched &= self._voters.keys()
        if alone or len(self._voters) == 1:
            self.check_deadline_ms = self._next_check(now_ms)

    def majority_offset(self) -> int:
        """What a majority of the voters has on its disks; -1 if that is not known."""
        return majority_offset(replica.end_offset for replica in self._voters.values())

    def is_caught_up(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether an observer has had all of the log, and is there still."""
        replica = self._observers.get(key)
        return (
            replica is not None
            and replica.last_caught_up_ms >= 0
            and replica.last_fetch_ms > now_ms - _CAUGHT_UP_WITHIN_MS
        )

    def silent_since(self, time_ms: int) -> Iterator[ReplicaKey]:
        """The other voters that have not fetched after a time."""
        return (
            replica.key
            for id_, replica in self._voters.items()
            if id_ != self._me.id and (replica.last_fetch_ms < 0 or replica.last_fetch_ms <= time_ms)
        )

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first."""
        others = [replica for id_, replica in self._voters.items() if id_ != self._me.id]
        others.sort(key=lambda replica: (-replica.end_offset, replica.key.id))
        return tuple(replica.key for replica in others)

    def told(self, leader_end: int, now_ms: int) -> tuple[list[ReplicaProgress], list[ReplicaProgress]]:
        """The progress of the voters and the observers; observers that stay away are forgotten."""
        gone = [
            key
            for key, replica in self._observers.items()
            if replica.last_fetch_ms <= now_ms - _OBSERVER_SESSION_MS and key != self._me
        ]
        for key in gone:
            del self._observers[key]
        own = ReplicaProgress(self._me, leader_end, now_ms, now_ms)
        return (
            [own if replica.key.names(self._me) else replica.told() for replica in self._voters.values()],
            [own if key == self._me else replica.told() for key, replica in self._observers.items()],
        )
