"""Several cores over a network, disks and a clock that chance rules; it checks what raft promises at each step."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from raft_log import Entry, MemoryLog, Snapshot

from kavka.model.types import Endpoint, Uuid
from kavka.raft.core import Peer, Raft, RaftConfig
from kavka.raft.effects import (
    Append,
    BecomeLeader,
    Effect,
    ElectionState,
    FetchSnapshotFrom,
    HighWatermark,
    LostLeadership,
    Persist,
    Reply,
    Send,
    StopSnapshot,
    Truncate,
    WriteControl,
)
from kavka.raft.messages import (
    AddVoter,
    AskVersions,
    FetchReply,
    OffsetAndEpoch,
    RemoveVoter,
    SnapshotReply,
    VersionsReply,
    Vote,
    VoteReply,
)
from kavka.raft.voters import ControlChange, ReplicaKey, Voter, VoterHistory, VoterSet


def directory(id_: int, life: int = 0) -> Uuid:
    return Uuid(id_.to_bytes(8, "big", signed=True) + (life + 1).to_bytes(8, "big"))


def voter(id_: int, life: int = 0) -> Voter:
    return Voter(ReplicaKey(id_, directory(id_, life)), (Endpoint("CONTROLLER", f"node{id_}", 9093, ""),))


class Replica:
    """A driver of one core, as small as it can be."""

    def __init__(self, world: World, me: Voter) -> None:
        self.world = world
        self.me = me
        self.log = MemoryLog()
        self.state: ElectionState | None = None
        self.raft: Raft | None = None
        self.life = 0
        self.known = -1  # committed in this life
        self.seen_epoch = 0
        self.formatted: list[ControlChange] = []
        self.static: VoterSet | None = None
        self.fetching: OffsetAndEpoch | None = None
        self.paused_until = 0
        self.wiped = 0

    @property
    def id(self) -> int:
        return self.me.key.id

    def start(self) -> None:
        self.life += 1
        self.known = -1
        self.fetching = None
        self.log.synced = self.log.end_offset
        self.raft = Raft(
            self.me,
            self.log,
            VoterHistory(self.static, [*self.formatted, *self.log.changes()]),
            self.world.random.randrange,
            state=self.state,
            config=self.world.config,
            bootstrap=[Peer(peer.id, peer.me.endpoints) for peer in self.world.replicas.values()],
        )
        self.run(self.raft.start(self.world.now))

    def crash(self) -> None:
        self.raft = None
        self.paused_until = 0
        keep = self.world.random.randint(self.log.synced, self.log.end_offset)
        self.log.truncate(keep)

    def run(self, effects: list[Effect]) -> None:
        """Run effects front to back, then the events that they call for."""
        raft, world = self.raft, self.world
        assert raft is not None
        grown: list[ControlChange] | None = None
        truncated = False
        for effect in effects:
            world.check(self, effect)
            if isinstance(effect, Persist):
                self.state = effect.state
            elif isinstance(effect, Send):
                world.send(self, effect)
            elif isinstance(effect, Reply):
                reply = effect.reply
                if isinstance(reply, FetchReply) and reply.read:
                    offset = effect.token[3].offset
                    reply = reply._replace(records=self.log.read(offset, world.random.randint(1, 4)))
                world.reply(self, effect.token, reply)
            elif isinstance(effect, Append):
                sound = len(effect.records) if world.random.random() >= world.loss else 0
                grown = self.append(effect.records[:sound])
            elif isinstance(effect, Truncate):
                self.log.truncate(effect.offset)
                truncated = True
            elif isinstance(effect, BecomeLeader):
                write = effect.write_voters
                batch = [Entry(effect.epoch, ("leader", self.id))]
                if write is not None:
                    offset = self.log.end_offset + 1
                    change = ControlChange(offset, write, effect.kraft_version)
                    batch.append(Entry(effect.epoch, ("voters", offset), change))
                grown = (grown or []) + self.append(batch)
            elif isinstance(effect, WriteControl):
                change = ControlChange(self.log.end_offset, effect.voters, effect.kraft_version)
                grown = (grown or []) + self.append([Entry(effect.epoch, ("voters", change.offset), change)])
            elif isinstance(effect, FetchSnapshotFrom):
                self.fetching = effect.snapshot
                world.fetch_snapshot(self, effect)
            elif isinstance(effect, StopSnapshot):
                self.fetching = None
        if truncated:
            self.run(raft.on_truncated(world.now))
        if grown is not None:
            self.sync()
            self.run(raft.on_appended(world.now, grown))
        world.wake(self)

    def append(self, entries: list[Entry]) -> list[ControlChange]:
        self.log.append(entries)
        return [entry.change for entry in entries if entry.change is not None]

    def sync(self) -> None:
        """Force the log, which takes a while."""
        end, life = self.log.end_offset, self.life

        def synced() -> None:
            if self.world.postponed(self, synced):
                return
            if self.raft is not None and self.life == life:
                self.log.synced = max(self.log.synced, min(end, self.log.end_offset))
                self.run(self.raft.on_synced(end, self.world.now))

        self.world.after(self.world.random.choice((0, 1, 1, 5, 30)), synced)

    def submit(self, value: Any) -> None:
        if self.raft is not None and self.raft.is_leader:
            self.append([Entry(self.raft.epoch, value)])
            self.sync()
            self.run(self.raft.on_appended(self.world.now))

    def take_snapshot(self, *, drop_log: bool) -> None:
        if self.raft is None or self.known <= max(self.log.start_offset, 0):
            return
        at = self.world.random.randint(self.log.start_offset + 1, self.known)
        latest = self.log.latest_snapshot
        if latest is not None and at <= latest.offset:
            return
        version, voters = self.raft.history.at(at - 1)
        changes = [ControlChange(at - 1, voters, version)] if version else []
        epoch = self.log.entries[at - 1 - self.log.start_offset].epoch
        if drop_log:
            self.raft.history.forget_before(at)
        self.log.cut(Snapshot(OffsetAndEpoch(at, epoch), self.world.committed[:at], changes), drop_log=drop_log)
        self.log.synced = max(self.log.synced, at)

    def wipe(self) -> None:
        """Lose the disk: what comes back is another replica with the same id."""
        self.raft = None
        self.wiped += 1
        self.me = voter(self.id, self.wiped)
        self.log = MemoryLog()
        self.state = None
        self.formatted = []
        self.seen_epoch = 0
        self.start()


class World:
    """All replicas, the network between them, and what is committed so far."""

    def __init__(self, seed: int, voters: int, observers: int = 0, *, kraft_version: int = 1, **config: Any) -> None:
        self.random = random.Random(seed)
        self.now = 1_000
        self.config = RaftConfig(**config)
        self.queue: list[tuple[int, int, Callable[[], None]]] = []
        self.count = 0
        self.loss = 0.0
        self.blocked: set[frozenset[int]] = set()
        self.slow = 5
        self.committed: list[Entry] = []
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self.outcomes: list[Any] = []
        self.elections = 0
        self.snapshots_installed = 0
        self.replicas = {id_: Replica(self, voter(id_)) for id_ in range(1, voters + observers + 1)}
        first = VoterSet(voter(id_) for id_ in range(1, voters + 1))
        for replica in self.replicas.values():
            if kraft_version:
                replica.formatted = [ControlChange(-1, first, kraft_version)] if replica.id <= voters else []
            else:
                replica.static = VoterSet(known._replace(key=ReplicaKey(known.key.id)) for known in first)
            replica.start()

    # -- time ---------------------------------------------------------------------------------------------------

    def after(self, delay: int, call: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.queue, (self.now + delay, self.count, call))

    def wake(self, replica: Replica) -> None:
        """See to it that the core is ticked at its deadline."""
        assert replica.raft is not None
        deadline, life = replica.raft.next_deadline_ms(), replica.life
        if deadline > self.now + 1_000_000:
            return

        def tick() -> None:
            if self.postponed(replica, tick):
                return
            if replica.raft is not None and replica.life == life and replica.raft.next_deadline_ms() <= self.now:
                replica.run(replica.raft.tick(self.now))

        self.after(max(deadline - self.now, 0), tick)

    def postponed(self, replica: Replica, call: Callable[[], None]) -> bool:
        """Whether a replica stands still; then the call comes when it goes on."""
        if replica.raft is None or replica.paused_until <= self.now:
            return False
        self.after(replica.paused_until - self.now, call)
        return True

    def step(self) -> None:
        self.now, _, call = heapq.heappop(self.queue)
        call()

    def run_for(self, milliseconds: int) -> None:
        end = self.now + milliseconds
        while self.queue and self.queue[0][0] <= end:
            self.step()
        self.now = end

    def run_until(self, condition: Callable[[], bool], within_ms: int = 60_000) -> None:
        end = self.now + within_ms
        while not condition():
            assert self.queue[0][0] <= end, "it did not come to pass"
            self.step()

    # -- network --------------------------------------------------------------------------------------------------

    def _passes(self, a: int, b: int) -> bool:
        return frozenset((a, b)) not in self.blocked and self.random.random() >= self.loss

    def send(self, sender: Replica, effect: Send) -> None:
        token = (sender, sender.life, effect.request_id, effect.request)
        target = self.replicas.get(effect.to)
        if not self._passes(sender.id, effect.to):
            return

        def deliver() -> None:
            if target is not None and self.postponed(target, deliver):
                return
            if target is None or target.raft is None:
                self.after(self.random.randint(0, self.slow), lambda: self._answer(token, None))
            elif isinstance(effect.request, AskVersions):
                self.reply(target, token, VersionsReply(0, 0, 1))
            else:
                target.run(target.raft.on_request(effect.request, self.now, token))

        self.after(self.random.randint(0, self.slow), deliver)
        if self.random.random() < self.loss:  # a duplicate
            self.after(self.random.randint(0, 20 * self.slow), deliver)

    def reply(self, sender: Replica, token: Any, reply: Any) -> None:
        if token[0] is None:
            self.outcomes.append((token[3], reply))
        elif self._passes(sender.id, token[0].id):
            self.after(self.random.randint(0, self.slow), lambda: self._answer(token, reply))

    def _answer(self, token: Any, reply: Any) -> None:
        replica, life, request_id, _ = token
        if self.postponed(replica, lambda: self._answer(token, reply)):
            return
        if replica.raft is not None and replica.life == life:
            replica.run(replica.raft.on_response(request_id, reply, self.now))

    def request(self, replica: Replica, request: Any) -> None:
        """Ask a node something as a client; its answer goes to `outcomes`."""
        if replica.raft is not None:
            replica.run(replica.raft.on_request(request, self.now, (None, 0, 0, request)))

    def fetch_snapshot(self, replica: Replica, effect: FetchSnapshotFrom) -> None:
        leader, life = self.replicas[effect.leader_id], replica.life
        reached = self._passes(replica.id, leader.id)

        def fetched() -> None:
            if self.postponed(replica, fetched) or self.postponed(leader, fetched):
                return
            if replica.raft is None or replica.life != life or replica.fetching != effect.snapshot:
                return
            if not reached or leader.raft is None:
                replica.run(replica.raft.on_snapshot_failed(effect.snapshot, self.now))
                return
            error = leader.raft.leader_error(effect.epoch)
            found = next((snapshot for snapshot in leader.log.snapshots if snapshot.id == effect.snapshot), None)
            if error == 0:
                leader.run(leader.raft.on_snapshot_served(replica.me.key, self.now))
                error = 0 if found is not None else 98
            reply = SnapshotReply(error, leader.raft.epoch, leader.raft.leader_id, leader.raft.leader_endpoints)
            replica.run(replica.raft.on_snapshot_reply(reply, self.now))
            if replica.fetching == effect.snapshot and found is not None and error == 0:
                assert found.entries == self.committed[: found.id.offset]
                replica.fetching = None
                replica.log.install(found)
                self.snapshots_installed += 1
                replica.run(replica.raft.on_snapshot_installed(found.id, self.now, found.changes))

        self.after(self.random.randint(1, 4 * self.slow), fetched)

    # -- what must hold ---------------------------------------------------------------------------------------------

    def check(self, replica: Replica, effect: Effect) -> None:
        raft = replica.raft
        assert raft is not None
        if isinstance(effect, Persist):
            assert effect.state.epoch >= replica.seen_epoch, "an epoch goes back"
            replica.seen_epoch = effect.state.epoch
        elif isinstance(effect, BecomeLeader):
            assert self.leaders.setdefault(effect.epoch, replica.id) == replica.id, "two leaders of one epoch"
            assert replica.state == ElectionState(effect.epoch, replica.id), "a leader that is not remembered"
            assert replica.log.end_offset >= len(self.committed), "a leader without what is committed"
            self._same(replica, len(self.committed))
            self.elections += 1
        elif isinstance(effect, HighWatermark):
            self._commit(replica, raft, effect.offset)
        elif isinstance(effect, Reply) and isinstance(effect.reply, VoteReply) and effect.reply.granted:
            vote = effect.token[3]
            assert isinstance(vote, Vote)
            if not vote.pre_vote:
                first = self.votes.setdefault((replica.me.key, vote.epoch), vote.candidate)
                assert first == vote.candidate, "two votes in one epoch"
                assert replica.state is not None
                assert replica.state.voted == vote.candidate, "a vote that is not remembered"
        elif isinstance(effect, WriteControl):
            offset = raft.history.voters_offset
            assert offset is None or offset < len(self.committed), "two changes of the voters at a time"
        elif isinstance(effect, LostLeadership):
            assert self.leaders[effect.epoch] == replica.id

    def _same(self, replica: Replica, offset: int) -> None:
        start = replica.log.start_offset
        assert replica.log.entries[: offset - start] == self.committed[start:offset], "committed records differ"

    def _commit(self, replica: Replica, raft: Raft, offset: int) -> None:
        assert offset > replica.known, "the high watermark goes back"
        assert offset <= replica.log.end_offset
        replica.known = offset
        common = min(offset, len(self.committed))
        self._same(replica, common)
        if offset > len(self.committed):
            assert self.leaders.get(raft.epoch) == replica.id, "committed before its leader says so"
            durable = [known for known in raft.voters if self._holds(known.key, replica, offset)]
            assert len(durable) > len(raft.voters) // 2, "committed without a majority"
            self.committed += replica.log.entries[common - replica.log.start_offset : offset - replica.log.start_offset]
            self._one_at_a_time()

    def _holds(self, key: ReplicaKey, leader: Replica, offset: int) -> bool:
        holder = self.replicas[key.id]
        if not key.names(holder.me.key):
            return True  # it did, before its disk was lost
        start = max(holder.log.start_offset, leader.log.start_offset)
        same = holder.log.read(start, offset - start) == leader.log.read(start, offset - start)
        return same and holder.log.synced >= offset

    def _one_at_a_time(self) -> None:
        sets = [entry.change.voters for entry in self.committed if entry.change is not None and entry.change.voters]
        for before, after in pairwise(sets):
            changed = {known.key for known in before} ^ {known.key for known in after}
            assert len(changed) <= 1, "more than one voter changed"

    # -- mischief ---------------------------------------------------------------------------------------------------

    @property
    def leader(self) -> Replica | None:
        found = [replica for replica in self.replicas.values() if replica.raft is not None and replica.raft.is_leader]
        return max(found, key=lambda replica: replica.raft.epoch if replica.raft is not None else 0, default=None)

    def mischief(self, *, membership: bool = False) -> None:
        """Do one thing of many."""
        rng = self.random
        replica = self.replicas[rng.choice(list(self.replicas))]
        what = rng.randrange(16)
        if what < 3:
            if replica.raft is None:
                replica.start()
            else:
                replica.crash()
        elif what < 5:
            others = [other for other in self.replicas if other != replica.id]
            self.blocked = {frozenset((replica.id, other)) for other in others if rng.random() < 0.7}
        elif what < 7:
            self.blocked = set()
        elif what == 7:
            self.loss = rng.choice((0.0, 0.0, 0.02, 0.2))
        elif what == 8:
            self.slow = rng.choice((1, 5, 50, 400))
        elif what == 9:
            replica.take_snapshot(drop_log=rng.random() < 0.5)
        elif what == 10 and replica.raft is not None:
            if rng.random() < 0.5:
                replica.paused_until = self.now + rng.choice((100, 1_000, 5_000))
            elif replica.raft.is_leader:
                replica.run(replica.raft.resign(replica.raft.epoch, self.now))
        elif membership and what == 11:
            self._wipe(replica)
        elif membership and what >= 12:
            self._change_voters(replica)
        else:
            for leader in self.replicas.values():
                for _ in range(rng.randint(1, 3)):
                    leader.submit(("data", self.now, rng.random()))

    def _wipe(self, chosen: Replica) -> None:
        """Wipe a disk, but never a second voter's while the first is still counted."""
        sets = [entry.change.voters for entry in self.committed if entry.change is not None and entry.change.voters]
        known = [replica.raft.voters for replica in self.replicas.values() if replica.raft is not None]
        gone = {other.id for other in self.replicas.values() if other.wiped} | {chosen.id}
        if not sets or any(len(voters) < 3 or len(gone & set(voters.ids)) > 1 for voters in [sets[-1], *known]):
            return
        if all(replica.raft is not None for replica in self.replicas.values()):
            chosen.wipe()

    def _change_voters(self, chosen: Replica) -> None:
        leader = self.leader
        if leader is not None and leader.raft is not None:
            key = chosen.me.key
            lost = [gone for gone in leader.raft.voters if not gone.key.names(self.replicas[gone.key.id].me.key)]
            known = lost[0] if lost else leader.raft.voters.get(key.id)
            request = RemoveVoter(known.key) if known is not None else AddVoter(chosen.me, self.random.random() < 0.5)
            self.request(leader, request)

    def heal(self) -> None:
        """End all mischief."""
        self.blocked = set()
        self.loss = 0.0
        self.slow = 5
        for replica in self.replicas.values():
            replica.paused_until = 0
            if replica.raft is None:
                replica.start()

    def settle(self) -> None:
        """Whatever happened, the replicas agree in the end, and can commit."""
        self.heal()
        self.run_for(15_000)
        leader = self.leader
        assert leader is not None, "nobody leads"
        leader.submit(("last", self.now))
        end = leader.log.end_offset
        self.run_for(5_000)
        for replica in self.replicas.values():
            assert replica.raft is not None
            assert replica.raft.high_watermark >= end, f"{replica.id} does not follow"
            self._same(replica, len(self.committed))
