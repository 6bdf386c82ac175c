"""The shipped raft core on the simulated network and disk: does what its effects say, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kavka.quorum.settings import LOST_LEADER_MS
from kavka.raft import effects as fx
from kavka.raft.core import Peer, Raft, RaftConfig
from kavka.raft.messages import AskVersions, Fetch, FetchReply, OffsetAndEpoch, SnapshotReply, VersionsReply
from kavka.raft.voters import ControlChange, ReplicaKey, Voter, VoterHistory, VoterSet
from kavka.testing.sim.disk import Entry, Snapshot

if TYPE_CHECKING:
    from kavka.testing.sim.node import SimNode

MAX_ENTRIES: Final = 50
SNAPSHOT_EVERY: Final = 40
"""Records between snapshots: few, so that a short run takes many."""


class Control:
    """A control record of the metadata log; None for a change of leader."""

    __slots__ = ("change",)

    def __init__(self, change: tuple[Any, int | None] | None) -> None:
        self.change = change


class SimQuorum:
    """A replica of the metadata log."""

    def __init__(self, node: SimNode, raft: type[Raft], initial: Sequence[Voter], peers: Sequence[Peer]) -> None:
        self.node = node
        self.world = node.world
        self.log = node.disk.metadata
        voters = VoterSet(initial)
        static = voters if node.static_voters else None
        changes = [ControlChange(-1, voters, 1)] if initial and not static else []
        self.core = raft(
            node.voter,
            self.log,
            VoterHistory(static, [*changes, *self._remembered()]),
            lambda low, high: self.world.between(low, high - 1),
            state=node.disk.election,
            config=RaftConfig(auto_join=node.auto_join, lost_leader_ms=LOST_LEADER_MS),
            bootstrap=peers,
        )
        self.leading = -1
        """The epoch that this node leads; -1 if it does not."""
        self.high_watermark = 0
        self._timer_ms = -1
        self._sync_under_way = False

    def _remembered(self) -> list[ControlChange]:
        """What snapshot and log say of the voters."""
        found = list(self.log.snapshots[-1].changes) if self.log.snapshots else []
        start = self.log.snapshots[-1].id.offset if self.log.snapshots else 0
        for number, entry in enumerate(self.log.entries):
            offset = self.log.start_offset + number
            if offset >= start and isinstance(entry.value, Control) and entry.value.change is not None:
                found.append(ControlChange(offset, *entry.value.change))
        return found

    # -- events ---------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to take part."""
        self.log.synced = self.log.end_offset
        self.run(self.core.start(self.world.now_ms))

    def serve(self, request: Any, answer: Callable[[Any], None]) -> None:
        """Take a request of another replica."""
        if isinstance(request, AskVersions):
            answer(VersionsReply(0, self.node.voter.min_version, self.node.voter.max_version))
            return
        self.run(self.core.on_request(request, self.world.now_ms, (request, answer)))

    def run(self, effects: list[fx.Effect]) -> None:
        """Carry out a list of effects, and then what they lead to."""
        todo = [effects]
        while todo:
            following: list[Callable[[], list[fx.Effect]]] = []
            for effect in todo.pop(0):
                after = _ACTIONS[type(effect)](self, effect)
                if after is not None:
                    following.append(after)
            todo += [after() for after in following]
        self._arm()

    def _arm(self) -> None:
        due = self.core.next_deadline_ms()
        if self._timer_ms < 0 or due < self._timer_ms:
            self._timer_ms = max(due, self.world.now_ms)
            self.world.at(self._timer_ms, self._tick, self.node.incarnation, self._timer_ms)

    def _tick(self, life: int, armed_ms: int) -> None:
        if life != self.node.incarnation or not self.node.alive or armed_ms != self._timer_ms:
            return
        if self.node.paused:
            self.world.after(50, self._tick, life, armed_ms)
            return
        self._timer_ms = -1
        if self.core.next_deadline_ms() <= self.world.now_ms:
            self.run(self.core.tick(self.world.now_ms))
        else:
            self._arm()

    # -- effects --------------------------------------------------------------------------------------

    def _persist(self, effect: fx.Persist) -> None:
        self.node.checks.persisted(self.node.id, effect.state)
        self.node.disk.election = effect.state

    def _send(self, effect: fx.Send) -> None:
        life, number = self.node.incarnation, effect.request_id

        def answered(reply: Any) -> None:
            if self.node.incarnation == life:
                self.run(self.core.on_response(number, reply, self.world.now_ms))

        to = effect.to if effect.to >= 0 else -effect.to - 2
        self.node.network.call(self.node, to, "raft", effect.request, answered)

    def _reply(self, effect: fx.Reply) -> None:
        request, answer = effect.token
        reply = effect.reply
        if isinstance(reply, FetchReply) and reply.read:
            assert isinstance(request, Fetch)
            found = self.log.slice(request.offset, request.offset + MAX_ENTRIES)
            reply = reply._replace(records=(request.offset, found) if found else None)
        answer(reply)

    def _append(self, effect: fx.Append) -> Callable[[], list[fx.Effect]]:
        base, entries = effect.records
        changes: list[ControlChange] = []
        if base == self.log.end_offset:
            sound = _up_to_epoch(entries, effect.epoch)
            changes = [
                ControlChange(base + number, *entry.value.change)
                for number, entry in enumerate(sound)
                if isinstance(entry.value, Control) and entry.value.change is not None
            ]
            self.log.take(sound)
        self._force()
        return lambda: self.core.on_appended(self.world.now_ms, changes)

    def _truncate(self, effect: fx.Truncate) -> Callable[[], list[fx.Effect]]:
        self.node.checks.truncated(self.node.id, effect.offset, self.high_watermark)
        self.log.truncate(effect.offset)
        return lambda: self.core.on_truncated(self.world.now_ms)

    def _become_leader(self, effect: fx.BecomeLeader) -> Callable[[], list[fx.Effect]]:
        self.node.checks.elected(self.node.id, effect.epoch, self.world.now_ms)
        self.leading = effect.epoch
        voters = effect.write_voters
        records = [Control(None)]
        if voters is not None:
            records += [Control((None, effect.kraft_version)), Control((voters, None))]
        return self._write(records, effect.epoch)

    def _write_control(self, effect: fx.WriteControl) -> Callable[[], list[fx.Effect]]:
        return self._write([Control((effect.voters, effect.kraft_version))], effect.epoch)

    def _write(self, records: list[Control], epoch: int) -> Callable[[], list[fx.Effect]]:
        base = self.log.end_offset
        self.log.append(records, epoch)
        self.node.wrote_control(self.log.end_offset - 1, epoch)
        changes = [ControlChange(base + at, *one.change) for at, one in enumerate(records) if one.change is not None]
        for change in changes:
            if change.voters is not None:
                self.node.checks.voters_written(change.offset, self.core.voters, change.voters, self.high_watermark)
        self._force()
        return lambda: self.core.on_appended(self.world.now_ms, changes)

    def append(self, records: list[Any], epoch: int) -> int:
        """As the leader: write a batch of the controller's; the offset of its last record."""
        last = self.log.append(records, epoch)
        self._force()
        self.run(self.core.on_appended(self.world.now_ms))
        return last

    def _lost_leadership(self, effect: fx.LostLeadership) -> None:
        self.leading = -1
        self.node.deposed()

    def _leader_changed(self, effect: fx.LeaderChanged) -> None:
        self.node.leader_changed(effect.leader_id, effect.epoch)

    def _committed(self, effect: fx.HighWatermark) -> None:
        self.node.checks.committed(self.node.id, self.high_watermark, effect.offset, self.log, self.leading >= 0)
        self.high_watermark = effect.offset
        if self.core.is_leader:
            self.node.checks.leader_committed(effect.offset, self.core.epoch_start_offset, self.core.voters)
        self.node.committed(effect.offset)
        self._snapshot()

    # -- the disk ---------------------------------------------------------------------------------------

    def _force(self) -> None:
        if not self._sync_under_way:
            self._sync_under_way = True
            self.world.after(self.world.between(0, 8), self._forced, self.node.incarnation, self.log.end_offset)

    def _forced(self, life: int, end_offset: int) -> None:
        if life != self.node.incarnation or not self.node.alive:
            return
        self._sync_under_way = False
        end_offset = min(end_offset, self.log.end_offset)
        self.log.synced = max(self.log.synced, end_offset)
        if self.log.end_offset > end_offset:
            self._force()
        self.run(self.core.on_synced(end_offset, self.world.now_ms))

    def _snapshot(self) -> None:
        newest = self.log.snapshots[-1].id.offset if self.log.snapshots else 0
        image = self.node.image
        offset = image.offset + 1
        if offset - newest < SNAPSHOT_EVERY or offset > self.high_watermark or image.in_transaction:
            return
        id_ = OffsetAndEpoch(offset, image.epoch)
        self.node.checks.snapshot_taken(self.node.id, id_, self.high_watermark)
        version, voters = self.core.history.at(offset - 1)
        changes = (ControlChange(offset - 1, voters, version),)
        self.log.snapshots.append(Snapshot(id_, self.node.snapshot_records(), changes))
        if len(self.log.snapshots) > 2:
            del self.log.snapshots[0]
        oldest = self.log.snapshots[0].id
        if self.world.chance(0.7):
            self.log.drop_before(oldest.offset, oldest.epoch)

    # -- snapshots over the network -----------------------------------------------------------------------

    def serve_snapshot(self, request: tuple[int, OffsetAndEpoch, ReplicaKey], answer: Callable[[Any], None]) -> None:
        """Give a snapshot to another replica."""
        epoch, wanted, replica = request
        error = self.core.leader_error(epoch)
        found = next((one for one in self.log.snapshots if one.id == wanted), None)
        head = SnapshotReply(error, self.core.epoch, self.core.leader_id, self.core.leader_endpoints)
        answer((head, found if not error else None))
        if not error:
            self.run(self.core.on_snapshot_served(replica, self.world.now_ms))

    def _fetch_snapshot(self, effect: fx.FetchSnapshotFrom) -> None:
        life = self.node.incarnation

        def answered(reply: tuple[SnapshotReply, Snapshot | None] | None) -> None:
            if self.node.incarnation != life:
                return
            now_ms = self.world.now_ms
            if reply is None:
                self.run(self.core.on_snapshot_failed(effect.snapshot, now_ms))
                return
            head, snapshot = reply
            effects = self.core.on_snapshot_reply(head, now_ms)
            stopped = any(isinstance(one, fx.StopSnapshot) for one in effects)
            self.run(effects)
            if stopped:
                return
            if snapshot is None or self.world.chance(0.05):  # cut short on its way: found out, and fetched again
                self.run(self.core.on_snapshot_failed(effect.snapshot, now_ms))
                return
            self._install(snapshot)
            self.run(self.core.on_snapshot_installed(snapshot.id, now_ms, snapshot.changes))

        request = (effect.epoch, effect.snapshot, self.node.voter.key)
        self.node.network.call(self.node, effect.leader_id, "snapshot", request, answered)
        self.world.after(5_000, self._give_up_snapshot, life, effect)

    def _give_up_snapshot(self, life: int, effect: fx.FetchSnapshotFrom) -> None:
        if life == self.node.incarnation and self.node.alive and self.log.latest_snapshot != effect.snapshot:
            self.run(self.core.on_snapshot_failed(effect.snapshot, self.world.now_ms))

    def _install(self, snapshot: Snapshot) -> None:
        self.log.restart(snapshot.id.offset, snapshot.id.epoch)
        self.log.snapshots = [snapshot]
        self.high_watermark = max(self.high_watermark, snapshot.id.offset)
        self.node.installed(snapshot)


def _up_to_epoch(entries: list[Entry], epoch: int) -> list[Entry]:
    return [entry for entry in entries if entry.epoch <= epoch]


_ACTIONS: Final[dict[type, Callable[[SimQuorum, Any], Callable[[], list[fx.Effect]] | None]]] = {
    fx.Persist: SimQuorum._persist,
    fx.Send: SimQuorum._send,
    fx.Reply: SimQuorum._reply,
    fx.Append: SimQuorum._append,
    fx.Truncate: SimQuorum._truncate,
    fx.BecomeLeader: SimQuorum._become_leader,
    fx.WriteControl: SimQuorum._write_control,
    fx.LostLeadership: SimQuorum._lost_leadership,
    fx.LeaderChanged: SimQuorum._leader_changed,
    fx.HighWatermark: SimQuorum._committed,
    fx.FetchSnapshotFrom: SimQuorum._fetch_snapshot,
    fx.StopSnapshot: lambda quorum, effect: None,
}
