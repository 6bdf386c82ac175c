"""What members of a share group were sent and said, and what of it cannot be.

Kafka's rules: an acquisition is not remembered, so a new leader delivers what was acquired and not answered as if it
had never been; everything that was answered holds for good. When leaders changed is read from the metadata log, so that
whatever happens without a change of leader is judged exactly.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

Where = tuple[int, int]
"""Partition and offset."""

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
FINAL: Final = (ACCEPT, REJECT)


class Delivery(NamedTuple):
    """A record that a node had a member acquire, between the time of a request and that of its response."""

    where: Where
    member: str
    node: int
    delivery_count: int
    sent: float
    came: float


class Said(NamedTuple):
    """What a member said of a record: whether that was answered as written is True, False or None for not known."""

    where: Where
    member: str
    how: int
    sent: float
    answered: float
    holds: bool | None


class LeaderChange(NamedTuple):
    """A leader of a partition (-1: none), and since when, as the controller wrote it."""

    at: float
    leader: int


Leaders = Mapping[int, Sequence[LeaderChange]]
"""By partition, in order."""


class ShareHistory:
    """Collects events; `faults` says what of them cannot be."""

    def __init__(self, limit: int, lock_seconds: float) -> None:
        self.deliveries: list[Delivery] = []
        self.said: list[Said] = []
        self.ended: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        """By member and node: when it gave up a session there, and so all that it held."""
        self._limit = limit
        self._lock_seconds = lock_seconds

    @property
    def delivered(self) -> set[Where]:
        """The records that somebody got."""
        return {one.where for one in self.deliveries}

    @property
    def rejected(self) -> set[Where]:
        """The records that somebody rejected within its lock, and was answered so."""
        return self._surely(REJECT)

    @property
    def accepted(self) -> set[Where]:
        """The records that somebody accepted within its lock, and was answered so."""
        return self._surely(ACCEPT)

    def _surely(self, how: int) -> set[Where]:
        judge = _Judge(self, {})
        return {word.where for word in self.said if word.how == how and word.holds and judge.was_locked(word)}

    def faults(self, leaders: Leaders) -> list[str]:
        """Everything that must not have happened until now."""
        judge = _Judge(self, leaders)
        found = [
            f"{one} is over the limit of {self._limit}" for one in self.deliveries if one.delivery_count > self._limit
        ]
        for where in judge.deliveries:
            found += judge.held_twice(where)
            found += judge.answered_another(where)
            found += judge.counted_wrong(where, self._limit)
            found += judge.came_after_accepting(where)
            found += judge.ended_twice(where)
        return found

    def lost(self, produced: Iterable[Where]) -> list[str]:
        """Everybody is done: each record was accepted or rejected, or delivered as often as it may be."""
        done = {said.where for said in self.said if said.how in FINAL and said.holds is not False}
        spent = {one.where for one in self.deliveries if one.delivery_count >= self._limit}
        left = sorted(set(produced) - done - spent)
        return [f"{where} was lost: {self.of(where)}" for where in left]

    def of(self, where: Where) -> list[Delivery | Said]:
        """What happened to a record, in order."""
        events: list[Delivery | Said] = [one for one in self.deliveries if one.where == where]
        return sorted([*events, *(one for one in self.said if one.where == where)], key=lambda one: one.sent)

    def held_until(self, one: Delivery, said: Iterable[Said]) -> float:
        """Until when a member surely had a record: it began no later than when the response came."""
        words = sorted((word for word in said if word.member == one.member), key=lambda word: word.sent)
        end = self.locked_until(one, words)
        first = next((word.sent for word in words if word.how != RENEW and one.came <= word.sent), end)
        return min([end, first, *(at for at in self.ended[one.member, one.node] if at >= one.came)])

    def locked_until(self, one: Delivery, words: Iterable[Said]) -> float:
        """Until when a lock lasted if nobody ended it."""
        end = one.sent + self._lock_seconds
        for word in words:
            # What is renewed too late may lie before the start offset, where anything is answered without an error.
            if word.how == RENEW and word.holds and one.came <= word.sent and word.answered < end:
                end = word.sent + self._lock_seconds
        return end


class _Judge:
    """Looks at the history of each record beside that of its partition's leaders."""

    def __init__(self, history: ShareHistory, leaders: Leaders) -> None:
        self.deliveries: defaultdict[Where, list[Delivery]] = defaultdict(list)
        for one in sorted(history.deliveries, key=lambda one: one.came):
            self.deliveries[one.where].append(one)
        self._said: defaultdict[Where, list[Said]] = defaultdict(list)
        for word in history.said:
            self._said[word.where].append(word)
        self._history = history
        self._leaders = leaders
        self._times = {partition: [change.at for change in changes] for partition, changes in leaders.items()}

    def held_twice(self, where: Where) -> list[str]:
        """Two members surely had the record at the same moment, from a node that led all the time."""
        said = self._said[where]
        held = [(one, self._history.held_until(one, said)) for one in self.deliveries[where]]
        return [
            f"{where} had two locks: {one} until {end} and {other} until {other_end}"
            for place, (one, end) in enumerate(held)
            for other, other_end in held[place + 1 :]
            if other.came < min(end, other_end) and self._same_leader(one, other)
        ]

    def answered_another(self, where: Where) -> list[str]:
        """A leader took one member's word for the record while another one surely had its lock there.

        Whoever had it before, also from a leader before this one: its lock was gone.
        """
        said = self._said[where]
        found = []
        for one in self.deliveries[where]:
            until = self._history.held_until(one, said)
            found += [
                f"{where} had two locks: {one} until {until}, and {word} was answered as written"
                for word in said
                if word.holds and word.member != one.member and one.came < word.sent and word.answered < until
                if self._led(one) and not self._changes(where[0], one.sent, word.answered)
                if not any(other.sent > one.sent and other.member == word.member for other in self.deliveries[where])
            ]
        return found

    def counted_wrong(self, where: Where, limit: int) -> list[str]:
        """A delivery that does not count, or more of them than can have been forgotten."""
        deliveries = self.deliveries[where]
        found = [
            f"{where} was counted wrong: {one} and then {other}"
            for one, other in pairwise(deliveries)
            if other.sent > one.came and other.delivery_count <= one.delivery_count and self._same_leader(one, other)
        ]
        # One that led before and does not know yet that it does not cannot have a delivery counted by anybody.
        led = [one for one in deliveries if self._led(one)]
        changes = self._changes(where[0], min(one.sent for one in led), led[-1].came) if led else 0
        if len(led) > limit + changes:
            events = self._history.of(where)
            found.append(f"{where} was delivered {len(led)} times, while its leader changed {changes} times: {events}")
        return found

    def came_after_accepting(self, where: Where) -> list[str]:
        """A node that leads gave out what had been accepted, and answered so, before it was asked."""
        accepted = [said for said in self._said[where] if said.how == ACCEPT and said.holds]
        return [
            f"{one} came after {said}"
            for said in accepted
            for one in self.deliveries[where]
            if one.sent > said.answered and self._led(one)
        ]

    def ended_twice(self, where: Where) -> list[str]:
        """Two members were told that it is done with by them, within their locks.

        What is said of records before the start offset has no effect, and is answered without an error.
        """
        ends = [word for word in self._said[where] if word.how in FINAL and word.holds and self.was_locked(word)]
        return [f"{where} was done with twice: {ends}"] if len(ends) > 1 else []

    def was_locked(self, word: Said) -> bool:
        """Whether its member had the record all the time, if no leader has forgotten that."""
        own = [said for said in self._said[word.where] if said.member == word.member]
        return any(
            one.came <= word.sent and word.answered < self._history.locked_until(one, own)
            for one in self.deliveries[word.where]
            if one.member == word.member
        )

    def _changes(self, partition: int, since: float, until: float) -> int:
        times = self._times.get(partition, [])
        return bisect_right(times, until) - bisect_left(times, since)

    def _same_leader(self, one: Delivery, other: Delivery) -> bool:
        """Whether both come from a node that led without a break: nothing may be forgotten."""
        until = max(one.came, other.came)
        return one.node == other.node and not self._changes(one.where[0], min(one.sent, other.sent), until)

    def _led(self, one: Delivery) -> bool:
        """Whether its node was the leader: one that was held still may not know yet that it is not."""
        changes, times = self._leaders.get(one.where[0], ()), self._times.get(one.where[0], [])
        begin, end = bisect_right(times, one.sent) - 1, bisect_right(times, one.came)
        return any(change.leader == one.node for change in changes[max(0, begin) : end])
