"""A whole cluster in one process: nodes, clients, an operator, and everything that can go wrong, from one seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kavka.controller.machine import Controller
from kavka.raft.core import Peer, Raft
from kavka.raft.messages import AddVoter, RemoveVoter
from kavka.raft.voters import ReplicaKey
from kavka.replication.leader import Leadership
from kavka.testing.sim.checks import Checks
from kavka.testing.sim.network import Network
from kavka.testing.sim.node import SimNode
from kavka.testing.sim.operator import Operator
from kavka.testing.sim.world import World

SETTLE_MS: Final = 8_000
TROUBLE_MS: Final = 55_000
MIN_ELECTIONS: Final = 3
CALM_MS: Final = 60_000
"""How long a cluster may take to be well again once nothing hinders it."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The shipped classes that a run is made of; a test plants a bug by putting another in its place."""

    raft: type[Raft] = Raft
    controller: type[Controller] = Controller
    leadership: type[Leadership] = Leadership


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did."""

    seed: int
    virtual_ms: int
    events: int
    elections: int
    acked: int
    committed: int
    snapshots: int
    voter_changes: int
    truncations: int


class SimCluster:
    """Three controllers that are brokers too, and up to two more brokers that may become voters."""

    def __init__(self, seed: int, parts: Parts | None = None) -> None:
        parts = parts or Parts()
        self.world = world = World(seed)
        self.network = Network(world)
        self.checks = Checks(world)
        static = world.chance(0.2)
        extra = world.between(0, 2)
        self.nodes = {
            id_: SimNode(
                id_,
                world,
                self.network,
                self.checks,
                parts,
                auto_join=id_ > 2 and world.chance(0.5),
                static_voters=static,
            )
            for id_ in range(3 + extra)
        }
        self.checks.nodes = self.nodes
        self._initial = [self.nodes[id_].voter for id_ in range(3)]
        if static:  # the configuration knows no directories
            self._initial = [one._replace(key=ReplicaKey(one.key.id)) for one in self._initial]
        self._peers = [Peer(-2 - id_, node.voter.endpoints) for id_, node in self.nodes.items()]
        self.operator = Operator(self)
        self._lost_power = -1

    def run(self) -> Outcome:
        """From an empty cluster through trouble to a healthy one; raises ViolationError."""
        world = self.world
        for node in self.nodes.values():
            world.after(world.between(0, 300), self._boot, node)
        world.run_until(SETTLE_MS)
        self.operator.start()
        world.after(500, self._check)
        world.after(1_000, self._trouble)
        world.run_until(SETTLE_MS + TROUBLE_MS)
        self._elect()
        self._calm()
        self.checks.complete()
        return Outcome(
            world.seed,
            world.now_ms,
            world.events,
            len(self.checks.leaders),
            sum(map(len, self.checks.acked.values())),
            len(self.checks.log),
            self.checks.snapshots,
            self.checks.voter_changes,
            self.checks.truncations,
        )

    def _boot(self, node: SimNode) -> None:
        if not node.alive:
            known = self._initial if node.id < 3 or node.static_voters else ()
            node.start(known, self._peers)

    def _check(self) -> None:
        self.checks.prefixes()
        self.world.after(1_000, self._check)

    # -- trouble --------------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        world = self.world
        if world.now_ms > SETTLE_MS + TROUBLE_MS - 1_000:
            return
        kinds: list[tuple[int, Callable[[], None]]] = [
            (5, self._kill_controller),
            (4, self._kill_some),
            (2, self._kill_several),
            (3, self._pause_some),
            (3, self._part_controller),
            (3, self._part_some),
            (3, self._lossy),
            (3, self._slow),
            (3, self._stop_some),
            (3, self._change_voters),
            (1, self._resign),
        ]
        weights = [weight for weight, _ in kinds]
        (_, action) = world.random.choices(kinds, weights)[0]
        action()
        world.after(world.between(300, 4_000), self._trouble)

    def active(self) -> SimNode | None:
        """The active controller."""
        return next((node for node in self.nodes.values() if node.alive and node.active), None)

    def _some(self) -> SimNode:
        return self.world.random.choice(list(self.nodes.values()))

    def kill(self, node: SimNode) -> None:
        """Kill a node; it comes back in a while.

        With two copies of each acknowledged record, one disk at a time may lose something. A broker that was killed
        counts as one that may have, so while a disk has, no other is killed until all replicas are in sync again.
        """
        if self._lost_power >= 0 and self.well():
            self._lost_power = -1
        if self._lost_power not in (-1, node.id):
            return
        power = self._lost_power < 0 and self.well() and self.world.chance(0.5)
        if power:
            self._lost_power = node.id
        node.kill(power=power)
        self.world.after(self.world.between(50, 6_000), self._boot, node)

    def _kill_controller(self) -> None:
        self.kill(self.active() or self._some())

    def _kill_some(self) -> None:
        self.kill(self._some())

    def _kill_several(self) -> None:
        for node in self.nodes.values():
            if self.world.chance(0.6):
                self.kill(node)

    def _pause_some(self) -> None:
        node = self.active() if self.world.chance(0.5) else self._some()
        if node is not None and node.alive and not node.paused:
            node.paused = True
            self.world.after(self.world.between(100, 7_000), self._resume, node, node.incarnation)

    def _resume(self, node: SimNode, life: int) -> None:
        if node.incarnation == life:
            node.paused = False

    def _part_controller(self) -> None:
        node = self.active() or self._some()
        self.network.part({node.id}, one_way=self.world.chance(0.4))
        self.world.after(self.world.between(500, 8_000), self.network.heal)

    def _part_some(self) -> None:
        ones = {id_ for id_ in self.nodes if self.world.chance(0.4)}
        self.network.part(ones, one_way=self.world.chance(0.3))
        self.world.after(self.world.between(500, 8_000), self.network.heal)

    def _lossy(self) -> None:
        self.network.loss = self.world.random.choice((0.02, 0.1, 0.3))
        self.world.after(self.world.between(500, 6_000), self.network.heal)

    def _slow(self) -> None:
        self.network.slow = self.world.random.choice((0.05, 0.3))
        self.world.after(self.world.between(500, 6_000), self.network.heal)

    def _stop_some(self) -> None:
        node = self._some()
        if node.alive:
            node.broker.leaving = True
            self.world.after(10_000, self._hurry, node, node.incarnation)

    def _hurry(self, node: SimNode, life: int) -> None:
        """A node that stops in order comes back; one that was not let go so long stops all the same."""
        if node.incarnation == life:
            node.stop_cleanly(node.broker.epoch)
            self.world.after(self.world.between(50, 3_000), self._boot, node)

    def _change_voters(self) -> None:
        controller = self.active()
        if controller is None:
            return
        node = self._some()
        if node.id in controller.quorum.core.voters:
            request: Any = RemoveVoter(node.voter.key)
        else:
            request = AddVoter(node.voter)
        if self.world.chance(0.7):
            controller.quorum.serve(request, lambda reply: None)
        else:
            node.network.call(node, self._some().id, "raft", request, lambda reply: None)

    def _resign(self) -> None:
        controller = self.active()
        if controller is not None and not controller.paused:
            controller.quorum.run(controller.quorum.core.resign(controller.quorum.core.epoch, self.world.now_ms))

    def _elect(self) -> None:
        """Have the elections that every run is to have, if chance has spared the controllers so far."""
        deadline = self.world.now_ms + CALM_MS
        while len(self.checks.leaders) < MIN_ELECTIONS and self.world.now_ms < deadline:
            self.network.heal()
            self._resign()
            self.world.run_until(self.world.now_ms + 1_000)

    # -- calm --------------------------------------------------------------------------------------------------

    def well(self) -> bool:
        """Whether every broker is in service and every replica in sync, as the active controller has it committed."""
        controller = self.active()
        if controller is None:
            return False
        image = controller.image
        for node in self.nodes.values():
            known = image.cluster.brokers.get(node.id)
            if not node.alive or known is None or not known.active or known.epoch != node.broker.epoch:
                return False
        return all(
            one.leader >= 0 and set(one.isr) == set(one.replicas) and not one.reassigning
            for topic in image.topics.by_id.values()
            for one in topic.partitions.values()
        )

    def _calm(self) -> None:
        world = self.world
        self.operator.stop()
        deadline = world.now_ms + CALM_MS
        while world.now_ms < deadline:
            self.network.heal()
            for node in self.nodes.values():
                node.paused = False
                if not node.alive:
                    self._boot(node)
                elif node.broker.leaving:
                    node.stop_cleanly(node.broker.epoch)
            world.run_until(world.now_ms + 1_000)
            if self.well() and self._caught_up():
                return
        self.checks.fail("the cluster is not well though nothing hinders it")

    def _caught_up(self) -> bool:
        controller = self.active()
        assert controller is not None
        if any(node.broker.image.offset != controller.image.offset for node in self.nodes.values()):
            return False
        for node in self.nodes.values():
            for replica in node.broker.replicas.values():
                if replica.leads and replica.high_watermark != replica.log.end_offset:
                    return False
                now = replica.now
                leader = self.nodes.get(now.leader) if now is not None else None
                if leader is None or leader.broker.replicas[replica.key].log.end_offset != replica.log.end_offset:
                    return False
        return True


def simulate(seed: int, parts: Parts | None = None) -> Outcome:
    """Run one cluster from a seed; raises ViolationError with what went wrong and when."""
    return SimCluster(seed, parts).run()
