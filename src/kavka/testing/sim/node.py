"""A simulated node: one life of a process after another, on one disk; controller and broker in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.controller.bootstrap import bootstrap_records
from kavka.controller.brokers import ControllerRequest
from kavka.controller.machine import Controller
from kavka.metadata.delta import MetadataDelta, between
from kavka.metadata.features import SUPPORTED
from kavka.metadata.image import EMPTY, MetadataImage
from kavka.metadata.image.emit import records_of
from kavka.model.errors import KafkaError, NotController
from kavka.model.settings import broker_values
from kavka.model.transition import Transition
from kavka.model.types import Endpoint, Uuid
from kavka.raft.core import Peer
from kavka.raft.voters import ReplicaKey, Voter
from kavka.testing.sim.broker import SimBroker
from kavka.testing.sim.checks import Checks
from kavka.testing.sim.disk import Disk, Snapshot
from kavka.testing.sim.network import Network
from kavka.testing.sim.quorum import Control, SimQuorum
from kavka.testing.sim.security import SECRET
from kavka.testing.sim.world import World

if TYPE_CHECKING:
    from kavka.testing.sim.cluster import Parts

SESSION_MS: Final = 3_000

Decide = Callable[[Controller, int], Transition[Any]]


class Written(NamedTuple):
    """What the active controller wrote and has not committed."""

    offset: int
    image: MetadataImage
    delta: MetadataDelta
    answer: Callable[[Any], None]
    reply: Any


class SimNode:
    """One node of a simulated cluster."""

    def __init__(
        self,
        id_: int,
        world: World,
        network: Network,
        checks: Checks,
        parts: Parts,
        *,
        auto_join: bool = False,
        static_voters: bool = False,
        min_isr: int = 2,
    ) -> None:
        self.id = id_
        self.world = world
        self.network = network
        self.checks = checks
        self.disk = Disk()
        self.directory = Uuid(world.random.randbytes(16))
        self.voter = Voter(ReplicaKey(id_, self.directory), (Endpoint("CONTROLLER", "sim", id_, "PLAINTEXT"),))
        self.cluster_id = "c" * 22
        self.auto_join = auto_join
        self.static_voters = static_voters
        self.min_isr = min_isr
        self.incarnation = 0
        self.alive = False
        self.paused = False
        self.previous_epoch = -1
        self._parts = parts
        self.image: MetadataImage = EMPTY
        self.active = False
        self._written: list[Written] = []
        self._applied = 0
        self._former_leader = -1
        network.hosts[id_] = self

    # -- lives ------------------------------------------------------------------------------------------

    def start(self, initial: Sequence[Voter], peers: Sequence[Peer]) -> None:
        """Start the process."""
        self.incarnation += 1
        if self.world.chance(0.1):  # it listens elsewhere from now on
            moved = self.voter.endpoints[0]._replace(host=f"sim-{self.incarnation}")
            self.voter = self.voter._replace(endpoints=(moved,))
        self.alive, self.paused, self.active = True, False, False
        self.previous_epoch, self.disk.clean_epoch = self.disk.clean_epoch, -1
        self._written.clear()
        values = broker_values(
            {
                "node.id": str(self.id),
                "broker.session.timeout.ms": str(SESSION_MS),
                "min.insync.replicas": str(self.min_isr),
                "leader.imbalance.check.interval.seconds": "7",
                "unclean.leader.election.enable": "false",
                "delegation.token.secret.key": SECRET,
                "delegation.token.expiry.check.interval.ms": "5000",
            }
        )
        self.machine = self._parts.controller(
            self.id, self.cluster_id, values, draw=self.world.between, new_id=self._new_id
        )
        self.broker = SimBroker(self, self._parts.leadership)
        self.quorum = SimQuorum(self, self._parts.raft, initial, peers)
        self._load()
        self.quorum.start()
        self.broker.start()
        self.world.after(100, self._tick, self.incarnation)

    def _new_id(self) -> Uuid:
        return Uuid(self.world.random.randbytes(16))

    def _load(self) -> None:
        """Start from the newest snapshot; the log is replayed as it turns out to be committed."""
        self.image, self._applied = EMPTY, 0
        if self.disk.metadata.snapshots:
            self._restore(self.disk.metadata.snapshots[-1])

    def kill(self, *, power: bool = False) -> None:
        """End the process at once; with `power`, the disk loses what was not forced to it."""
        if not self.alive:
            return
        self.alive = False
        log = self.disk.metadata
        log.lose_power(self.world)  # it was forced as far as anybody counts on it
        if power:
            for files in self.disk.partitions.values():
                files.log.lose_power(self.world)
                files.high_watermark = min(files.high_watermark, files.log.end_offset)
        self.checks.died(self.id)
        self.network.died(self.id)
        for other in self.network.hosts.values():
            if isinstance(other, SimNode) and other is not self and other.alive:
                self.world.after(self.world.between(1, 5), other.disconnected, self.id, self.broker.incarnation_id)

    def stop_cleanly(self, epoch: int) -> None:
        """End the process in order."""
        if self.alive:
            self.broker.checkpoint()
            for replica in self.broker.replicas.values():
                replica.log.synced = replica.log.end_offset
            self.kill()
            self.disk.clean_epoch = epoch

    # -- requests -----------------------------------------------------------------------------------------

    def serve(self, sender: int, kind: str, request: Any, answer: Callable[[Any], None]) -> None:
        """Take a request from the network."""
        if kind == "raft":
            self.quorum.serve(request, answer)
        elif kind == "snapshot":
            self.quorum.serve_snapshot(request, answer)
        elif kind == "controller":
            self.submit(request, answer)
        elif kind == "fetch":
            self.broker.serve_fetch(request, answer)
        elif kind == "offsets":
            self.broker.serve_offsets(request, answer)
        elif kind == "produce":
            key, value = request
            replica = self.broker.replicas.get(key)
            if replica is None:
                answer(NotController("no such partition"))
            else:
                replica.produce(value, answer)

    def ask_controller(self, decide: Decide, answer: Callable[[Any], None]) -> None:
        """Let the active controller decide, wherever it is."""
        leader = self.quorum.core.leader_id
        if leader >= 0:
            self.network.call(self, leader, "controller", decide, answer)

    def submit(self, decide: Decide, answer: Callable[[Any], None]) -> None:
        """As the active controller: decide, write, and answer once it is committed."""
        if not self.active:
            answer(NotController("not the controller"))
            return
        try:
            transition = decide(self.machine, self.world.now_ms)
        except KafkaError as error:
            answer(error)
            return
        self._append(transition, answer)

    def _append(self, transition: Transition[Any], answer: Callable[[Any], None]) -> None:
        log = self.disk.metadata
        records = list(transition.records)
        if records:
            epoch = self.quorum.leading
            delta = self.machine.replay(records, log.end_offset + len(records) - 1, epoch)
            self._written.append(
                Written(log.end_offset + len(records) - 1, self.machine.image, delta, answer, transition.reply)
            )
            self.quorum.append(records, epoch)
        elif self._written:
            last = self._written[-1]
            self._written.append(last._replace(answer=answer, reply=transition.reply, delta=_NOTHING))
        else:
            answer(transition.reply)

    def _tick(self, life: int) -> None:
        if life != self.incarnation or not self.alive:
            return
        if self.active and not self.paused and self.machine.next_deadline_ms() <= self.world.now_ms:
            self._append(self.machine.tick(self.world.now_ms), _ignore)
        self.world.after(100, self._tick, life)

    def disconnected(self, broker_id: int, incarnation_id: Uuid) -> None:
        """The connection of another node has closed."""
        if self.alive and self.active and not self.paused:
            broker = self.machine.image.cluster.brokers.get(broker_id)
            if broker is not None and broker.incarnation_id == incarnation_id:
                self._append(self.machine.broker_disconnected(broker_id, broker.epoch, self.world.now_ms), _ignore)

    # -- the quorum's news ----------------------------------------------------------------------------------

    def wrote_control(self, offset: int, epoch: int) -> None:
        """A control record is in the log, which the controller's image has to count."""
        if self.active:
            delta = self.machine.replay([], offset, epoch)
            self._written.append(Written(offset, self.machine.image, delta, _ignore, None))

    def leader_changed(self, leader: int, epoch: int) -> None:
        """Another node leads the quorum, or nobody does."""
        if leader != self.id:
            self._former_leader = leader if leader >= 0 else self._former_leader

    def deposed(self) -> None:
        """This node leads no more: what was not committed may never be."""
        self.active = False
        written, self._written = self._written, []
        self.machine.image = self.image
        for one in written:
            one.answer(NotController("no longer the controller"))

    def committed(self, offset: int) -> None:
        """More of the metadata log is committed."""
        if self.active:
            while self._written and self._written[0].offset < offset:
                one = self._written.pop(0)
                before, self.image = self.image, one.image
                self._applied = one.offset + 1
                self._publish(before, one.delta)
                one.answer(one.reply)
            return
        self._replay(offset)
        quorum = self.quorum
        leads = quorum.leading >= 0 and quorum.core.is_leader
        if leads and offset > quorum.core.epoch_start_offset and offset == self.disk.metadata.end_offset:
            self._activate()

    def _replay(self, offset: int) -> None:
        log = self.disk.metadata
        while self._applied < offset:
            entries = log.slice(self._applied, offset)
            epoch = entries[0].epoch
            same = [entry for entry in entries if entry.epoch == epoch]
            records = [entry.value for entry in same if not isinstance(entry.value, Control)]
            before = self.image
            delta = self.machine.replay(records, self._applied + len(same) - 1, epoch)
            self.image = self.machine.image
            self._applied += len(same)
            self._publish(before, delta)

    def _publish(self, before: MetadataImage, delta: MetadataDelta) -> None:
        if self.image.in_transaction:
            return
        if before.in_transaction:
            self.broker.apply(self.image, None)
        elif delta is not _NOTHING:
            self.broker.apply(self.image, delta)

    def _activate(self) -> None:
        self.active = True
        former = self._former_leader
        self._append(self.machine.activate(bootstrap_records(), self.world.now_ms, former), _ignore)
        request = ControllerRequest(self.id, self.broker.incarnation_id, self.voter.endpoints, SUPPORTED)
        self._append(self.machine.register_controller(request), _ignore)

    # -- snapshots --------------------------------------------------------------------------------------------

    def snapshot_records(self) -> list[Any]:
        """The committed metadata as records."""
        return list(records_of(self.image))

    def installed(self, snapshot: Snapshot) -> None:
        """A snapshot of the leader's is there in place of this node's log."""
        self._restore(snapshot)

    def _restore(self, snapshot: Snapshot) -> None:
        self.machine.image = EMPTY
        self.machine.replay(snapshot.records, snapshot.id.offset - 1, snapshot.id.epoch)
        self.image = self.machine.image
        self._applied = snapshot.id.offset
        self.broker.apply(self.image, None)


def _ignore(reply: Any) -> None:
    """Nobody waits for this."""


_NOTHING: Final = between(EMPTY, EMPTY)
