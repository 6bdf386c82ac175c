"""One machine and the partition that remembers it: decide, write, replay, answer when committed.

Records are replayed as soon as they are decided and written together with those of the other requests of the same turn
of the loop. A reply leaves when the high watermark has passed everything that was written before it, so that nobody
hears of what may still be lost. If a write fails, the machine knows more than the log: it is dropped and loaded anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kavka.coordinator.record import Unknown
from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image.metadata import MetadataImage
from kavka.model.clock import Clock
from kavka.model.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from kavka.model.settings.values import Values
from kavka.model.transition import PARKED, Answer, CancelTimer, Divisible, Parked, Publish, SetTimer, Transition
from kavka.model.types import TopicPartition
from kavka.records.builder import BatchBuilder
from kavka.replica.offset_wait import Done, OffsetWait
from kavka.runtime.timers import Timer, Timers

logger = logging.getLogger(__name__)

T = TypeVar("T")
M = TypeVar("M", bound="StateMachine")
Decide = Callable[[M, int], Transition[T]]
"""Asks a machine for a decision, at a time in milliseconds."""

RECORD_OVERHEAD: Final = 32
"""More than the bytes that a batch needs for a record beside its key and value."""


class Port(Protocol):
    """What a shard needs of its partition."""

    led_since: int
    """The leader epoch in which this node came to lead, without a break since."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Which one it is."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that may be appended."""

    @property
    def sync_due(self) -> bool:
        """Whether what was appended must be forced to disk before anyone hears of it."""

    def append_own(self, batch: bytes, now_ms: int, transaction_version: int = 0) -> int:
        """Append a batch; its first offset. The version is that of a transaction's marker."""

    def read_own(self, offset: int, max_bytes: int) -> bytes:
        """Batches from an offset on, committed or not; nothing at the log's end."""

    def when_committed(self, offset: int, done: Done) -> OffsetWait:
        """Call back once what is before an offset is committed, perhaps at once; or with why it will not be here."""


class StateMachine(Protocol):
    """A pure state machine; `replay` is the only writer of what the log remembers."""

    def replay(self, record: Any, offset: int, producer_id: int = -1) -> None:
        """Take in a record that lies at an offset of the log."""

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Take in the marker that ends a producer's transaction."""

    def on_loaded(self, now_ms: int) -> Transition[None]:
        """All of the log was replayed."""

    def on_timer(self, key: Any, now_ms: int) -> Transition[None]:
        """A timer has gone off."""

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta) -> Transition[None]:
        """The cluster's metadata has changed."""

    def on_settings(self, values: Values) -> None:
        """The settings of the node have changed."""


class RecordCodec(Protocol):
    """How the records of a topic lie in its log."""

    def encode(self, record: Any, /) -> tuple[bytes, bytes | None]:
        """Key and value of a record."""

    def decode(self, key: bytes | None, value: bytes | None, /) -> Any | Unknown:
        """The record of a key and a value; never raises."""


class ShardRuntime(NamedTuple):
    """What all shards of a node share."""

    loop: asyncio.AbstractEventLoop
    clock: Clock
    timers: Timers
    force: Callable[[Port, Done], None]
    """Forces a partition's log to disk and then calls back."""
    commit_timeout_ms: int
    linger_ms: int
    """How long records wait for others; not positive: until the end of the loop's turn."""
    codec: int = 0
    """How batches are compressed."""
    publish: Callable[[Shard[Any], Any], None] = lambda shard, news: None
    """Is told what a shard's machine publishes."""


class CoordinatorState(Enum):
    """How far a shard is."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class UncommittedBatch:
    """A batch that is in the log but perhaps not committed, and who waits for it."""

    __slots__ = ("committed", "deadline_ms", "forced", "wait", "waiting")

    def __init__(self, waiting: list[Done], deadline_ms: int, forced: bool) -> None:
        self.waiting = waiting
        self.deadline_ms = deadline_ms
        self.forced = forced
        self.committed = False
        self.wait: OffsetWait | None = None

    def tell(self, error: KafkaError | None) -> None:
        """Tell all who wait."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(error)


class Shard(Generic[M]):
    """A machine, the partition that this node leads for it, and the requests that wait."""

    def __init__(
        self,
        port: Port,
        machine: M,
        codec: RecordCodec,
        around: ShardRuntime,
        failed: Callable[[Shard[M]], None],
    ) -> None:
        self.port = port
        self.led_since = port.led_since
        self.machine = machine
        self.codec = codec
        self.state = CoordinatorState.LOADING
        self._around = around
        self._failed = failed
        self._broken: KafkaError | None = None
        self._builder: BatchBuilder | None = None
        self._next_offset = 0
        self._unwritten: list[Done] = []
        self._written: deque[UncommittedBatch] = deque()
        self._parked: dict[Hashable, asyncio.Future[Any]] = {}
        self._timers: dict[Hashable, Timer] = {}
        self._flushing: asyncio.Handle | None = None
        self._commit_timer: Timer | None = None
        self._missed: list[tuple[MetadataImage, MetadataDelta]] = []

    # -- requests -----------------------------------------------------------------------------------

    async def submit(self, decide: Decide[M, T], token: Hashable = None) -> T:
        """Let the machine decide and answer when all that was written is committed; raises what the machine raises,
        then too: what it is refused by may be lost still.

        A decision that parks the request is answered under its token, by an effect of this or a later decision.
        """
        if self.state is not CoordinatorState.ACTIVE:
            raise self.refusal()
        now_ms = self._around.clock.now_ms()
        try:
            transition = decide(self.machine, now_ms)
        except Exception:
            await self._all_committed()
            raise
        reply = transition.reply
        if reply is PARKED:
            waiter: asyncio.Future[T] = self._around.loop.create_future()
            self._parked[token] = waiter
            self.carry_out(transition, now_ms)
            return await waiter
        if transition.records or transition.effects:
            self.carry_out(transition, now_ms)
            if self._broken is not None:
                raise self._broken
        await self._all_committed()
        return reply

    async def submit_transactional(self, decide: Decide[M, T], producer_id: int, producer_epoch: int) -> T:
        """Let the machine decide what a producer's transaction writes: it counts once the transaction is committed."""
        if self.state is not CoordinatorState.ACTIVE:
            raise self.refusal()
        now_ms = self._around.clock.now_ms()
        try:
            transition = decide(self.machine, now_ms)
        except Exception:
            await self._all_committed()
            raise
        if transition.records:
            self._require(self.flush())
            builder = BatchBuilder(producer_id=producer_id, producer_epoch=producer_epoch, transactional=True)
            for record in transition.records:
                builder.append(*self.codec.encode(record), now_ms)
            try:
                first = self._append_apart(builder.build(), builder.count, now_ms)
            except KafkaError as error:
                raise coordinator_error(error) from error
            for number, record in enumerate(transition.records):
                self.machine.replay(record, first + number, producer_id)
        self.carry_out(Transition(None, (), transition.effects), now_ms)
        await self._all_committed()
        assert not isinstance(transition.reply, Parked)
        return transition.reply

    async def end_transaction(self, marker: bytes, producer_id: int, *, committed: bool, version: int = 0) -> None:
        """Write the marker that ends a producer's transaction, and let the machine act on it."""
        if self.state is not CoordinatorState.ACTIVE:
            raise self.refusal()
        self._require(self.flush())
        self._append_apart(marker, 1, self._around.clock.now_ms(), version)
        self.machine.replay_end_transaction(producer_id, committed=committed)
        await self._all_committed()

    def _append_apart(self, batch: bytes, count: int, now_ms: int, version: int = 0) -> int:
        """Append a batch of its own, when all before it is written; nothing has changed if it is refused."""
        first = self.port.append_own(batch, now_ms, version)
        if first != self._next_offset:
            error = NotCoordinator(f"somebody else wrote to {self.port.topic_partition}")
            self.start_over(error)
            raise error
        self._next_offset += count
        self._wrote([])
        return first

    def _require(self, written: bool) -> None:
        if not written:
            raise self._broken or self.refusal()

    def refusal(self) -> KafkaError:
        """Why this shard takes no requests."""
        if self.state is CoordinatorState.LOADING:
            return CoordinatorLoadInProgress(f"{self.port.topic_partition} is being loaded")
        return NotCoordinator(f"this node is not the coordinator of {self.port.topic_partition}")

    async def _all_committed(self) -> None:
        if self._builder is None and not self._written:
            return
        waiter: asyncio.Future[None] = self._around.loop.create_future()
        self._when_committed(lambda error: settle(waiter, None, error))
        await waiter

    # -- decisions of the machine -------------------------------------------------------------------

    def carry_out(self, transition: Transition[Any], now_ms: int) -> None:
        """Replay and write a decision's records, and run its effects; answers wait until the records are committed."""
        if transition.records:
            self._take(transition.records, now_ms)
            if self._broken is not None:
                return  # all who wait have been told
        answers: list[Answer] = []
        for effect in transition.effects:
            if isinstance(effect, Answer):
                answers.append(effect)
            elif isinstance(effect, Publish):
                self._publish(effect.news)
            else:
                self._set_timer(effect, now_ms)
        if answers:
            self._when_committed(lambda error: self._answer(answers, error))

    def _answer(self, answers: list[Answer], error: KafkaError | None) -> None:
        for key, reply in ((answer.key, answer.reply) for answer in answers):
            waiter = self._parked.pop(key, None)
            if waiter is not None:
                failure = reply if isinstance(reply, KafkaError) else None
                settle(waiter, reply, error or failure)

    def _publish(self, news: Any) -> None:
        """Tell the surroundings once it is sure, however long that takes; a shard that starts over tells it anew."""

        def committed(error: KafkaError | None) -> None:
            if error is None:
                self._around.publish(self, news)
            elif self.state is CoordinatorState.ACTIVE:
                self._when_committed(committed)

        self._when_committed(committed)

    def _set_timer(self, effect: SetTimer | CancelTimer, now_ms: int) -> None:
        key = effect.key
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if isinstance(effect, SetTimer):
            self._timers[key] = self._around.timers.set(effect.at_ms - now_ms, lambda: self._fire(key))

    def _fire(self, key: Hashable) -> None:
        del self._timers[key]
        self.run(lambda machine, now_ms: machine.on_timer(key, now_ms))

    def run(self, decide: Decide[M, None]) -> None:
        """Let the machine decide for itself; nobody waits for it."""
        if self.state is not CoordinatorState.ACTIVE:
            return
        now_ms = self._around.clock.now_ms()
        try:
            self.carry_out(decide(self.machine, now_ms), now_ms)
        except Exception:
            # The machine may have stopped halfway: what the log says is the only sure ground.
            logger.exception("%s: coordinator failed, reloading the shard", self.port.topic_partition)
            self.start_over(UnknownServerError("the coordinator failed"))

    # -- writing ------------------------------------------------------------------------------------

    def _take(self, records: Sequence[Any], now_ms: int) -> None:
        """Replay records and put them into the batch of this turn; only divisible ones may be parted."""
        encoded = [self.codec.encode(record) for record in records]
        sizes = [size_of(key, value) for key, value in encoded]
        divisible = isinstance(records, Divisible)
        self._make_room(sizes[0] if divisible else sum(sizes))
        try:
            for record, (key, value), size in zip(records, encoded, sizes, strict=True):
                if divisible:
                    self._make_room(size)
                if self._broken is not None:
                    return
                builder = self._builder or self._begin_batch()
                self.machine.replay(record, self._next_offset)
                builder.append(key, value, now_ms)
                self._next_offset += 1
        except Exception:
            logger.exception(
                "%s: cannot replay the coordinator's own records, reloading the shard", self.port.topic_partition
            )
            self.start_over(UnknownServerError("a decision of the coordinator cannot be replayed"))

    def _make_room(self, size: int) -> None:
        """Write what is waiting if as many bytes more would be too many for one batch."""
        if self._builder is not None and self._builder.size + size > self.port.max_batch_bytes:
            self.flush()

    def _begin_batch(self) -> BatchBuilder:
        self._builder = BatchBuilder(codec=self._around.codec)
        loop, linger_ms = self._around.loop, self._around.linger_ms
        if linger_ms > 0:
            self._flushing = loop.call_later(linger_ms / 1000, self.flush)
        else:
            self._flushing = loop.call_soon(self.flush)
        return self._builder

    def flush(self) -> bool:
        """Write the batch that is waiting; whether there is none left."""
        builder, waiting = self._builder, self._unwritten
        if builder is None:
            return True
        if self._flushing is not None:
            self._flushing.cancel()
        self._builder, self._unwritten, self._flushing = None, [], None
        clock = self._around.clock
        try:
            first = self.port.append_own(builder.build(), clock.now_ms())
            if first + builder.count != self._next_offset:
                raise NotCoordinator(f"somebody else wrote to {self.port.topic_partition}")
        except KafkaError as error:
            logger.warning("%s: append failed: %s", self.port.topic_partition, error)
            self._unwritten = waiting
            self.start_over(error)
            return False
        self._wrote(waiting)
        return True

    def _wrote(self, waiting: list[Done]) -> None:
        """A batch is in the log: those who wait hear when it is committed, and on disk if it has to be."""
        written = self._await_commit(waiting, forced=not self.port.sync_due)
        if not written.forced:
            self._around.force(self.port, lambda error: self._forced(written, error))

    def _await_commit(self, waiting: list[Done], *, forced: bool = True) -> UncommittedBatch:
        deadline_ms = self._around.clock.monotonic_ms() + self._around.commit_timeout_ms
        written = UncommittedBatch(waiting, deadline_ms, forced)
        self._written.append(written)
        written.wait = self.port.when_committed(self._next_offset, lambda error: self._committed(written, error))
        self._settle()
        return written

    def _forced(self, written: UncommittedBatch, error: KafkaError | None) -> None:
        if written not in self._written:
            return
        if error is not None:
            self.start_over(error)
            return
        written.forced = True
        self._settle()

    # -- commits ------------------------------------------------------------------------------------

    def _when_committed(self, done: Done) -> None:
        """Call when everything that was decided so far is committed, which may be now."""
        if self._builder is not None:
            self._unwritten.append(done)
        elif self._written:
            self._written[-1].waiting.append(done)
        else:
            done(None)

    def _committed(self, written: UncommittedBatch, error: KafkaError | None) -> None:
        """A batch is committed; or another node leads now, and this shard is soon closed, or loaded anew."""
        if error is not None:
            written.tell(coordinator_error(error))
            return
        written.committed = True
        if self._written and self._written[0].committed:
            self._settle()

    def _settle(self) -> None:
        written = self._written
        while written and written[0].forced and written[0].committed:
            written.popleft().tell(None)
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
        if written:
            delay_ms = written[0].deadline_ms - self._around.clock.monotonic_ms()
            self._commit_timer = self._around.timers.set(delay_ms, self._give_up)

    def _give_up(self) -> None:
        """Tell those who have waited for a commit too long; what they wrote may still become committed."""
        now_ms = self._around.clock.monotonic_ms()
        late = [write for write in self._written if write.deadline_ms <= now_ms]
        for write in late:
            write.deadline_ms = now_ms + self._around.commit_timeout_ms
            write.tell(coordinator_error(RequestTimedOut("the records were not committed in time")))
        self._commit_timer = None
        self._settle()

    # -- beginning and end ----------------------------------------------------------------------------

    def loaded(self) -> None:
        """All of the log was replayed: take requests from now on."""
        self.state = CoordinatorState.ACTIVE
        self._next_offset = self.port.log_end_offset
        self._await_commit([])  # what an earlier leader wrote last: nobody shall hear of it before it is committed
        self.run(lambda machine, now_ms: machine.on_loaded(now_ms))
        missed, self._missed = self._missed, []
        for image, delta in missed:
            self.on_metadata(image, delta)

    def on_metadata(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The cluster's metadata has changed; a machine that is being loaded hears of it afterwards."""
        if self.state is CoordinatorState.LOADING:
            self._missed.append((image, delta))
        else:
            self.run(lambda machine, _: machine.on_metadata(image, delta))

    def start_over(self, error: KafkaError) -> None:
        """The machine is ahead of the log, or astray: tell all who wait, and have it loaded anew."""
        self._broken = coordinator_error(error)
        self._stop(CoordinatorState.LOADING, self._broken)
        self._failed(self)

    def restart(self, machine: M) -> None:
        """Begin anew with an empty machine, which is to be loaded."""
        self.machine = machine
        self.state = CoordinatorState.LOADING
        self._broken = None
        self._missed = []

    def close(self) -> None:
        """The leader of the partition is another node, or it is gone."""
        self._stop(
            CoordinatorState.CLOSED,
            NotCoordinator(f"this node is not the coordinator of {self.port.topic_partition} any more"),
        )

    def _stop(self, state: CoordinatorState, error: KafkaError) -> None:
        self.state = state
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
        for write in self._written:
            if write.wait is not None:
                write.wait.cancel()
        self._missed = []
        waiting = [done for write in self._written for done in write.waiting] + self._unwritten
        self._written, self._unwritten, self._builder = deque(), [], None
        for done in waiting:
            done(error)
        parked, self._parked = self._parked, {}
        for waiter in parked.values():
            settle(waiter, None, NotCoordinator(f"the coordinator of {self.port.topic_partition} starts over"))


def settle(waiter: asyncio.Future[T], reply: T, error: KafkaError | None) -> None:
    """Answer a waiter, unless it has gone."""
    if waiter.done():
        return
    if error is not None:
        waiter.set_exception(error)
    else:
        waiter.set_result(reply)


def size_of(key: bytes, value: bytes | None) -> int:
    """No fewer bytes than a record takes in a batch."""
    return RECORD_OVERHEAD + len(key) + (0 if value is None else len(value))


def coordinator_error(error: KafkaError) -> KafkaError:
    """What a client is told of a failed write: only errors that it knows of a coordinator."""
    if isinstance(error, UnknownTopicOrPartition | NotEnoughReplicas | RequestTimedOut):
        return CoordinatorNotAvailable(error.message)
    if isinstance(error, NotLeaderOrFollower | KafkaStorageError):
        return NotCoordinator(error.message)
    if isinstance(error, MessageTooLarge | RecordListTooLarge):
        return UnknownServerError(error.message)
    return error
