"""A whole node of the shipped code on a simulated machine, and a way to look into it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from kavka.broker.config import NodeConfig, node_config
from kavka.broker.ports import Ports
from kavka.broker.wiring import Node, ReadyReport, Started
from kavka.catalog.machine import Catalogue
from kavka.metadata.live import LiveSettings
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.format import format_dirs, parse_initial_controllers, random_id
from kavka.replica.manager import ReplicaManager
from kavka.storage.compaction import CompactionPlan, CompactionResult, compact
from kavka.storage.compaction_worker import decode_plan, decode_result, encode_plan, encode_result
from kavka.storage.disk import Disk
from kavka.testing.sim.disk import SimDisk
from kavka.testing.sim.machine import Process, SimMachine
from kavka.testing.sim.network import Network, SimDial
from kavka.testing.sim.registry import SimRegistryFace
from kavka.testing.sim.store import Bucket, way_to

DATA: Final = "/data"
BROKER_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093


class WatchedNode(Node):
    """A node whose parts can be looked at from outside."""

    controller: ControllerLoop | None = None
    replicas: ReplicaManager | None = None

    @property
    def catalogue(self) -> Catalogue | None:
        """What the node knows of remote segments; None where it has no tier, or knows nothing yet."""
        catalog = None if self._tiering is None else self._tiering.tiers.catalog
        return None if catalog is None else catalog.live

    def _controller(self, started: Started) -> ControllerLoop:
        self.controller = super()._controller(started)
        return self.controller

    def _replicas(self, started: Started, settings: LiveSettings) -> ReplicaManager:
        self.replicas = super()._replicas(started, settings)
        return self.replicas


class SimNode:
    """One node of a cluster: its machine, and its lives."""

    def __init__(self, network: Network, id_: int, properties: Mapping[str, str], bucket: Bucket) -> None:
        self.id = id_
        self._bucket = bucket
        self.network = network
        self.machine: SimMachine = network.machine(id_, f"10.0.0.{id_}")
        self.config: NodeConfig = node_config({**properties, "log.dirs": DATA}, this_host=lambda: self.machine.address)
        self.node: WatchedNode | None = None
        self.ready = False
        self.lives = 0
        self._stopping: asyncio.Event | None = None
        self.machine.world.at_the_end.append(self.forget)

    def format(self, cluster_id: str, initial: str) -> None:
        """Prepare the disk, as `kavka format` does."""
        machine = self.machine
        chance = machine.world.random
        disk = SimDisk(machine.drive, lambda seconds: None, machine.now_ms)
        format_dirs(
            disk,
            [DATA],
            DATA,
            cluster_id=cluster_id,
            node_id=self.id,
            now_ms=machine.now_ms(),
            controller=None,
            initial_controllers=parse_initial_controllers(initial, "CONTROLLER") if initial else (),
            new_id=lambda: random_id(chance.randbytes),
        )
        disk.sync_filesystem(DATA)

    @property
    def process(self) -> Process | None:
        """The life that it has now."""
        return self.machine.process

    def start(self, ended: Callable[[BaseException | None], None], watch: Callable[[], None]) -> None:
        """Begin a life; `watch` is called after each of its turns."""
        self.lives += 1
        self.ready = False
        self.network.back(self.machine)
        process = self.machine.boot(self._main, ended)
        process.watch = watch
        self.network.join(process)

    async def _main(self, process: Process) -> None:
        chance = process.random
        ports = Ports(partial(self.network.listen, process), compact_here, chance.randbytes, chance)
        dial = SimDial(self.network, process)
        store = way_to(self._bucket, process)
        self.node = WatchedNode(
            self.config, process.disk, process, dial, store=store, ports=ports, registry_face=SimRegistryFace
        )
        stopping = self._stopping = asyncio.Event()

        def ready(report: ReadyReport) -> None:
            self.ready = True

        await self.node.run(ready, stopping)

    def stop(self) -> None:
        """Ask it to stop in order."""
        process, stopping = self.process, self._stopping
        if process is not None and stopping is not None:
            process.deliver(stopping.set)

    def forget(self) -> None:
        """Its life is over."""
        self.ready = False
        self.node = self._stopping = None

    def kill(self, *, power: bool = False, silent: bool = False) -> None:
        """End its life at once; with the power what was not forced to the disk goes too."""
        process = self.process
        if process is not None:
            process.silent = silent
            process.die()
            self.forget()
            if power:
                self.machine.drive.lose_power(self.machine.world.random)


async def compact_here(disk: Disk, plan: CompactionPlan) -> CompactionResult:
    """Run a compaction as the worker does, but as a thread of the simulated process."""

    def work() -> bytes:
        return encode_result(compact(disk, decode_plan(encode_plan(plan))))

    return decode_result(await asyncio.get_running_loop().run_in_executor(None, work))
