"""A whole cluster in one process: nodes, clients, and everything that can go wrong, from one seed."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from kavka.quorum.format import random_id
from kavka.testing.sim.checks import Checks
from kavka.testing.sim.client import SimClient, Workload
from kavka.testing.sim.faults import Faults
from kavka.testing.sim.machine import Process
from kavka.testing.sim.network import Network
from kavka.testing.sim.node import BROKER_PORT, CONTROLLER_PORT, SimNode
from kavka.testing.sim.store import Bucket
from kavka.testing.sim.workloads import all_workloads
from kavka.testing.sim.world import World

START_SECONDS: Final = 30.0
TROUBLE_SECONDS: Final = 25.0
SHORT_TROUBLE_SECONDS: Final = (6.0, 15.0)
SMALL_SHARE: Final = 0.8
"""How many runs that draw workloads have few of them and a short trouble: small runs find more than large ones."""
FEW: Final = (1, 1, 2, 3)
CALM_SECONDS: Final = 120.0
"""How long a cluster may take to be well again once nothing hinders it."""
FINISH_SECONDS: Final = 120.0
VOTERS: Final = 3
COORDINATOR_PARTITIONS: Final = 2

SETTINGS: Final = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": str(COORDINATOR_PARTITIONS),
    "transaction.state.log.num.partitions": str(COORDINATOR_PARTITIONS),
    "share.coordinator.state.topic.num.partitions": str(COORDINATOR_PARTITIONS),
    "offsets.commit.timeout.ms": "2000",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "4000",
    "group.share.min.heartbeat.interval.ms": "300",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.initialize.retry.interval.ms": "2000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "4000",
    "group.streams.min.heartbeat.interval.ms": "300",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "metadata.log.max.record.bytes.between.snapshots": "6000",
    "metadata.max.retention.bytes": "20000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "log.flush.start.offset.checkpoint.interval.ms": "2000",
    "log.cleaner.backoff.ms": "1000",
    "log.retention.check.interval.ms": "2000",
    "controlled.shutdown.enable": "true",
    "controller.quorum.retry.backoff.ms": "200",
}


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run did."""

    seed: int
    seconds: float
    events: int
    digest: int
    elections: int
    faults: int
    workloads: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)


class SimCluster:
    """Three nodes that are voters and brokers, up to two more that may become voters, and a machine per workload."""

    def __init__(self, seed: int, workloads: Sequence[type[Workload]] | None = None, nodes: int | None = None) -> None:
        self.world = world = World(seed)
        self.network = Network(world)
        self.coordinator_partitions = COORDINATOR_PARTITIONS
        self.busy = True
        self.is_calm = False
        chance = world.random
        count = nodes or chance.choice((3, 3, 4, 5))
        self._static = chance.random() < 0.2
        """Whether the configuration names the voters, and not the log: then they stay what they are."""
        small = world.chance(SMALL_SHARE) and workloads is None
        self._trouble_seconds = world.between(*SHORT_TROUBLE_SECONDS) if small else TROUBLE_SECONDS
        self.workloads = [workload() for workload in (self._draw(small) if workloads is None else workloads)]
        self.bucket = Bucket()
        self.nodes = [
            SimNode(self.network, id_, self._settings(id_, count), self.bucket) for id_ in range(1, count + 1)
        ]
        self.checks = Checks(self)
        self.faults = Faults(self)
        self._stages: dict[Workload, str] = {}
        self._clients = 0

    def _draw(self, small: bool) -> Sequence[type[Workload]]:
        """What a run is to do, by chance: a little, or nearly everything."""
        chance, workloads = self.world.random, all_workloads()
        if small:
            return chance.sample(workloads, chance.choice(FEW))
        return [workload for workload in workloads if chance.random() < workload.share]

    def _settings(self, id_: int, count: int) -> dict[str, str]:
        address = f"10.0.0.{id_}"
        settings = {**SETTINGS, "node.id": str(id_), "listeners": f"PLAINTEXT://{address}:{BROKER_PORT}"}
        for workload in self.workloads:
            settings |= workload.settings
            for name, port in workload.listeners.items():
                settings["listeners"] += f",{name}://{address}:{port}"
        if id_ <= VOTERS or not self._static:
            settings["listeners"] += f",CONTROLLER://{address}:{CONTROLLER_PORT}"
        else:
            settings["process.roles"] = "broker"
        if self._static:
            voters = (f"{node_id}@10.0.0.{node_id}:{CONTROLLER_PORT}" for node_id in range(1, VOTERS + 1))
            settings["controller.quorum.voters"] = ",".join(voters)
        else:
            known = (f"10.0.0.{node_id}:{CONTROLLER_PORT}" for node_id in range(1, count + 1))
            settings["controller.quorum.bootstrap.servers"] = ",".join(known)
            if id_ > VOTERS and self.world.chance(0.5):
                settings["controller.quorum.auto.join.enable"] = "true"
        return settings

    # -- one run ------------------------------------------------------------------------

    def run(self) -> RunOutcome:
        """From an empty cluster through trouble to a healthy one; raises ViolationError."""
        said = Said(self)
        logger, before = logging.getLogger("kavka"), random.getstate()
        logger.addHandler(said)
        random.seed(self.world.seed)  # what clients draw that nobody gave another chance
        try:
            with self.world:
                return self._run()
        finally:
            random.setstate(before)
            logger.removeHandler(said)

    def _run(self) -> RunOutcome:
        world = self.world
        self._format()
        for node in self.nodes:
            world.after(world.between(0, 0.3), partial(self.boot, node))
        self._until(START_SECONDS, "the nodes do not start", lambda: all(node.ready for node in self.nodes))
        for workload in self.workloads:
            self._start(workload)
        self._until(START_SECONDS, "the workloads do not begin", lambda: self._are("running"))
        self.checks.start()
        self.faults.start()
        world.run_until(world.now + self._trouble_seconds)
        self.faults.stop()
        self._until(CALM_SECONDS, "the cluster is not well though nothing hinders it", self.checks.all_is_well)
        self.busy = False
        self._until(CALM_SECONDS, "the workloads do not come to an end", lambda: self._are("ran"))
        self._until(CALM_SECONDS, "the cluster is not well though nobody does anything", self.checks.all_is_quiet)
        self.is_calm = True
        self._until(FINISH_SECONDS, "the last look does not end", lambda: self._are("done"))
        for workload in self.workloads:
            for fault in workload.faults():
                world.fail(f"{type(workload).__name__}: {fault}")
        self.checks.at_the_end()
        counts: Counter[str] = Counter()
        for workload in self.workloads:
            counts.update(workload.counts())
        return RunOutcome(
            world.seed,
            world.now,
            world.events,
            world.digest,
            self.checks.elections,
            self.faults.count,
            tuple(type(workload).__name__ for workload in self.workloads),
            dict(sorted(counts.items())),
        )

    def _until(self, seconds: float, otherwise: str, enough: object) -> None:
        assert callable(enough)
        began, looked = self.world.now, -1.0

        def look() -> bool:
            nonlocal looked
            if self.world.now - looked < 0.02:
                return False
            looked = self.world.now
            return bool(enough())

        if not self.world.run_until(began + seconds, look) and not enough():
            stages = {type(workload).__name__: stage for workload, stage in self._stages.items()}
            self.world.fail(f"{otherwise}: {self.checks.why(quiet=not self.busy)} {stages}")

    def _are(self, stage: str) -> bool:
        return all(self._stages.get(workload) == stage for workload in self.workloads)

    def _start(self, workload: Workload) -> None:
        async def main(client: SimClient) -> None:
            await workload.prepare(client)
            self._stages[workload] = "running"
            await workload.run(client)
            self._stages[workload] = "ran"
            await client.calm()
            await workload.finish(client)
            self._stages[workload] = "done"

        self.spawn(main)

    def spawn(self, main: Callable[[SimClient], Coroutine[Any, Any, None]]) -> Process:
        """Start a process with clients on a machine of its own."""
        self._clients += 1
        machine = self.network.machine(100 + self._clients, f"10.0.{1 + self._clients // 250}.{self._clients % 250}")

        def ended(error: BaseException | None) -> None:
            if error is not None:
                self.world.fail(f"{machine.address}: {describe(error)}")

        process = machine.boot(lambda process: main(SimClient(self, process)), ended)
        self.network.join(process)
        return process

    # -- nodes ----------------------------------------------------------------------------

    def leader_epochs(self, topic: str, index: int) -> dict[int, int]:
        """By node: the leader epoch of a partition as that node knows it."""
        found = {}
        for sim_node in self.nodes:
            replicas = sim_node.node.replicas if sim_node.node is not None else None
            held = replicas.held(topic, index) if replicas is not None else None
            if held is not None:
                found[sim_node.id] = held.leader_epoch
        return found

    def _format(self) -> None:
        chance = self.world.random
        new_id = partial(random_id, chance.randbytes)
        cluster_id = str(new_id())
        voters = self.nodes[:VOTERS]
        initial = ",".join(f"{voter.id}@{voter.machine.address}:{CONTROLLER_PORT}:{new_id()}" for voter in voters)
        for node in self.nodes:
            node.format(cluster_id, initial if node in voters and not self._static else "")

    def boot(self, node: SimNode) -> None:
        """Start a node unless it runs."""
        if node.process is None:
            node.start(partial(self._ended, node), partial(self.checks.check_leadership, node))

    def _ended(self, node: SimNode, error: BaseException | None) -> None:
        """A node's process came to its own end."""
        node.forget()
        if error is not None and not self.faults.explains(node, error):
            self.world.fail(f"node {node.id} ended: {describe(error)}")
        self.world.after(self.world.between(0.2, 3), partial(self.boot, node))


def describe(error: BaseException) -> str:
    """An error and what is inside of it, in one line."""
    if isinstance(error, BaseExceptionGroup):
        return f"{type(error).__name__}({', '.join(describe(inner) for inner in error.exceptions)})"
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" in {trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}" if trace is not None else ""
    return f"{error!r}{where}"


class Said(logging.Handler):
    """Hears of errors that the code of a node caught and told only the log of."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(logging.ERROR)
        self._cluster = cluster

    def emit(self, record: logging.LogRecord) -> None:
        """An exception that nobody expected is a fault, wherever it was caught."""
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            for process in (machine.process for machine in self._cluster.network.machines.values()):
                if process is not None and process.running:
                    process.went_wrong(f"{record.name}: {record.getMessage()}: {describe(error)}", error)


def simulate(seed: int, workloads: Sequence[type[Workload]] | None = None, nodes: int | None = None) -> RunOutcome:
    """Run one cluster from a seed; raises ViolationError with what went wrong and when."""
    return SimCluster(seed, workloads, nodes).run()
