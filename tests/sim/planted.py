"""Bugs that are planted in the process of a test: each breaks one rule that the shipped code keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import pytest

from kavka.broker import wiring
from kavka.controller import leadership
from kavka.coordinator.groups import GroupCoordinator
from kavka.coordinator.txn import machine as txn
from kavka.model.transition import PARKED, SetTimer, Transition
from kavka.quorum import driver
from kavka.raft import electing, leading, membership
from kavka.raft.messages import Vote
from kavka.raft.node import Node, Role
from kavka.replica import fetcher, unified_log
from kavka.replication.leader import Leadership
from kavka.runtime.shard import Shard, State
from kavka.storage import dirs, replay
from kavka.storage import log as logs
from kavka.storage.producer_snapshot import encode_snapshot
from kavka.storage.producer_state import ProducerStates
from kavka.testing.sim.client import Workload
from kavka.testing.sim.workloads.administration import Administration
from kavka.testing.sim.workloads.members import Members
from kavka.testing.sim.workloads.offsets import Offsets
from kavka.testing.sim.workloads.records import Records
from kavka.testing.sim.workloads.repeats import Repeats
from kavka.testing.sim.workloads.transactions import Transactions

Patch = pytest.MonkeyPatch


class Plant(Protocol):
    """Plants a bug."""

    def __call__(self, patch: Patch, /) -> None: ...


class Planted(NamedTuple):
    """A bug and the workloads that are to find it."""

    plant: Plant
    workloads: Sequence[type[Workload]]


def acknowledge_before_commit(patch: Patch) -> None:
    """A leader takes for committed what only it has."""
    patch.setattr(Leadership, "high_watermark", lambda self, end_offset, *_: end_offset)


def forget_the_epoch_check(patch: Patch) -> None:
    """A transaction coordinator lets a producer that was fenced go on."""

    def of(self: txn.TransactionCoordinator, transactional_id: str, producer: Any) -> Any:
        found = self._named(transactional_id)
        self._require_ended(transactional_id, found)
        return found

    patch.setattr(txn.TransactionCoordinator, "_of", of)
    patch.setattr(txn, "check_end", lambda *_: None)
    patch.setattr(ProducerStates, "_check_epoch", lambda *_: None)


def skip_a_producer_snapshot(patch: Patch) -> None:
    """A log that is closed in order leaves a snapshot with no producers in it."""
    real = replay.write_snapshot

    def write(disk: Any, directory: str, producers: ProducerStates, offset: int) -> str | None:
        path = real(disk, directory, producers, offset)
        if path is not None:
            disk.write_file(path, encode_snapshot(()))
        return path

    patch.setattr(logs, "write_snapshot", write)


def read_before_commit(patch: Patch) -> None:
    """A coordinator answers a read from what it has replayed, committed or not."""
    real = Shard.submit

    async def submit(self: Shard[Any], decide: Any, token: Any = None) -> Any:
        if self.state is not State.ACTIVE:
            raise self.refusal()
        transition = decide(self.machine, self._around.clock.now_ms())
        reads = transition.reply is not PARKED and not transition.records and not transition.effects
        return transition.reply if reads else await real(self, lambda machine, now_ms: transition, token)

    patch.setattr(Shard, "submit", submit)


def answer_before_commit(patch: Patch) -> None:
    """A coordinator acknowledges what it has written, committed or not."""

    def when_committed(self: Shard[Any], done: Any) -> None:
        done(None)

    patch.setattr(Shard, "_when_committed", when_committed)


def lose_timers_on_failover(patch: Patch) -> None:
    """A group coordinator that takes over does not wait for the members it finds."""
    real = GroupCoordinator.on_loaded

    def on_loaded(self: GroupCoordinator, now_ms: int) -> Transition[None]:
        found = real(self, now_ms)
        return Transition(None, found.records, tuple(one for one in found.effects if not isinstance(one, SetTimer)))

    patch.setattr(GroupCoordinator, "on_loaded", on_loaded)


def lose_markers_on_failover(patch: Patch) -> None:
    """A transaction coordinator that takes over does not end what was decided, nor abort what is late."""
    patch.setattr(txn.TransactionCoordinator, "on_loaded", lambda self, now_ms: Transition(None))


def vote_twice(patch: Patch) -> None:
    """A voter gives its vote to whoever asks."""

    def can_grant(node: Node, vote: Vote) -> bool:
        up_to_date = (vote.last_epoch, vote.last_offset) >= (node.log.last_epoch, node.log.end_offset)
        return node.role is not Role.LEADER and up_to_date

    patch.setattr(electing, "_can_grant", can_grant)


def commit_an_old_epoch(patch: Patch) -> None:
    """A new leader of the quorum commits what another wrote before it has written anything itself."""

    def update(node: Node, now_ms: int) -> None:
        led = node.leading
        if led is not None and (offset := led.followers.majority_offset()) > led.high_watermark:
            led.high_watermark = offset
            node.advance_high_watermark(offset)
            membership.on_commit(node, led)
            leading.answer_parked(node, now_ms, everyone=True)

    patch.setattr(leading, "update_high_watermark", update)


def forget_the_vote(patch: Patch) -> None:
    """A voter does not remember over a restart which epoch it has seen, and whom it voted for."""
    patch.setattr(driver, "write_quorum_state", lambda *_: None)


def leave_out_a_truncation(patch: Patch) -> None:
    """A follower keeps what its leader does not have."""
    patch.setattr(fetcher, "truncation_offset", lambda diverging, epochs, end_offset: end_offset)


def take_an_unclean_stop_for_a_clean_one(patch: Patch) -> None:
    """A broker that lost power says that it has everything that it had."""
    real = dirs.take_clean_shutdown

    def take(disk: Any, root: str) -> int | None:
        found = real(disk, root)
        return 0 if found is None else found

    patch.setattr(wiring, "take_clean_shutdown", take)


def keep_a_crashed_broker_in_sync(patch: Patch) -> None:
    """The controller lets a broker that may have lost something stay in sync."""
    patch.setattr(leadership.Leadership, "crashed", lambda self, broker_id: iter(()))


def believe_the_leader_too_much(patch: Patch) -> None:
    """A follower takes everything it has for committed."""
    patch.setattr(unified_log, "committed_offset", lambda known, leader, end_offset: end_offset)


PLANTED = {
    "acknowledge before commit": Planted(acknowledge_before_commit, [Records]),
    "forget the epoch check": Planted(forget_the_epoch_check, [Transactions]),
    "skip a producer snapshot": Planted(skip_a_producer_snapshot, [Repeats]),
    "answer a coordinator's read before commit": Planted(read_before_commit, [Offsets]),
    "acknowledge a coordinator's write before commit": Planted(answer_before_commit, [Offsets]),
    "lose timers on failover": Planted(lose_timers_on_failover, [Members]),
    "lose markers on failover": Planted(lose_markers_on_failover, [Transactions]),
    "vote twice": Planted(vote_twice, [Administration]),
    "commit an old epoch": Planted(commit_an_old_epoch, [Administration]),
    "forget the vote": Planted(forget_the_vote, [Administration]),
    "leave out a truncation": Planted(leave_out_a_truncation, [Records]),
    "take an unclean stop for a clean one": Planted(take_an_unclean_stop_for_a_clean_one, [Records]),
    "keep a crashed broker in sync": Planted(keep_a_crashed_broker_in_sync, [Records]),
    "believe the leader too much": Planted(believe_the_leader_too_much, [Records]),
}
