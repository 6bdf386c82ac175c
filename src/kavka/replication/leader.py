"""What the leader of a partition knows of its followers, and what follows from it: the ISR and the high watermark.

The rules are Kafka's. A follower is in sync while it had everything at most `max_lag_ms` ago. The high watermark is the
smallest end offset over the in-sync replicas, counting those that are about to join (KIP-497), and over followers that
have caught up and may join; it stands still while fewer replicas are in sync than `min_isr` (KIP-966).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from kavka.model.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NewLeaderElected,
    NotLeaderOrFollower,
    OperationNotAttempted,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kavka.model.types import Uuid
from kavka.replication.isr import ANY_EPOCH, BrokerEpoch, IsrChange, IsrOutcome

UNKNOWN: Final = -1
NEVER_MS: Final = -(1 << 62)

NOT_APPLIED: Final = frozenset({OperationNotAttempted.code, IneligibleReplica.code})
"""The controller knows the partition as we do and has refused: what was committed still holds."""
OUT_OF_DATE: Final = frozenset(
    {
        UnknownTopicOrPartition.code,
        UnknownTopicId.code,
        FencedLeaderEpoch.code,
        InvalidUpdateVersion.code,
        InvalidRequest.code,
        NewLeaderElected.code,
    }
)
"""The controller knows more than we do: the change stays open until the metadata tells."""


class Broker(Protocol):
    """What the metadata says of a broker."""

    @property
    def epoch(self) -> int:
        """The epoch of its registration."""

    @property
    def active(self) -> bool:
        """Whether it may join an ISR: neither fenced nor in controlled shutdown."""


Brokers = Mapping[int, Broker]


class Follower:
    """How far a follower is, by its fetches."""

    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "fetched_ms",
        "id",
        "leader_end_at_fetch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, id_: int) -> None:
        self.id = id_
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch: int | None = None
        self.leader_end_at_fetch = UNKNOWN
        self.fetched_ms = NEVER_MS
        self.caught_up_ms = NEVER_MS

    def reset(self, end_offset: int, now_ms: int, *, in_sync: bool) -> None:
        """An epoch begins: an in-sync follower has its full time to show itself, another has to catch up first."""
        self.caught_up_ms = now_ms if in_sync else NEVER_MS
        if self.broker_epoch is not None:
            self.leader_end_at_fetch = end_offset
            self.fetched_ms = now_ms if in_sync else NEVER_MS

    def put_out(self) -> None:
        """The controller has taken it out of the ISR, perhaps for a failed disk: it has to fetch before it is back."""
        self.log_end_offset = UNKNOWN
        self.caught_up_ms = self.fetched_ms = NEVER_MS

    def fetched(self, offset: int, log_start_offset: int, broker_epoch: int, end_offset: int, now_ms: int) -> None:
        """It has fetched from an offset, and so has everything before it."""
        if offset >= end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_at_fetch:
            # It has now all that there was when it asked the last time; under steady writes it may never have more.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = offset
        self.leader_end_at_fetch = max(end_offset, self.leader_end_at_fetch)
        self.fetched_ms = now_ms
        self.broker_epoch = broker_epoch

    def caught_up(self, end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether it has everything, or had not long ago."""
        return self.log_end_offset == end_offset or now_ms - self.caught_up_ms <= max_lag_ms


class PartitionLeader:
    """A partition with followers whose leader is this node."""

    __slots__ = (
        "epoch",
        "epoch_start",
        "followers",
        "isr",
        "joining",
        "node_id",
        "partition",
        "partition_epoch",
        "pending",
        "topic_id",
    )

    def __init__(self, node_id: int, topic_id: Uuid, partition: int) -> None:
        self.node_id = node_id
        self.topic_id = topic_id
        self.partition = partition
        self.epoch = UNKNOWN
        self.epoch_start = 0
        self.partition_epoch = UNKNOWN
        self.followers: dict[int, Follower] = {}
        self.isr: tuple[int, ...] = ()
        self.joining: tuple[int, ...] = ()
        """Replicas of a change under way that are not in sync yet by the metadata."""
        self.pending: IsrChange | None = None

    def lead(
        self,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Iterable[int],
        isr: tuple[int, ...],
        epoch_start: int,
        now_ms: int,
    ) -> bool:
        """Take over what the metadata says, unless it is old news; a new epoch starts at `epoch_start`."""
        if partition_epoch < self.partition_epoch:
            return False
        # An epoch left out was somebody else's: what the followers had may have been cut since.
        known = self.followers if leader_epoch <= self.epoch + 1 else {}
        self.followers = {id_: known.get(id_) or Follower(id_) for id_ in replicas if id_ != self.node_id}
        self.partition_epoch = partition_epoch
        for id_ in set(self.isr).difference(isr).intersection(self.followers):
            self.followers[id_].put_out()
        self._commit(isr)
        if leader_epoch > self.epoch:
            self.epoch = leader_epoch
            self.epoch_start = epoch_start
            for follower in self.followers.values():
                follower.reset(epoch_start, now_ms, in_sync=follower.id in isr)
        return True

    def _commit(self, isr: tuple[int, ...]) -> None:
        self.isr = isr
        self.joining = ()
        self.pending = None

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The maximal ISR: the in-sync replicas, and those that the controller may have added already."""
        return self.isr + self.joining

    # -- progress -------------------------------------------------------------------------------------

    def follower(self, id_: int, asked_epoch: int) -> Follower:
        """A replica of this partition; an unknown one is told to come again: one of us has yet to hear of a change."""
        follower = self.followers.get(id_)
        if follower is None:
            if asked_epoch >= 0:
                raise UnknownLeaderEpoch(f"node {id_} is no replica in leader epoch {self.epoch}")
            raise NotLeaderOrFollower(f"node {id_} is no replica in leader epoch {self.epoch}")
        return follower

    def fetched(
        self,
        follower: Follower,
        broker_epoch: int,
        offset: int,
        log_start_offset: int,
        end_offset: int,
        now_ms: int,
        brokers: Brokers,
    ) -> None:
        """A follower has fetched; one with a stale broker epoch is refused (KIP-903)."""
        known = brokers.get(follower.id)
        if broker_epoch != ANY_EPOCH and known is not None and known.epoch > broker_epoch:
            raise NotLeaderOrFollower(f"node {follower.id} has the broker epoch {known.epoch}, not {broker_epoch}")
        follower.fetched(offset, log_start_offset, broker_epoch, end_offset, now_ms)

    def appended(self, before: int, now_ms: int) -> None:
        """The log goes on: whoever had everything until now has been caught up until now."""
        for follower in self.followers.values():
            if follower.log_end_offset == before:
                follower.caught_up_ms = now_ms

    # -- commits --------------------------------------------------------------------------------------

    def high_watermark(self, end_offset: int, min_isr: int, now_ms: int, max_lag_ms: int, brokers: Brokers) -> int:
        """The high watermark; -1 while the ISR is smaller than min.insync.replicas."""
        if len(self.isr) < min(min_isr, len(self.followers) + 1):
            return UNKNOWN
        found = end_offset
        for follower in self.followers.values():
            if follower.log_end_offset < found and (
                follower.id in self.isr
                or follower.id in self.joining
                or (follower.caught_up(end_offset, now_ms, max_lag_ms) and self._may_join(follower, brokers))
            ):
                found = follower.log_end_offset
        return found

    def enough(self, min_isr: int) -> bool:
        """Whether a committed record is on as many replicas as the topic demands."""
        return len(self.isr) + len(self.joining) >= min(min_isr, len(self.followers) + 1)

    def low_watermark(self, log_start_offset: int, brokers: Brokers) -> int:
        """The low watermark: the smallest log start offset of the live replicas."""
        starts = [
            follower.log_start_offset
            for follower in self.followers.values()
            if follower.id in brokers and brokers[follower.id].active
        ]
        return min([log_start_offset, *starts])

    # -- in-sync replicas -----------------------------------------------------------------------------

    def _may_join(self, follower: Follower, brokers: Brokers) -> bool:
        """Only an active broker, with the broker epoch it fetched with, may join the ISR (KIP-841, KIP-903)."""
        broker = brokers.get(follower.id)
        stored = follower.broker_epoch
        return broker is not None and broker.active and stored is not None and stored in (ANY_EPOCH, broker.epoch)

    def expand(self, follower: Follower, high_watermark: int, brokers: Brokers) -> IsrChange | None:
        """Ask for a follower that has caught up with all that is committed, and with this epoch's start, to be in sync.

        Before it has the epoch's start it may lack records that an earlier leader committed.
        """
        if (
            self.pending is not None
            or follower.id in self.isr
            or follower.log_end_offset < max(high_watermark, self.epoch_start)
            or not self._may_join(follower, brokers)
        ):
            return None
        # It counts at once: that only holds the high watermark back should the controller refuse.
        self.joining = (follower.id,)
        return self._propose((*self.isr, follower.id), brokers)

    def shrink(self, end_offset: int, now_ms: int, max_lag_ms: int, brokers: Brokers) -> IsrChange | None:
        """Propose an ISR without the followers that fell behind; they count until the controller agrees."""
        if self.pending is not None or len(self.isr) <= 1:
            return None
        new_isr = tuple(id_ for id_ in self.isr if self._in_sync(id_, end_offset, now_ms, max_lag_ms))
        return self._propose(new_isr, brokers) if len(new_isr) < len(self.isr) else None

    def _in_sync(self, id_: int, end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        if id_ == self.node_id:
            return True
        follower = self.followers.get(id_)
        return follower is not None and follower.caught_up(end_offset, now_ms, max_lag_ms)

    def _propose(self, isr: tuple[int, ...], brokers: Brokers) -> IsrChange:
        states = tuple(BrokerEpoch(id_, self._broker_epoch(id_, brokers)) for id_ in isr)
        self.pending = IsrChange(self.topic_id, self.partition, self.epoch, self.partition_epoch, states)
        return self.pending

    def _broker_epoch(self, id_: int, brokers: Brokers) -> int:
        if id_ == self.node_id:
            return brokers[id_].epoch if id_ in brokers else ANY_EPOCH
        follower = self.followers.get(id_)
        return ANY_EPOCH if follower is None or follower.broker_epoch is None else follower.broker_epoch

    def answered(self, change: IsrChange, outcome: IsrOutcome) -> bool:
        """Take in the controller's answer; whether the change has to be asked for again."""
        if self.pending is not change:
            return False  # the metadata was faster
        if outcome.error_code in NOT_APPLIED:
            self._commit(self.isr)
        elif outcome.error_code in OUT_OF_DATE:
            pass
        elif outcome.error_code:
            return True
        elif outcome.leader_epoch == self.epoch and outcome.partition_epoch >= self.partition_epoch:
            self.partition_epoch = outcome.partition_epoch
            self._commit(outcome.isr)
        return False

    # -- reading from followers -------------------------------------------------------------------------

    def readable_at(self, offset: int) -> list[Follower]:
        """The in-sync followers that have an offset (KIP-392), the most advanced first."""
        found = [
            follower
            for follower in self.followers.values()
            if follower.id in self.isr and follower.log_start_offset <= offset <= follower.log_end_offset
        ]
        return sorted(found, key=lambda follower: (-follower.log_end_offset, -follower.caught_up_ms, follower.id))
