"""Bugs that are planted in the process of a test: each breaks one rule that the shipped code keeps.

`python tests/sim/planted.py [BUG...]` says at which seed the simulation finds them.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple, Protocol

import pytest

from kavka.broker import wiring
from kavka.broker.gate import Gate
from kavka.catalog.machine import Following
from kavka.catalog.segment import SegmentState
from kavka.controller.partition_changes import PartitionChanges
from kavka.coordinator.groups import GroupCoordinator
from kavka.coordinator.streams.kind import StreamsKind
from kavka.coordinator.streams.state import StreamsGroup
from kavka.coordinator.txn import machine as txn
from kavka.metadata.image import emit
from kavka.metadata.records.security import UserScramCredentialRecord
from kavka.model.errors import KafkaError, NotLeaderOrFollower
from kavka.model.share import DeadLetterProducer
from kavka.model.transition import PARKED, SetTimer, Transition
from kavka.quorum import driver, snapshotting
from kavka.raft import electing, leading, membership
from kavka.raft.messages import Vote
from kavka.raft.node import RaftNode, Role
from kavka.records.builder import BatchBuilder
from kavka.replica import fetcher, unified_log
from kavka.replica.offloading import next_sealed
from kavka.replica.unified_log import UnifiedLog
from kavka.replication.leader import PartitionLeader
from kavka.runtime import remote_log_manager, share_persister
from kavka.runtime.dead_letters import DeadLetters
from kavka.runtime.led_share import LedShare
from kavka.runtime.remote_log_manager import RemoteLogManager
from kavka.runtime.shard import CoordinatorState, Shard
from kavka.share.partition import SharePartition
from kavka.storage import dirs, replay
from kavka.storage import log as logs
from kavka.storage.producer_snapshot import encode_snapshot
from kavka.storage.producer_state import ProducerStates
from kavka.testing.sim import ViolationError, simulate
from kavka.testing.sim.client import Workload
from kavka.testing.sim.seeds import same_hashes
from kavka.testing.sim.workloads.administration import Administration
from kavka.testing.sim.workloads.members import Members
from kavka.testing.sim.workloads.offsets import Offsets
from kavka.testing.sim.workloads.records import Records
from kavka.testing.sim.workloads.repeats import Repeats
from kavka.testing.sim.workloads.rights import Rights
from kavka.testing.sim.workloads.schemas import Schemas
from kavka.testing.sim.workloads.shares import Shares
from kavka.testing.sim.workloads.streams import Streams
from kavka.testing.sim.workloads.tiers import Tiers
from kavka.testing.sim.workloads.transactions import Transactions

Patch = pytest.MonkeyPatch


class Plant(Protocol):
    """Plants a bug."""

    def __call__(self, patch: Patch, /) -> None: ...


class Planted(NamedTuple):
    """A bug and the workloads that are to find it."""

    plant: Plant
    workloads: Sequence[type[Workload]]
    first: int = 0
    """The seed that is tried first: one that has found it. Any change may have another find it."""

    def seeds(self, count: int) -> list[int]:
        """So many seeds, the best guess first."""
        return [self.first, *(seed for seed in range(count) if seed != self.first)][:count]


def acknowledge_before_commit(patch: Patch) -> None:
    """A leader takes for committed what only it has."""
    patch.setattr(PartitionLeader, "high_watermark", lambda self, end_offset, *_: end_offset)


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
        if self.state is not CoordinatorState.ACTIVE:
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
        return Transition(
            None, found.records, tuple(effect for effect in found.effects if not isinstance(effect, SetTimer))
        )

    patch.setattr(GroupCoordinator, "on_loaded", on_loaded)


def lose_markers_on_failover(patch: Patch) -> None:
    """A transaction coordinator that takes over does not end what was decided, nor abort what is late."""
    patch.setattr(txn.TransactionCoordinator, "on_loaded", lambda self, now_ms: Transition(None))


def vote_twice(patch: Patch) -> None:
    """A voter gives its vote to whoever asks."""

    def can_grant(node: RaftNode, vote: Vote) -> bool:
        up_to_date = (vote.last_epoch, vote.last_offset) >= (node.log.last_epoch, node.log.end_offset)
        return node.role is not Role.LEADER and up_to_date

    patch.setattr(electing, "_can_grant", can_grant)


def commit_an_old_epoch(patch: Patch) -> None:
    """A new leader of the quorum commits what another wrote before it has written anything itself."""

    def update(node: RaftNode, now_ms: int) -> None:
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
    patch.setattr(PartitionChanges, "crashed", lambda self, broker_id: iter(()))


def believe_the_leader_too_much(patch: Patch) -> None:
    """A follower takes everything it has for committed."""
    patch.setattr(unified_log, "committed_offset", lambda known, leader, end_offset: end_offset)


# -- tiers


def count_what_is_remote_as_local_too(patch: Patch) -> None:
    """Retention by size goes by a local log whose highest remote offset is not known (KAFKA-20732)."""
    patch.setattr(UnifiedLog, "local_bytes_from", lambda self, offset: self.size_bytes)


def answer_before_the_catalogue_caught_up(patch: Patch) -> None:
    """A catalogue that was not read to its end is asked all the same."""
    patch.setattr(Following, "is_ready", Following.is_followed)


def copy_above_the_last_stable_offset(patch: Patch) -> None:
    """A leader copies segments whose transactions are open, and so without those that are aborted later."""

    class Decided(NamedTuple):
        log: Any
        last_stable_offset: int

    def next_(log: UnifiedLog, from_offset: int) -> Any:
        return next_sealed(Decided(log.log, log.high_watermark), from_offset)  # type: ignore[arg-type]

    patch.setattr(remote_log_manager, "next_sealed", next_)


def end_deletions_without_removing(patch: Patch) -> None:
    """A leader says that a segment is deleted whose objects it has left where they are."""

    async def remove(self: RemoteLogManager, name: Any, segment: Any) -> None:
        await self._move(name, segment, SegmentState.DELETE_SEGMENT_FINISHED)

    patch.setattr(RemoteLogManager, "_remove", remove)


# -- share and streams groups


def answer_before_the_write(patch: Patch) -> None:
    """A share partition's leader answers acknowledgements that are not written yet."""
    real = LedShare._write

    def write(self: LedShare, write: Any, done: Any) -> None:
        done(None)
        real(self, write, lambda error: None)

    patch.setattr(LedShare, "_write", write)


def begin_empty_when_loading_fails(patch: Patch) -> None:
    """A share partition whose state cannot be read begins where the log does, as if nothing had been acknowledged."""
    real = LedShare._loaded
    patch.setattr(share_persister, "PATIENCE_MS", 20)  # so that it fails sooner

    async def loaded(self: LedShare) -> SharePartition:
        try:
            return await real(self)
        except KafkaError:
            return SharePartition.load(self.leader_epoch, 0, self.partition.log_start_offset, ())

    patch.setattr(LedShare, "_loaded", loaded)


def keep_locks_across_leadership(patch: Patch) -> None:
    """A leader goes on with the share partitions of the last time it led."""

    real = LedShare.drop

    def drop(self: LedShare, why: KafkaError) -> None:
        if not isinstance(why, NotLeaderOrFollower):
            real(self, why)

    patch.setattr(LedShare, "drop", drop)
    patch.setattr(LedShare, "is_led", property(lambda self: self.failure is None and self.partition.leads))


def number_dead_letters_anew(patch: Patch) -> None:
    """A batch of dead letters whose answer was lost is sent as another one."""

    async def send(self: DeadLetters, producer: DeadLetterProducer, builder: BatchBuilder) -> None:
        while True:
            builder.producer_id = await self.new_producer_id()
            builder.producer_epoch = builder.base_sequence = 0
            try:
                await self._append(producer.topic_id, producer.partition, builder.build())
                return
            except KafkaError:
                await asyncio.sleep(0.2)

    patch.setattr(DeadLetters, "send", send)


def give_tasks_that_others_have(patch: Patch) -> None:
    """A streams group gives out tasks that their owners have not given back."""
    patch.setattr(StreamsGroup, "active", property(lambda self: {}, lambda self, value: None), raising=False)


def let_former_owners_commit(patch: Patch) -> None:
    """A streams group takes offsets from whoever names himself, whatever his epoch."""
    patch.setattr(StreamsKind, "check_commit", lambda *arguments: None)


# -- security


def decide_by_the_first_rules(patch: Patch) -> None:
    """A broker goes by the access rules that it began with."""
    real = Gate.apply

    def apply(self: Gate, image: Any, delta: Any) -> None:
        if not self.loaded:
            real(self, image, delta)

    patch.setattr(Gate, "apply", apply)


def leave_users_out_of_snapshots(patch: Patch) -> None:
    """A snapshot of the metadata does not hold the users."""
    real = emit.records_of

    def records_of(image: Any) -> Any:
        return (record for record in real(image) if not isinstance(record, UserScramCredentialRecord))

    patch.setattr(snapshotting, "records_of", records_of)


PLANTED = {
    "acknowledge before commit": Planted(acknowledge_before_commit, [Records]),
    "forget the epoch check": Planted(forget_the_epoch_check, [Transactions], first=3),
    "skip a producer snapshot": Planted(skip_a_producer_snapshot, [Repeats], first=4),
    "answer a coordinator's read before commit": Planted(read_before_commit, [Offsets], first=4),
    "acknowledge a coordinator's write before commit": Planted(answer_before_commit, [Offsets], first=2),
    "acknowledge a schema before commit": Planted(answer_before_commit, [Schemas], first=2),
    "lose timers on failover": Planted(lose_timers_on_failover, [Members], first=2),
    "lose markers on failover": Planted(lose_markers_on_failover, [Transactions]),
    "vote twice": Planted(vote_twice, [Administration]),
    "commit an old epoch": Planted(commit_an_old_epoch, [Administration]),
    "forget the vote": Planted(forget_the_vote, [Administration]),
    "leave out a truncation": Planted(leave_out_a_truncation, [Records], first=2),
    "take an unclean stop for a clean one": Planted(take_an_unclean_stop_for_a_clean_one, [Records], first=1),
    "keep a crashed broker in sync": Planted(keep_a_crashed_broker_in_sync, [Records], first=3),
    "believe the leader too much": Planted(believe_the_leader_too_much, [Records], first=10),
    "count what is remote as local too": Planted(count_what_is_remote_as_local_too, [Tiers]),
    "answer before the catalogue caught up": Planted(answer_before_the_catalogue_caught_up, [Tiers], first=66),
    "copy above the last stable offset": Planted(copy_above_the_last_stable_offset, [Tiers]),
    "end deletions without removing": Planted(end_deletions_without_removing, [Tiers]),
    "answer an acknowledgement before the write": Planted(answer_before_the_write, [Shares], first=2),
    "begin empty when loading fails": Planted(begin_empty_when_loading_fails, [Shares], first=4),
    "keep locks across leadership": Planted(keep_locks_across_leadership, [Shares], first=5),
    "give tasks that others have": Planted(give_tasks_that_others_have, [Streams], first=21),
    "let former owners commit": Planted(let_former_owners_commit, [Streams]),
    "number dead letters anew": Planted(number_dead_letters_anew, [Shares], first=9),
    "decide by the first rules": Planted(decide_by_the_first_rules, [Rights]),
    "leave users out of snapshots": Planted(leave_users_out_of_snapshots, [Rights], first=1),
}


class Found(NamedTuple):
    """At which seed a bug was found, and by what."""

    bug: str
    seed: int | None
    what: str
    seconds: float


def find(bug: str, seeds: int) -> Found:
    """Run seeds with a bug until one fails."""
    began = time.monotonic()
    planted = PLANTED[bug]
    with pytest.MonkeyPatch.context() as patch:
        planted.plant(patch)
        for seed in planted.seeds(seeds):
            try:
                simulate(seed, planted.workloads)
            except ViolationError as violation:
                return Found(bug, seed, str(violation), time.monotonic() - began)
    return Found(bug, None, "not found", time.monotonic() - began)


def main() -> int:
    """Print a line for each bug; 1 if one is not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bugs", nargs="*", metavar="BUG", default=[])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    found: list[Found] = []
    with same_hashes(), ProcessPoolExecutor(given.processes, context, max_tasks_per_child=1) as pool:
        for row in pool.map(find, given.bugs or PLANTED, [given.seeds] * len(given.bugs or PLANTED)):
            found.append(row)
            seed = "-" if row.seed is None else str(row.seed)
            sys.stdout.write(f"{row.bug:50} {seed:>4}  {row.what[:160]}\n")
            sys.stdout.flush()
    return 1 if any(row.seed is None for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
