"""What goes wrong in a run: nodes, disks, networks and clocks, by chance."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from kavka.model.errors import KafkaStorageError, RequestTimedOut
from kavka.testing.sim.machine import SimMachine
from kavka.testing.sim.node import SimNode
from kavka.testing.sim.store import TROUBLE

if TYPE_CHECKING:
    from kavka.testing.sim.cluster import SimCluster

PEACE_SECONDS: Final = (0.2, 3.0)
"""From one fault to the next."""
PAUSE_SECONDS: Final = (0.3, 4.0)
SKEW_MS: Final = 5_000


class Faults:
    """Keeps a cluster in trouble, but never so that what it promises cannot be kept.

    With two copies of each acknowledged record, one disk at a time may lose something. A broker that was killed counts
    as one that may have, so while a disk has, no other is killed until all replicas are in sync again.
    """

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._network = cluster.network
        self._going_on = False
        self._lost_power: SimNode | None = None
        self._disk_trouble: set[int] = set()
        self.count = 0
        self.done: list[str] = []
        """What was done, for whoever looks into a run."""

    def start(self) -> None:
        """Begin; some things are wrong for the whole run."""
        self._going_on = True
        self._cluster.bucket.rates.update(TROUBLE)
        chance = self._world.random
        for node in self._cluster.nodes:
            if self._world.chance(0.3):
                node.machine.skew_ms = chance.randint(-SKEW_MS, SKEW_MS)
        self._world.after(self._world.between(0.1, 1.5), self._next)

    def stop(self) -> None:
        """Let everything be well from now on."""
        self._going_on = False
        self._network.heal()
        self._cluster.bucket.rates.clear()
        for machine in self._network.machines.values():
            self._mend_disk(machine)
            if machine.process is not None:
                machine.process.slow_cpu = 0.0
                machine.process.slow_disk = 1.0
        for node in self._cluster.nodes:
            self._cluster.boot(node)

    def explains(self, node: SimNode, error: BaseException) -> bool:
        """Whether it is no wonder that a node ended with an error: its disk failed, or it could not register."""
        if isinstance(error, BaseExceptionGroup):
            return all(self.explains(node, inner) for inner in error.exceptions)
        if isinstance(error, RequestTimedOut):
            return True
        return node.id in self._disk_trouble and isinstance(error, KafkaStorageError | OSError)

    def troubles_disk_of(self, node: SimNode) -> bool:
        """Whether the disk of a node may refuse what is written."""
        return node.id in self._disk_trouble

    # -- choosing -------------------------------------------------------------------------

    def _next(self) -> None:
        if not self._going_on:
            return
        kinds: list[tuple[int, Callable[[], None]]] = [
            (5, self._kill_controller),
            (5, self._kill_some),
            (2, self._kill_several),
            (4, self._stop_some),
            (3, self._pause_some),
            (3, self._part_controller),
            (4, self._part_some),
            (4, self._part_clients),
            (3, self._slow_network),
            (3, self._reset),
            (2, self._slow_disk),
            (2, self._slow_cpu),
            (1, self._full_disk),
            (2, self._failing_disk),
            (1, self._skew),
        ]
        weights = [weight for weight, _ in kinds]
        ((_, act),) = self._world.random.choices(kinds, weights)
        self.count += 1
        self.done.append(f"{self._world.now:.3f} {act.__name__.strip('_')}")
        act()
        self._world.after(self._world.between(*PEACE_SECONDS), self._next)

    def _some(self) -> SimNode:
        return self._world.random.choice(self._cluster.nodes)

    def _controller_or_some(self) -> SimNode:
        return self._cluster.checks.active() or self._some()

    def _later(self, low: float, high: float, act: Callable[[], None]) -> None:
        self._world.after(self._world.between(low, high), act)

    # -- nodes ------------------------------------------------------------------------------

    def _kill(self, node: SimNode) -> None:
        checks, world = self._cluster.checks, self._world
        if node.process is None:
            return
        if self._lost_power is not None and checks.all_is_well():
            self._lost_power = None
        if self._lost_power not in (None, node):
            return
        power = self._lost_power is None and world.chance(0.5) and checks.all_is_well()
        if power:
            self._lost_power = node
        self.done.append(f"  kill {node.id} power={power}")
        node.kill(power=power, silent=power and world.chance(0.5))
        self._disk_trouble.discard(node.id)
        self._mend_disk(node.machine)
        self._later(0.05, 5, partial(self._cluster.boot, node))

    def _kill_controller(self) -> None:
        self._kill(self._controller_or_some())

    def _kill_some(self) -> None:
        self._kill(self._some())

    def _kill_several(self) -> None:
        for node in self._cluster.nodes:
            if self._world.chance(0.6):
                self._kill(node)

    def _stop_some(self) -> None:
        self._some().stop()

    def _pause_some(self) -> None:
        node = self._controller_or_some() if self._world.chance(0.5) else self._some()
        if node.process is not None:
            node.process.pause(self._world.between(*PAUSE_SECONDS))

    # -- the network --------------------------------------------------------------------------

    def _part_controller(self) -> None:
        self._part([self._controller_or_some().machine])

    def _part_some(self) -> None:
        self._part([node.machine for node in self._cluster.nodes if self._world.chance(0.4)])

    def _part_clients(self) -> None:
        nodes = {node.machine.address for node in self._cluster.nodes}
        clients = [machine for name, machine in self._network.machines.items() if name not in nodes]
        self._part([machine for machine in clients if self._world.chance(0.5)])

    def _part(self, machines: list[SimMachine]) -> None:
        """Part machines from all others, or from the nodes alone: then clients still reach both sides."""
        others = [node.machine for node in self._cluster.nodes] if self._world.chance(0.5) else None
        self._network.part(machines, others, one_way=self._world.chance(0.4))
        self._later(0.3, 6, self._network.heal)

    def _slow_network(self) -> None:
        self._network.slow = self._world.random.choice((0.02, 0.1, 0.3))
        self._later(0.5, 5, self._network.heal)

    def _reset(self) -> None:
        self._network.reset_some(self._world.random.choice((0.1, 0.5, 1.0)))

    # -- machines -------------------------------------------------------------------------------

    def _slow_disk(self) -> None:
        process = self._some().process
        if process is not None:
            process.slow_disk = self._world.random.choice((10.0, 100.0))
            self._later(0.5, 5, partial(setattr, process, "slow_disk", 1.0))

    def _slow_cpu(self) -> None:
        process = self._some().process
        if process is not None:
            process.slow_cpu = self._world.random.choice((0.01, 0.1))
            self._later(0.5, 5, partial(setattr, process, "slow_cpu", 0.0))

    def _full_disk(self) -> None:
        """Leave little room."""
        node = self._with_disk_trouble()
        if node is not None:
            drive = node.machine.drive
            drive.capacity = drive.used + self._world.random.choice((0, 100, 3_000))

    def _failing_disk(self) -> None:
        """Refuse a few changes, or all."""
        node = self._with_disk_trouble()
        if node is not None:
            node.machine.drive.refusals = self._world.random.choice((1.0, 1.0, 3.0, float("inf")))

    def _with_disk_trouble(self) -> SimNode | None:
        """A node that may have trouble with its disk; it is started again after that, if it has not ended."""
        node = self._some()
        if self._lost_power is not None or not self._cluster.checks.all_is_well():
            return None
        self._disk_trouble.add(node.id)
        self._lost_power = node  # what was refused counts as lost
        self._later(1, 5, partial(self._make_room, node))
        self.done.append(f"  disk of {node.id}")
        return node

    def _make_room(self, node: SimNode) -> None:
        self._mend_disk(node.machine)
        if node.id in self._disk_trouble and node.process is not None:
            node.kill()
            self._later(0.05, 2, partial(self._cluster.boot, node))
        self._disk_trouble.discard(node.id)

    @staticmethod
    def _mend_disk(machine: SimMachine) -> None:
        machine.drive.capacity = 1 << 40
        machine.drive.refusals = 0.0

    def _skew(self) -> None:
        """Set a wall clock wrong, or right."""
        machine = self._some().machine
        machine.skew_ms = self._world.random.choice((0, self._world.random.randint(-SKEW_MS, SKEW_MS)))
