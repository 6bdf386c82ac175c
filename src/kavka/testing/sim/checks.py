"""What must hold in every run, looked at whenever it could break. A violation says what, when, and which seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kavka.metadata.image import PartitionImage
from kavka.metadata.image.topics import LeaderRecoveryState
from kavka.raft.effects import ElectionState
from kavka.raft.messages import OffsetAndEpoch
from kavka.raft.voters import VoterSet
from kavka.testing.sim.disk import Entry, SimLog
from kavka.testing.sim.replica import Key
from kavka.testing.sim.world import World

if TYPE_CHECKING:
    from kavka.testing.sim.node import SimNode


class ViolationError(AssertionError):
    """Something happened that must never happen."""


class Acked:
    """A record whose producer was told that it is committed."""

    __slots__ = ("epoch", "key", "offset", "value")

    def __init__(self, key: Key, value: Any, offset: int, epoch: int) -> None:
        self.key = key
        self.value = value
        self.offset = offset
        self.epoch = epoch


class Checks:
    """Watches one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.nodes: dict[int, SimNode] = {}
        self.leaders: dict[int, int] = {}
        """By epoch: who was elected."""
        self.log: list[Entry] = []
        """The committed metadata log, as any node has seen it."""
        self.acked: dict[Key, dict[int, Acked]] = {}
        self.voter_changes = 0
        self.snapshots = 0
        self.truncations = 0
        self._election: dict[int, ElectionState] = {}
        self._unclean: set[Key] = set()

    def fail(self, what: str) -> None:
        """Give up: the run has shown a fault."""
        raise ViolationError(f"{what} (at {self._world.now_ms} ms of seed {self._world.seed})")

    # -- the quorum -------------------------------------------------------------------------------------

    def persisted(self, node: int, state: ElectionState) -> None:
        """Epochs only grow, and there is one vote in each."""
        before = self._election.get(node)
        if before is not None:
            if state.epoch < before.epoch:
                self.fail(f"node {node} goes back from epoch {before.epoch} to {state.epoch}")
            if state.epoch == before.epoch and before.voted and state.voted and before.voted != state.voted:
                self.fail(f"node {node} votes for {state.voted.id} after {before.voted.id} in epoch {state.epoch}")
        self._election[node] = state

    def elected(self, node: int, epoch: int, now_ms: int) -> None:
        """One leader in each epoch."""
        known = self.leaders.setdefault(epoch, node)
        if known != node:
            self.fail(f"nodes {known} and {node} both lead epoch {epoch}")

    def committed(self, node: int, before: int, after: int, log: SimLog, leads: bool) -> None:
        """What is committed never goes back, and is the same everywhere."""
        if after < before:
            self.fail(f"the high watermark of node {node} goes back from {before} to {after}")
        if after > log.end_offset:
            self.fail(f"node {node} takes {after} for committed but its log ends at {log.end_offset}")
        if after > len(self.log) and not leads:
            self.fail(f"node {node} takes {after} for committed before any leader does")
        start = max(before, log.start_offset)
        for offset, entry in enumerate(log.slice(start, after), start):
            if offset < len(self.log):
                known = self.log[offset]
                if known.epoch != entry.epoch or known.value is not entry.value:
                    self.fail(f"node {node} has another record committed at {offset} than the others")
            else:
                self.log.append(entry)

    def leader_committed(self, high_watermark: int, epoch_start: int, voters: VoterSet) -> None:
        """A leader commits nothing before something of its own epoch; that lies on the disks of a majority."""
        if high_watermark <= epoch_start:
            self.fail(f"{high_watermark} is committed by a leader whose epoch starts at {epoch_start}")
        having = 0
        for voter in voters:
            node = self.nodes.get(voter.key.id)
            if node is None:
                continue
            log = node.disk.metadata
            if log.synced >= high_watermark and (not node.alive or log.end_offset >= high_watermark):
                having += 1
        if having * 2 <= len(voters):
            self.fail(f"{high_watermark} is committed but on the disks of only {having} of {len(voters)} voters")

    def truncated(self, node: int, offset: int, high_watermark: int) -> None:
        """Nothing that is committed is cut off."""
        self.truncations += 1
        if offset < high_watermark:
            self.fail(f"node {node} cuts its metadata log at {offset}, but {high_watermark} is committed")

    def snapshot_taken(self, node: int, id_: OffsetAndEpoch, high_watermark: int) -> None:
        """A snapshot holds only what is committed."""
        self.snapshots += 1
        if id_.offset > high_watermark:
            self.fail(f"node {node} takes a snapshot at {id_.offset} while only {high_watermark} is committed")

    def voters_written(self, offset: int, before: VoterSet, after: VoterSet, high_watermark: int) -> None:
        """One voter comes or goes at a time."""
        gone = [one for one in before if not any(one.key.names(other.key) for other in after)]
        come = [one for one in after if not any(other.key.names(one.key) for other in before)]
        changed = gone + come
        if len(changed) > 1:
            self.fail(f"the voters change by {len(changed)} at once at {offset}")
        if changed:
            self.voter_changes += 1

    def died(self, node: int) -> None:
        """A process has ended; what its disk lost must not have been counted on."""
        state = self.nodes[node].disk.election
        if state is not None:
            self._election[node] = state

    # -- partitions -----------------------------------------------------------------------------------------

    def ack(self, key: Key, value: Any, offset: int, epoch: int) -> None:
        """A producer was told that its record is committed."""
        known = self.acked.setdefault(key, {})
        if offset in known:
            self.fail(f"records {known[offset].value} and {value} of {key[1]} were both acknowledged at {offset}")
        known[offset] = Acked(key, value, offset, epoch)

    def leads(self, node: int, key: Key, image: PartitionImage, log: SimLog) -> None:
        """A new leader has every record that was acknowledged."""
        if image.leader_recovery_state == LeaderRecoveryState.RECOVERING:
            self._unclean.add(key)
        for acked in self.acked.get(key, {}).values():
            if acked.epoch < image.leader_epoch:
                self._must_have(node, log, acked, f"leads epoch {image.leader_epoch}")

    def _must_have(self, node: int, log: SimLog, acked: Acked, why: str) -> None:
        if acked.offset < log.start_offset:
            return
        found = log.slice(acked.offset, acked.offset + 1)
        if not found or found[0].value != acked.value:
            self.fail(f"node {node} {why} of {acked.key[1]} without the acknowledged record at {acked.offset}")

    def follows(self, node: int, key: Key, log: SimLog, base: int, entries: Sequence[Entry]) -> None:
        """A follower's log goes on where its leader's does."""
        if entries and base != log.end_offset:
            self.fail(f"node {node} is given offset {base} of {key[1]} but its log ends at {log.end_offset}")

    def cut(self, node: int, key: Key, offset: int, high_watermark: int) -> None:
        """A follower cut its log off."""
        self.truncations += 1

    def prefixes(self) -> None:
        """Up to what both take for committed, replicas are the same."""
        replicas: dict[Key, list[tuple[int, SimLog, int]]] = {}
        for node in self.nodes.values():
            if node.alive:
                for key, one in node.broker.replicas.items():
                    replicas.setdefault(key, []).append((node.id, one.log, one.high_watermark))
        for key, found in replicas.items():
            first_id, first, first_committed = found[0]
            for other_id, other, other_committed in found[1:]:
                start = max(first.start_offset, other.start_offset)
                end = min(first_committed, other_committed)
                mine, theirs = first.slice(start, end), other.slice(start, end)
                if mine != theirs:
                    self.fail(f"nodes {first_id} and {other_id} differ in what is committed of partition {key[1]}")

    def complete(self) -> None:
        """When all is well again: every replica has every acknowledged record."""
        self.prefixes()
        for key, records in self.acked.items():
            for node in self.nodes.values():
                replica = node.broker.replicas.get(key)
                if replica is not None:
                    for acked in records.values():
                        self._must_have(node.id, replica.log, acked, "has partition")
