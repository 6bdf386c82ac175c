"""A partition on one simulated node: the shipped decisions of leader and follower over a simulated log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.metadata.image import PartitionImage
from kavka.model.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from kavka.model.types import Uuid
from kavka.replication import follower as following
from kavka.replication.isr import IsrChange, IsrOutcome
from kavka.replication.leader import Leadership
from kavka.testing.sim.disk import Entry, PartitionFiles

if TYPE_CHECKING:
    from kavka.testing.sim.broker import SimBroker

MAX_LAG_MS: Final = 3_000
MAX_ENTRIES: Final = 20

Key = tuple[Uuid, int]


class FetchFrom(NamedTuple):
    """What a follower asks for of one partition."""

    key: Key
    leader_epoch: int
    offset: int
    last_epoch: int
    log_start: int


class Fetched(NamedTuple):
    """What its leader answers."""

    key: Key
    error: int
    high_watermark: int = -1
    log_start: int = 0
    diverging: tuple[int, int] | None = None
    base: int = 0
    entries: tuple[Entry, ...] = ()


class Committed(NamedTuple):
    """What a producer is told of its record: where it is, and in which leader epoch it was committed."""

    offset: int
    leader_epoch: int


class Waiting(NamedTuple):
    """A producer that waits for its record to be committed."""

    offset: int
    answer: Callable[[Any], None]


class SimReplica:
    """One replica of a partition."""

    def __init__(self, broker: SimBroker, key: Key, files: PartitionFiles, leadership: type[Leadership]) -> None:
        self.broker = broker
        self.key = key
        self.log = files.log
        self.files = files
        self.high_watermark = min(files.high_watermark, self.log.end_offset)
        self.now: PartitionImage | None = None
        self.leadership = leadership(broker.id, *key)
        self.waiting: list[Waiting] = []
        self.failures = 0
        self.retry_ms = 0

    @property
    def leads(self) -> bool:
        """Whether this node is the leader, as far as it knows."""
        return self.now is not None and self.now.leader == self.broker.id

    @property
    def leader_epoch(self) -> int:
        """The leader epoch as far as this node knows."""
        return -1 if self.now is None else self.now.leader_epoch

    def follow(self, image: PartitionImage) -> None:
        """Take over what the metadata says."""
        before, self.now = self.now, image
        new_epoch = before is None or before.leader_epoch != image.leader_epoch
        if self.leads:
            if new_epoch:
                self.log.assign(image.leader_epoch, self.log.end_offset)
                self.broker.checks.leads(self.broker.id, self.key, image, self.log)
            start = self.log.end_offset
            self.leadership.lead(
                image.leader_epoch, image.partition_epoch, image.replicas, image.isr, start, self.broker.world.now_ms
            )
            self.advance()
        else:
            self._fail_waiting()
            if new_epoch and image.leader >= 0:
                end = following.start_offset(self.log, self.log.end_offset, self.high_watermark)
                if end < self.log.end_offset:
                    self.truncate(end)
                self.failures = self.retry_ms = 0

    def _fail_waiting(self) -> None:
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            one.answer(NotLeaderOrFollower("another replica leads now"))

    # -- as the leader ----------------------------------------------------------------------------------

    def produce(self, value: Any, answer: Callable[[Any], None]) -> None:
        """Append a record for all in-sync replicas."""
        min_isr = self.broker.min_isr
        if not self.leads:
            answer(NotLeaderOrFollower("not the leader"))
        elif len(self.leadership.isr) < min(min_isr, len(self.leadership.followers) + 1):
            answer(NotEnoughReplicas("too few"))
        else:
            before = self.log.end_offset
            self.log.append([value], self.leader_epoch)
            self.leadership.appended(before, self.broker.world.now_ms)
            self.waiting.append(Waiting(before, answer))
            self.advance()
            self.broker.has_news()

    def advance(self) -> None:
        """Commit what all in-sync replicas have, and tell who waits for it."""
        broker = self.broker
        found = self.leadership.high_watermark(
            self.log.end_offset, broker.min_isr, broker.world.now_ms, MAX_LAG_MS, broker.brokers
        )
        if found > self.high_watermark:
            self.high_watermark = found
            broker.has_news()
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            if one.offset < self.high_watermark:
                enough = self.leadership.enough(broker.min_isr)
                committed = Committed(one.offset, self.leader_epoch)
                one.answer(committed if enough else NotEnoughReplicas("too few, after the append"))
            else:
                self.waiting.append(one)

    def serve(self, replica: int, broker_epoch: int, asked: FetchFrom) -> Fetched:
        """Answer one partition of a follower's fetch."""
        try:
            self._check(asked.leader_epoch)
            progress = self.leadership.follower(replica, asked.leader_epoch)
            if asked.last_epoch >= 0:
                epoch, end = self.log.end_offset_for(asked.last_epoch, self.log.end_offset)
                if epoch < 0:
                    raise OffsetOutOfRange("an unknown epoch")
                if epoch < asked.last_epoch or end < asked.offset:
                    return Fetched(self.key, 0, self.high_watermark, self.log.start_offset, diverging=(epoch, end))
            if not self.log.start_offset <= asked.offset <= self.log.end_offset:
                raise OffsetOutOfRange("outside of the log")
            broker = self.broker
            self.leadership.fetched(
                progress,
                broker_epoch,
                asked.offset,
                asked.log_start,
                self.log.end_offset,
                broker.world.now_ms,
                broker.brokers,
            )
        except KafkaError as error:
            return Fetched(self.key, error.code)
        self.advance()
        self.propose(self.leadership.expand(progress, self.high_watermark, self.broker.brokers))
        entries = tuple(self.log.slice(asked.offset, asked.offset + MAX_ENTRIES))
        return Fetched(self.key, 0, self.high_watermark, self.log.start_offset, None, asked.offset, entries)

    def _check(self, epoch: int) -> None:
        if epoch < self.leader_epoch:
            raise FencedLeaderEpoch("old")
        if epoch > self.leader_epoch:
            raise UnknownLeaderEpoch("new")
        if not self.leads:
            raise NotLeaderOrFollower("not the leader")

    def look_for_laggards(self) -> None:
        """Propose in-sync replicas without those that fell behind."""
        if self.leads:
            broker = self.broker
            change = self.leadership.shrink(self.log.end_offset, broker.world.now_ms, MAX_LAG_MS, broker.brokers)
            self.propose(change)

    def propose(self, change: IsrChange | None) -> None:
        """Ask the controller for a change of the in-sync replicas."""
        if change is not None:
            self.broker.alter_isr(self, change)

    def answered(self, change: IsrChange, outcome: IsrOutcome) -> None:
        """The controller has decided about a change."""
        if not self.leads:
            return
        if self.leadership.answered(change, outcome):
            self.broker.retry_isr(self, change)
        else:
            self.advance()

    # -- as a follower ------------------------------------------------------------------------------------

    def ask(self) -> FetchFrom:
        """What to fetch next."""
        return FetchFrom(self.key, self.leader_epoch, self.log.end_offset, self.log.latest, self.log.start_offset)

    def take(self, asked: FetchFrom, answer: Fetched) -> None:
        """Take in the leader's answer, unless the leadership has changed since it was asked for."""
        if self.leads or asked.leader_epoch != self.leader_epoch or asked.offset != self.log.end_offset:
            return
        if answer.error:
            self._react(answer.error)
        elif answer.diverging is not None:
            self.truncate(following.truncation_offset(answer.diverging, self.log, self.log.end_offset))
        else:
            self.failures = 0
            self.broker.checks.follows(self.broker.id, self.key, self.log, answer.base, answer.entries)
            self.log.take(list(answer.entries))
            self.high_watermark = following.committed_offset(
                self.high_watermark, answer.high_watermark, self.log.end_offset
            )

    def _react(self, error: int) -> None:
        reaction = following.reaction(error)
        self.failures += 1
        self.retry_ms = self.broker.world.now_ms + following.backoff_ms(reaction, self.failures, 20, 1_000)
        if reaction is following.Reaction.RESET:
            self.broker.ask_offsets(self)

    def reset(self, leader_epoch: int, start: int, end: int) -> None:
        """Go on where the leader has something."""
        if not self.leads and leader_epoch == self.leader_epoch:
            found = following.reset(self.log.end_offset, start, end)
            if found.whole:
                self.log.restart(found.offset, 0)
                self.log.epochs = []
                self.high_watermark = found.offset
            elif found.offset < self.log.end_offset:
                self.truncate(found.offset)

    def truncate(self, offset: int) -> None:
        """Cut the log off."""
        self.broker.checks.cut(self.broker.id, self.key, offset, self.high_watermark)
        self.log.truncate(offset)
        self.high_watermark = min(self.high_watermark, self.log.end_offset)
