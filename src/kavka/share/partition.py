"""The machine of one share partition: one group's progress through one partition, on the partition's leader.

What it decides is written by the share coordinator before it is answered: `acknowledge`, `release` and `expire` return
a `StateWrite`, and whoever wrote it says `written` or `unwritten`. Acquisitions are not written: a new leader delivers
what was acquired and not answered as if it never had been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kavka.model.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    GroupIdNotFound,
    InvalidRecordState,
    InvalidRequest,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from kavka.model.share import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, StateBatch
from kavka.share.aborted import without
from kavka.share.acquiring import Acquired, Acquisition, DeliveryLimits, LogBatch, Wanted, room_beside_waiting
from kavka.share.window import NOBODY, UNLOCKED, WAITING, InFlightBatch, InFlightState, Window

GAP: Final = 0
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4

STATE_OF_TYPE: Final[Mapping[int, int]] = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}

REJECTED: Final = 1
SPENT: Final = 2
"""Why a record is not delivered again: a member rejected it, or it was delivered as often as it may be."""
CAUSE_OF_TYPE: Final[Mapping[int, int]] = {RELEASE: SPENT, REJECT: REJECTED}

FENCING: Final = (NotLeaderOrFollower, FencedStateEpoch, GroupIdNotFound, UnknownTopicOrPartition)
"""After one of these the share partition is to be dropped, and loaded anew when it is next asked for."""


class Dead(NamedTuple):
    """Records that nobody gets any more although they were not dealt with."""

    first_offset: int
    last_offset: int
    delivery_count: int
    cause: int


class Acknowledgement(NamedTuple):
    """What a member says of records: one type for all of them, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]
    delay_ms: int = -1
    """How long those that are released shall wait; -1: as the group's settings say."""


@dataclass(frozen=True, slots=True)
class StateWrite:
    """What the share coordinator shall write; the rest is for the machine, when it is told how that went."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]
    delivery_count_limit: int | None = None
    """What counts if it fails; None if the change holds in any case."""
    dead: tuple[Dead, ...] = ()
    """The records among them that are given up."""


class SharePartition:
    """The records of a partition that a group has in flight, and who has them."""

    def __init__(self, leader_epoch: int, state_epoch: int, window: Window) -> None:
        self.leader_epoch = leader_epoch
        self.state_epoch = state_epoch
        self.window = window
        self.deadline_ms = UNLOCKED
        """No lock ends before this; -1 while there is no lock. Then `expire` is to be called."""
        self._fenced = False
        self._written_start = window.start_offset

    @classmethod
    def load(
        cls, leader_epoch: int, state_epoch: int, start_offset: int, states: Iterable[StateBatch]
    ) -> SharePartition:
        """A share partition as it was persisted; raises UnknownServerError if that makes no sense."""
        loaded = cls(leader_epoch, state_epoch, Window.load(start_offset, states))
        loaded._written_start = start_offset
        return loaded

    def fence(self) -> None:
        """The leader or the state has changed: nobody acquires anything here any more."""
        self._fenced = True
        self.deadline_ms = UNLOCKED

    @property
    def is_fenced(self) -> bool:
        """Whether another leader or another state is in force."""
        return self._fenced

    # -- acquiring --------------------------------------------------------------------------------

    def next_fetch_offset(self) -> int:
        """Where the log is to be read next."""
        return self.window.next_fetch_offset()

    def can_acquire(self, limits: DeliveryLimits) -> bool:
        """Whether reading the log is of any use."""
        if self._fenced:
            return False
        window = self.window
        room = limits.max_record_locks - window.in_flight
        if room <= 0 and limits.longest_delay_ms:
            room = room_beside_waiting(window, limits)
        return room > 0 or window.next_fetch_offset() != window.end_offset + 1

    def acquire(
        self,
        wanted: Wanted,
        fetch_offset: int,
        batches: Sequence[LogBatch],
        limits: DeliveryLimits,
        now_ms: int,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> list[Acquired]:
        """Acquire records that were read from an offset on; those in the aborted ranges are archived at once."""
        if self._fenced:
            return []
        window = self.window
        acquisition = Acquisition(window, wanted, limits, now_ms)
        acquisition.run(fetch_offset, batches)
        acquired = acquisition.acquired
        if acquired:
            self._lock_until(now_ms + limits.lock_ms)
            for first, last in aborted:
                window.complete_count += window.archive(first, last + 1, ACQUIRED)
            if aborted:
                acquired = without(acquired, aborted)
        if not acquired:
            window.move_start()  # nobody will answer for what was archived here
        return acquired

    def log_start_moved(self, log_start_offset: int) -> None:
        """The log begins later than the group thought; that is persisted with the next write."""
        self.window.move_log_start(log_start_offset)

    # -- giving back ------------------------------------------------------------------------------

    def acknowledge(
        self, member: str, acknowledgements: Iterable[Acknowledgement], limits: DeliveryLimits, now_ms: int
    ) -> StateWrite | None:
        """Take a member's word on records it has; None if nothing is to be written. One refusal refuses all."""
        draft = _Draft(self, limits)
        try:
            for each in acknowledgements:
                self._acknowledge(draft, member, each, now_ms)
        except KafkaError:
            draft.undo()
            raise
        return draft.write()

    def release(self, member: str, limits: DeliveryLimits) -> StateWrite | None:
        """Take back all that a member has; None if that is nothing."""
        draft = _Draft(self, limits)
        for batch in self.window.batches:
            self._split_at_start(batch, member)
            for first, last, held in batch.parts():
                if held.state == ACQUIRED and held.member == member:
                    gone = last < self.window.start_offset
                    draft.change(held, first, last, ARCHIVED if gone else AVAILABLE, 0 if gone else SPENT)
        return draft.write()

    def expire(self, limits: DeliveryLimits, now_ms: int) -> StateWrite | None:
        """Take back what was locked for too long: at once, whether or not that can be written."""
        window, taken, next_ms = self.window, [], UNLOCKED
        dead: list[Dead] = []
        for batch in window.batches:
            if batch.whole is not None and batch.whole.state == ACQUIRED and batch.whole.deadline_ms <= now_ms:
                self._split_at_start(batch, batch.whole.member)
            for first, last, held in batch.parts():
                if held.state != ACQUIRED:
                    continue
                if held.deadline_ms > now_ms:
                    next_ms = held.deadline_ms if next_ms == UNLOCKED else min(next_ms, held.deadline_ms)
                    continue
                gone, waited = last < window.start_offset, held.member == WAITING
                held.let_go(ARCHIVED if gone else AVAILABLE, limits.delivery_count)
                held.deadline_ms = UNLOCKED
                if waited and held.state == AVAILABLE:
                    window.freed(first)  # what was written of it holds
                    continue
                taken.append(StateBatch(first, last, held.state, held.count))
                if held.state == ARCHIVED and not gone:
                    dead.append(Dead(first, last, held.count, SPENT))
        for each in taken:
            if each.delivery_state == AVAILABLE:
                window.freed(each.first_offset)
            else:
                window.complete_count += window.counted(each.first_offset, each.last_offset)
        self.deadline_ms = next_ms
        return self._write(taken, None, dead) if taken else None

    def _acknowledge(self, draft: _Draft, member: str, said: Acknowledgement, now_ms: int) -> None:
        window = self.window
        if any(kind not in STATE_OF_TYPE and kind != RENEW for kind in said.types):
            raise InvalidRequest(f"acknowledgement types are 0 to 4, not {list(said.types)}")
        if said.last_offset < window.start_offset:
            return
        for batch in self._batches_of(said):
            if batch.last < window.start_offset:
                continue
            begin, end = max(said.first_offset, window.start_offset), said.last_offset
            held = batch.whole
            if held is not None:
                _check_owner(held, member)
                if len(said.types) == 1 and batch.first >= begin and batch.last <= end:
                    self._settle(draft, batch.first, batch.last, held, said.types[0], said.delay_ms, now_ms)
                    continue
                batch.split()
            for offset in range(max(begin, batch.first), min(end, batch.last) + 1):
                held = batch.each[offset - batch.first]
                _check_owner(held, member)
                kind = said.types[0] if len(said.types) == 1 else said.types[offset - said.first_offset]
                self._settle(draft, offset, offset, held, kind, said.delay_ms, now_ms)

    def _batches_of(self, said: Acknowledgement) -> list[InFlightBatch]:
        window = self.window
        place = window.floor(said.first_offset)
        if place < 0 and said.first_offset < window.start_offset <= said.last_offset:
            place = window.floor(window.start_offset)
        if place < 0:
            raise InvalidRecordState(f"no records from {said.first_offset} on are in flight")
        batches = window.batches[place : window.floor(said.last_offset) + 1]
        if batches[-1].last < said.last_offset:
            raise InvalidRequest(f"offset {said.last_offset} is past the records that were acquired")
        return batches

    def _settle(
        self, draft: _Draft, first: int, last: int, held: InFlightState, kind: int, delay_ms: int, now_ms: int
    ) -> None:
        if kind != RENEW:
            draft.change(held, first, last, STATE_OF_TYPE[kind], CAUSE_OF_TYPE.get(kind, 0), delay_ms)
            return
        if not draft.limits.renew:
            raise InvalidRecordState("the group does not renew locks")
        held.deadline_ms = now_ms + draft.limits.lock_ms

    def _split_at_start(self, batch: InFlightBatch, member: str) -> None:
        """What a member holds of a batch that the start offset has moved into has two fates."""
        held = batch.whole
        mine = held is not None and held.state == ACQUIRED and held.member == member
        if mine and batch.first < self.window.start_offset <= batch.last:
            batch.split()

    def _lock_until(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms if self.deadline_ms == UNLOCKED else min(self.deadline_ms, deadline_ms)

    # -- writing ----------------------------------------------------------------------------------

    def _write(
        self, batches: list[StateBatch], delivery_count_limit: int | None, dead: Sequence[Dead] = ()
    ) -> StateWrite:
        window = self.window
        self._written_start = window.start_offset
        return StateWrite(
            self.state_epoch,
            self.leader_epoch,
            window.start_offset,
            window.complete_count,
            tuple(_joined(batches)),
            delivery_count_limit,
            tuple(dead),
        )

    def moved(self) -> StateWrite | None:
        """Where it stands, if that is not written and nobody has or gets anything with which it would be."""
        window = self.window
        if window.start_offset <= self._written_start or window.complete_count < window.in_flight:
            return None
        return self._write([], None)

    def written(self, write: StateWrite, limits: DeliveryLimits | None = None, now_ms: int = 0) -> bool:
        """A write is done; whether a fetch that waits may find more now.

        Where the group wants it so, what was released waits before it is delivered again: locked, and nobody's.
        """
        freed = False
        for batch in write.batches if write.delivery_count_limit is not None else ():
            for first, _, held in self.window.unsettled(*batch[:2]):
                held.undo, held.deadline_ms = None, UNLOCKED
                if held.state != AVAILABLE:
                    continue
                delay_ms = 0 if limits is None else limits.delay_of(held.count, held.delay_ms)
                if delay_ms:
                    held.state, held.member, held.deadline_ms = ACQUIRED, WAITING, now_ms + delay_ms
                    self._lock_until(held.deadline_ms)
                else:
                    self.window.freed(first)
                    freed = True
        return self.window.move_start() or freed

    def unwritten(self, write: StateWrite, now_ms: int) -> bool:
        """A write has failed; whether a fetch that waits may find more now. Locks that ended meanwhile stay so."""
        limit = write.delivery_count_limit
        if limit is None:
            return self.window.move_start()
        freed = False
        for batch in write.batches:
            freed |= self._undo(batch, limit, now_ms)
        return freed

    def _undo(self, batch: StateBatch, limit: int, now_ms: int | None) -> bool:
        """Give records back to the member that had them, unless its lock has ended; whether some are available now."""
        window, freed = self.window, False
        for first, last, held in list(window.unsettled(*batch[:2])):
            assert held.undo is not None
            was_complete = held.state > ACQUIRED
            if now_ms is not None and held.deadline_ms <= now_ms:
                held.state = ARCHIVED if held.count >= limit else AVAILABLE
                held.member, held.deadline_ms = NOBODY, UNLOCKED
            else:
                held.state, held.member = ACQUIRED, held.undo
                self._lock_until(held.deadline_ms)
            held.undo = None
            if was_complete and held.state <= ACQUIRED:
                window.complete_count -= window.counted(first, last)
            if held.state == AVAILABLE:
                freed = True
                window.freed(first)
                if first < window.start_offset:
                    window.archive(first, window.start_offset, AVAILABLE)
        return freed


class _Draft:
    """Changes that are to be written together."""

    def __init__(self, partition: SharePartition, limits: DeliveryLimits) -> None:
        self.limits = limits
        self._partition = partition
        self._batches: list[StateBatch] = []
        self._dead: list[Dead] = []

    def change(self, held: InFlightState, first: int, last: int, state: int, cause: int, delay_ms: int = -1) -> None:
        """Take records from their member; the cause counts if they are given up by that."""
        window = self._partition.window
        held.undo, held.delay_ms = held.member, delay_ms
        held.let_go(state, self.limits.delivery_count)
        self._batches.append(StateBatch(first, last, held.state, held.count))
        if held.state > ACQUIRED:
            window.complete_count += window.counted(first, last)
        if held.state == ARCHIVED and cause:
            self._dead.append(Dead(first, last, held.count, cause))

    def undo(self) -> None:
        """Forget the changes."""
        for batch in self._batches:
            self._partition._undo(batch, self.limits.delivery_count, None)

    def write(self) -> StateWrite | None:
        """What is to be written; None for nothing."""
        if not self._batches:
            return None
        return self._partition._write(self._batches, self.limits.delivery_count, self._dead)


def _check_owner(held: InFlightState, member: str) -> None:
    """Raise unless a member may say something of records."""
    if held.state != ACQUIRED:
        raise InvalidRecordState("the records are not acquired, or their state is being written")
    if held.member != member:
        raise InvalidRecordState("the records are another member's")


def _joined(batches: list[StateBatch]) -> list[StateBatch]:
    """Neighbours in one state as one batch."""
    joined: list[StateBatch] = []
    for batch in batches:
        if joined and joined[-1].last_offset + 1 == batch.first_offset and joined[-1][2:] == batch[2:]:
            batch = batch._replace(first_offset=joined.pop().first_offset)
        joined.append(batch)
    return joined


def persister_error(code: int, message: str) -> KafkaError:
    """What a client is told of an error of the share coordinator."""
    match code:
        case CoordinatorNotAvailable.code | NotCoordinator.code | CoordinatorLoadInProgress.code:
            return CoordinatorNotAvailable(message)
        case GroupIdNotFound.code:
            return GroupIdNotFound(message)
        case UnknownTopicOrPartition.code:
            return UnknownTopicOrPartition(message)
        case FencedLeaderEpoch.code | FencedStateEpoch.code:
            return NotLeaderOrFollower(message)
    return UnknownServerError(message)
