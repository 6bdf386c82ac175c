"""One group's records in flight in one partition that this node leads: loaded, timed and written.

The machine (`share.partition`) decides; here its state is read from the share coordinator before anybody acquires
anything, what it decides is written there before it is answered, and one timer takes back what was locked too long.
One write is under way at a time: what is decided meanwhile goes with the next one, so that no write overtakes another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from kavka.coordinator.share.settings import ShareGroupSettings
from kavka.coordinator.share_state.machine import StateChange
from kavka.model.clock import Clock
from kavka.model.errors import (
    InvalidRecordState,
    KafkaError,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    UnknownServerError,
)
from kavka.model.settings.group import reset_duration_ms
from kavka.model.share import (
    ACKNOWLEDGED,
    AVAILABLE,
    NO_START_OFFSET,
    SharePartitionKey,
    StateBatch,
)
from kavka.pacing.turn import Turn
from kavka.replica.partition import Partition
from kavka.replica.tier import result_of
from kavka.runtime.dead_letters import DeadLetters, DeadLetterWriter
from kavka.runtime.share_persister import SharePersister
from kavka.runtime.timers import Timer, Timers
from kavka.share.acquiring import Acquired, DeliveryLimits
from kavka.share.partition import FENCING, Acknowledgement, SharePartition, StateWrite, persister_error
from kavka.share.window import UNLOCKED

logger = logging.getLogger(__name__)

Done = Callable[[KafkaError | None], None]
"""Is told that something is written, or why not."""

SEARCH_MS: Final = 30_000


class DelayedShareFetch(Protocol):
    """A fetch that waits for records."""

    def news(self) -> None:
        """There may be some."""


class ShareCounts:
    """What has become of records on this node."""

    __slots__ = ("accepted", "acquired", "archived", "expired", "redelivered", "released")

    def __init__(self) -> None:
        self.acquired = 0
        self.redelivered = 0
        """Of those acquired: not for the first time."""
        self.accepted = 0
        self.released = 0
        self.expired = 0
        """Taken back because their lock had ended."""
        self.archived = 0
        """Rejected, gone, or delivered as often as they may be."""

    def wrote(self, batches: Iterable[StateBatch]) -> None:
        """Count what was written of records."""
        for first, last, state, _ in batches:
            if state == ACKNOWLEDGED:
                self.accepted += last - first + 1
            elif state == AVAILABLE:
                self.released += last - first + 1
            else:
                self.archived += last - first + 1


class LedShares(NamedTuple):
    """What all share partitions of a node share."""

    clock: Clock
    timers: Timers
    persister: SharePersister
    settings_of: Callable[[str], ShareGroupSettings]
    """A group's settings, as they are now."""
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    """Gives others a turn."""
    dropped: Callable[[LedShare], None]
    """Is told that a share partition is of no use any more."""
    counts: ShareCounts
    dead_letters: DeadLetters


class LedShare:
    """A share partition of this node."""

    def __init__(
        self, key: SharePartitionKey, partition: Partition, around: LedShares, before: LedShare | None = None
    ) -> None:
        """`before` is one that was dropped and may still write: it is waited for."""
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.led_since = partition.led_since
        self.machine: SharePartition | None = None
        """None until it is loaded."""
        self.failure: KafkaError | None = None
        """Why it is not used any more, or never was."""
        self.waiting: set[DelayedShareFetch] = set()
        self.reading = False
        """Whether a fetch waits for records of it in tiered storage: no other reads it meanwhile."""
        self._around = around
        self._letters = DeadLetterWriter(key, partition, around.dead_letters, around.persister)
        self._timer: Timer | None = None
        self._timer_at_ms = UNLOCKED
        self._to_write: list[tuple[StateWrite, Done]] = []
        self.finished = asyncio.Event()
        """Set once it is loaded, while nothing is being written."""
        self.retiring = False
        """Whether it is to be dropped when all is written, because nobody of its group is here."""
        around.spawn(self._load(before))

    @property
    def limits(self) -> DeliveryLimits:
        """What the group's settings allow now."""
        return limits_of(self._around.settings_of(self.key.group_id))

    @property
    def is_led(self) -> bool:
        """Whether this node still leads the partition, without a break since it was loaded."""
        partition = self.partition
        return self.failure is None and partition.leads and partition.led_since == self.led_since

    @property
    def in_flight(self) -> int:
        """How many records count as in flight."""
        return 0 if self.machine is None else self.machine.window.in_flight

    @property
    def lag(self) -> int:
        """How many committed records the group is not done with."""
        if self.machine is None:
            return 0
        window = self.machine.window
        return max(0, self.partition.high_watermark - window.start_offset - window.complete_count)

    def wake(self) -> None:
        """Let the fetches look that wait here."""
        waiting, self.waiting = self.waiting, set()
        for fetch in waiting:
            fetch.news()

    # -- loading ----------------------------------------------------------------------------------

    async def _load(self, before: LedShare | None) -> None:
        try:
            if before is not None:
                await before.finished.wait()
            machine = await self._loaded()
        except KafkaError as error:
            logger.info("share partition %s: loading its state failed: %s", self.key, error)
            self._loading_ended(error)
        except Exception:
            logger.exception("share partition %s: loading its state failed", self.key)
            self._loading_ended(UnknownServerError("the share partition cannot be loaded"))
        else:
            if self.failure is None:
                self.machine = machine
            self._loading_ended(None)

    def _loading_ended(self, error: KafkaError | None) -> None:
        self.finished.set()
        if error is not None:
            self.drop(error)
        elif self.retiring:
            self.retire()
        elif self.failure is None:
            self.wake()

    async def _loaded(self) -> SharePartition:
        try:
            found = await self._around.persister.read(self.key, self.leader_epoch)
        except KafkaError as error:
            raise persister_error(error.code, error.message) from error
        start = found.start_offset
        if start == NO_START_OFFSET:
            start = await self._first_offset()
        machine = SharePartition.load(self.leader_epoch, found.state_epoch, start, found.batches)
        window, settings = machine.window, self._around.settings_of(self.key.group_id)
        stands = StateChange(found.state_epoch, self.leader_epoch, window.start_offset, window.complete_count, ())
        try:
            await self._letters.finish(found, stands, settings)
        except KafkaError as error:
            raise persister_error(error.code, error.message) from error
        return machine

    async def _first_offset(self) -> int:
        """Where a group begins that has never read the partition, as its settings say."""
        partition, reset = self.partition, self._around.settings_of(self.key.group_id).auto_offset_reset
        if reset == "earliest":
            return partition.log_start_offset
        if reset == "latest":
            if partition.behind_epoch_start:
                raise OffsetNotAvailable(f"{partition.topic_partition} has a new leader that has not caught up yet")
            return partition.high_watermark
        since_ms = self._around.clock.now_ms() - reset_duration_ms(reset)
        found = await result_of(partition.search_timestamp(since_ms), Turn(), SEARCH_MS)
        if found is None or found.offset >= partition.high_watermark:
            return partition.high_watermark
        return found.offset

    # -- what is decided ----------------------------------------------------------------------------

    def acknowledge(self, member: str, said: Iterable[Acknowledgement], done: Done) -> None:
        """Take a member's word on records; `done` is told when it is written, or why it does not count."""
        machine = self.machine
        if not self.is_led:
            done(
                self.failure
                or NotLeaderOrFollower(f"the leader of {self.partition.topic_partition} is another node now")
            )
            return
        if machine is None:
            done(InvalidRecordState(f"nothing of {self.partition.topic_partition} is acquired"))
            return
        try:
            write = machine.acknowledge(member, said, self.limits, self._now_ms())
        except KafkaError as error:
            done(error)
            return
        self._write(write, done)

    def acquired(self, records: Sequence[Acquired]) -> None:
        """A member has got records, or none: count them, and see that they are taken back in time."""
        counts = self._around.counts
        for first, last, deliveries in records:
            counts.acquired += last - first + 1
            if deliveries > 1:
                counts.redelivered += last - first + 1
        self.armed()
        if not records and self.machine is not None and self.failure is None:
            self._write(self.machine.moved(), self._note)  # what was read was aborted: nobody will answer for it

    def release(self, member: str) -> None:
        """Take back all that a member has."""
        if self.machine is not None and self.failure is None:
            self._write(self.machine.release(member, self.limits), self._note)

    def armed(self) -> None:
        """Something may have been locked: see that it is taken back in time."""
        deadline_ms = UNLOCKED if self.machine is None else self.machine.deadline_ms
        if deadline_ms == UNLOCKED or (self._timer is not None and self._timer_at_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = deadline_ms
        self._timer = self._around.timers.set(deadline_ms - self._now_ms(), self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self.machine is None or self.failure is not None:
            return
        write = self.machine.expire(self.limits, self._now_ms())
        self.armed()
        if write is None:
            self.wake()  # records may have waited to be delivered again
        else:
            self._around.counts.expired += sum(last - first + 1 for first, last, _, _ in write.batches)
            self._write(write, self._note)
            self.wake()  # it is available at once, written or not

    def retire(self) -> None:
        """Drop it, once what was decided is written."""
        if self.finished.is_set():
            self.drop(NotLeaderOrFollower("no member of the group has a share session here"))
        else:
            self.retiring = True

    def drop(self, why: KafkaError) -> None:
        """Another leads, or another state is in force: nobody acquires anything here any more."""
        if self.failure is not None:
            return
        self.failure = why
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.machine is not None:
            self.machine.fence()
        unwritten, self._to_write = self._to_write, []
        for _, done in unwritten:
            done(why)
        self._around.dropped(self)
        self.wake()

    def _now_ms(self) -> int:
        return self._around.clock.monotonic_ms()

    # -- writing ----------------------------------------------------------------------------------

    def _write(self, write: StateWrite | None, done: Done) -> None:
        if write is None:
            done(None)
            return
        self._to_write.append((write, done))
        if self.finished.is_set():
            self.finished.clear()
            self._around.spawn(self._write_all())

    async def _write_all(self) -> None:
        try:
            while self._to_write:
                writes, self._to_write = self._to_write, []
                self._wrote(writes, await self._write_some([write for write, _ in writes]))
        finally:
            self.finished.set()
        if self.retiring:
            self.drop(NotLeaderOrFollower("no member of the group has a share session here"))

    async def _write_some(self, writes: list[StateWrite]) -> KafkaError | None:
        settings = self._around.settings_of(self.key.group_id)
        dead = [dead_range for write in writes for dead_range in write.dead] if settings.dead_letter_topic else []
        change = joined(writes)
        try:
            if dead:
                await self._letters.write(change, dead, settings)
            else:
                await self._around.persister.write(self.key, change)
        except KafkaError as error:
            return persister_error(error.code, error.message)
        except Exception:
            logger.exception("share partition %s: writing its state failed", self.key)
            return UnknownServerError("the state of the share partition cannot be written")
        return None

    def _wrote(self, writes: list[tuple[StateWrite, Done]], error: KafkaError | None) -> None:
        machine, news = self.machine, False
        assert machine is not None
        for write, done in writes:
            if error is None:
                news |= machine.written(write, self.limits, self._now_ms())
                self._around.counts.wrote(write.batches)
            else:
                news |= machine.unwritten(write, self._now_ms())
            done(error)
        if isinstance(error, FENCING):
            self.drop(error)
        elif error is not None and any(write.dead for write, _ in writes):
            self.drop(NotLeaderOrFollower("it is not known which records are archived: they are loaded anew"))
        elif self.failure is None:
            self.armed()
            if news:
                self.wake()

    def _note(self, error: KafkaError | None) -> None:
        """What nobody waits for is noted, if it failed."""
        if error is not None:
            logger.info("share partition %s: writing released records failed: %s", self.key, error)


def joined(writes: list[StateWrite]) -> StateChange:
    """Several writes as one: the last one knows best where the share partition stands."""
    last = writes[-1]
    batches: list[StateBatch] = [batch for write in writes for batch in write.batches]
    return StateChange(last.state_epoch, last.leader_epoch, last.start_offset, last.delivery_complete_count, batches)


def limits_of(settings: ShareGroupSettings) -> DeliveryLimits:
    """What the machine goes by."""
    return DeliveryLimits(
        settings.partition_max_record_locks,
        settings.delivery_count_limit,
        settings.record_lock_duration_ms,
        settings.renew_acknowledge_enable,
        settings.redelivery_delay_ms,
        settings.redelivery_delay_max_ms,
    )
