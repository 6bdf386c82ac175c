"""What must hold in every run, looked at again and again from outside of the nodes. A violation says what, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kavka.model.types import Uuid
from kavka.quorum.controller_loop import ControllerLoop
from kavka.testing.sim.committed import READ_BYTES, Committed, CommittedMetadata
from kavka.testing.sim.node import SimNode, WatchedNode

if TYPE_CHECKING:
    from kavka.replica.partition import Partition
    from kavka.testing.sim.cluster import SimCluster

COMPARE_SECONDS: Final = 1.0

Key = tuple[Uuid, int]


class Checks:
    """Watches one run."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._leaders: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._began_with: dict[int, int] = {}
        """By epoch of the quorum: what was committed when its leader was first seen."""
        self._metadata = CommittedMetadata()
        self._partitions: dict[Key, Committed] = {}

    @property
    def elections(self) -> int:
        """How many leaders the quorum has had."""
        return len(self._leaders)

    def start(self) -> None:
        """Compare replicas from now on."""
        self._compare()

    def _nodes(self) -> Iterator[tuple[SimNode, WatchedNode, ControllerLoop]]:
        for one in self._cluster.nodes:
            node = one.node
            if node is not None and node.controller is not None:
                yield one, node, node.controller

    # -- again and again ------------------------------------------------------------------

    def look(self, one: SimNode) -> None:
        """One leader of the quorum in each epoch, epochs only grow, and a leader commits nothing before its own."""
        node = one.node
        if node is None or node.controller is None or self._cluster.faults.troubles_disk_of(one):
            return  # whose disk refuses an epoch begins again with the one before, and nobody has heard of it
        quorum = node.controller.quorum
        epoch = quorum.leader_epoch
        if epoch and epoch < self._epochs.get(one.id, 0):
            self._world.fail(f"node {one.id} goes back from epoch {self._epochs[one.id]} to {epoch}")
        self._epochs[one.id] = max(epoch, self._epochs.get(one.id, 0))
        if not quorum.is_leader:
            return
        if self._leaders.setdefault(epoch, one.id) != one.id:
            self._world.fail(f"nodes {self._leaders[epoch]} and {one.id} both lead epoch {epoch}")
        committed, start = quorum.high_watermark, quorum.raft.epoch_start_offset
        if self._began_with.setdefault(epoch, committed) < committed <= start:
            self._world.fail(f"{committed} is committed by a leader whose epoch starts at {start}")

    def _compare(self) -> None:
        self.compare()
        self._world.after(COMPARE_SECONDS, self._compare)

    def compare(self) -> None:
        """Up to what each takes for committed, replicas are the same."""
        for one, node, controller in self._nodes():
            if one.ready:
                self._metadata.look(one, controller.quorum, self._world.fail)
            if node.replicas is not None and one.ready:
                for partition in node.replicas:
                    self._compare_partition(one, partition)

    def _compare_partition(self, one: SimNode, partition: Partition) -> None:
        if partition.topic_partition.topic.startswith("__") or partition.failed is not None:
            return  # compacted ones may differ: each replica compacts for itself
        truth = self._partitions.setdefault((partition.topic_id, partition.topic_partition.partition), Committed())
        end = min(partition.high_watermark, partition.log_end_offset)
        truth.compare(
            one,
            partition.log_start_offset,
            end,
            lambda offset: partition.read_own(offset, READ_BYTES),
            lambda what: self._world.fail(f"{partition.topic_partition}: {what}"),
        )

    # -- the state of the cluster -----------------------------------------------------------

    def active(self) -> SimNode | None:
        """The active controller."""
        return next((one for one, _, controller in self._nodes() if controller.is_active), None)

    def all_is_well(self) -> bool:
        """Whether every node serves and every replica is in sync."""
        return self.why() == ""

    def all_is_quiet(self) -> bool:
        """Whether, beside that, every replica is complete, and all know the same."""
        return self.why(quiet=True) == ""

    def why(self, *, quiet: bool = False) -> str:
        """What is not well; nothing if all is."""
        found = {one.id: (one, node, controller) for one, node, controller in self._nodes()}
        absent = [one.id for one in self._cluster.nodes if not one.ready or one.id not in found]
        if absent:
            return f"nodes {absent} are not in service"
        active = self.active()
        if active is None:
            return "there is no active controller"
        image = found[active.id][2].image
        for id_, (_, _, controller) in found.items():
            if quiet and controller.image.offset != image.offset:
                return f"node {id_} has the metadata up to {controller.image.offset}, the controller {image.offset}"
            broker = image.cluster.brokers.get(id_)
            if broker is None or not broker.active:
                return f"broker {id_} is fenced"
        for topic in image.topics.by_id.values():
            for index, one in topic.partitions.items():
                name = f"{topic.name}-{index}"
                if one.leader < 0 or set(one.isr) != set(one.replicas) or one.reassigning:
                    return f"{name} has leader {one.leader}, ISR {one.isr} of {one.replicas}"
                ends = []
                for replica in one.replicas if quiet else ():
                    replicas = found[replica][1].replicas
                    held = replicas.held(topic.name, index) if replicas is not None else None
                    if held is None or held.high_watermark != held.log_end_offset:
                        return f"{name} is not complete on node {replica}"
                    ends.append(held.log_end_offset)
                if len(set(ends)) > 1:
                    return f"{name} ends at {ends} on {one.replicas}"
        return ""

    def at_the_end(self) -> None:
        """When all is well again: all replicas are the same."""
        self.compare()
