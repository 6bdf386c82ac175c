"""What must hold in every run, checked again and again from outside of the nodes. A violation says what, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.model.types import Uuid
from kavka.quorum.controller_loop import ControllerLoop
from kavka.quorum.state import FILE, NOBODY, QuorumState, read_quorum_state
from kavka.testing.sim.committed import READ_BYTES, Committed, CommittedMetadata
from kavka.testing.sim.disk import Inode, SimDisk
from kavka.testing.sim.node import DATA, SimNode, WatchedNode

if TYPE_CHECKING:
    from kavka.replica.partition import Partition
    from kavka.testing.sim.cluster import SimCluster

COMPARE_SECONDS: Final = 1.0
METADATA_LOG: Final = f"{DATA}/__cluster_metadata-0"
QUORUM_STATE: Final = f"{METADATA_LOG}/{FILE}"

Key = tuple[Uuid, int]


class Remembered(NamedTuple):
    """What a node's disk remembers of elections."""

    file: Inode
    state: QuorumState


def key_of(partition: Partition) -> Key:
    """A partition, whatever it is called."""
    return partition.topic_id, partition.topic_partition.partition


def is_compared(partition: Partition) -> bool:
    """Whether replicas must be the same, byte for byte: each compacts for itself."""
    return not partition.topic_partition.topic.startswith("__") and partition.failed is None


class _Running(NamedTuple):
    """A node that runs."""

    sim_node: SimNode
    node: WatchedNode
    controller: ControllerLoop


class Checks:
    """Watches one run."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._leaders: dict[int, int] = {}
        """By epoch of the quorum: the node that leads it."""
        self._remembered: dict[int, Remembered] = {}
        """By node: what its disk remembers of elections."""
        self._renames: dict[int, int] = {}
        """By node: how often names had changed on its disk when that was last looked at."""
        self._began_with: dict[int, int] = {}
        """By epoch of the quorum: the high watermark when its leader was first seen."""
        self._metadata = CommittedMetadata()
        self._partitions: dict[Key, Committed] = {}

    @property
    def elections(self) -> int:
        """How many leaders the quorum has had."""
        return len(self._leaders)

    def start(self) -> None:
        """Compare replicas from now on."""
        self._compare()

    def _running(self) -> Iterator[_Running]:
        for sim_node in self._cluster.nodes:
            node = sim_node.node
            if node is not None and node.controller is not None:
                yield _Running(sim_node, node, node.controller)

    # -- again and again ------------------------------------------------------------------

    def check_leadership(self, sim_node: SimNode) -> None:
        """One quorum leader in each epoch, epochs only grow, and a leader commits nothing before its epoch starts."""
        self._check_memory(sim_node)
        node = sim_node.node
        if node is None or node.controller is None:
            return
        quorum = node.controller.quorum
        if not quorum.is_leader:
            return
        epoch = quorum.leader_epoch
        remembered = self._remembered.get(sim_node.id)
        if remembered is None or remembered.state.leader_epoch < epoch:
            if not self._cluster.faults.troubles_disk_of(sim_node):
                self._world.fail(f"node {sim_node.id} leads epoch {epoch}, which its disk does not know")
            return  # its disk refused the epoch, and it has told nobody of it
        if self._leaders.setdefault(epoch, sim_node.id) != sim_node.id:
            self._world.fail(f"nodes {self._leaders[epoch]} and {sim_node.id} both lead epoch {epoch}")
        high_watermark, start = quorum.high_watermark, quorum.raft.epoch_start_offset
        if self._began_with.setdefault(epoch, high_watermark) < high_watermark <= start:
            self._world.fail(f"the high watermark is {high_watermark} under a leader whose epoch starts at {start}")

    def _check_memory(self, sim_node: SimNode) -> None:
        """What a disk remembers never goes back to an earlier epoch, nor from one vote to another in the same epoch."""
        drive = sim_node.machine.drive
        if self._renames.get(sim_node.id) == drive.renames:
            return  # the file is replaced whole, by another with its name
        self._renames[sim_node.id] = drive.renames
        file = drive.find(QUORUM_STATE)
        before = self._remembered.get(sim_node.id)
        if not isinstance(file, Inode) or (before is not None and before.file is file):
            return
        state = read_quorum_state(SimDisk(drive, lambda _: None, lambda: 0), METADATA_LOG)
        assert state is not None
        if before is not None and state.leader_epoch < (was := before.state).leader_epoch:
            self._world.fail(f"node {sim_node.id} goes back from epoch {was.leader_epoch} to {state.leader_epoch}")
        if before is not None and state.leader_epoch == (was := before.state).leader_epoch:
            votes = {was.voted_id, state.voted_id} - {NOBODY}
            if len(votes) > 1:
                self._world.fail(f"node {sim_node.id} voted for {votes} in epoch {state.leader_epoch}")
        self._remembered[sim_node.id] = Remembered(file, state)

    def _compare(self) -> None:
        self.compare()
        self._world.after(COMPARE_SECONDS, self._compare)

    def compare(self) -> None:
        """Up to the high watermark each knows, replicas are the same; who leads has all of it."""
        held = []
        for sim_node, node, controller in self._running():
            if sim_node.ready:
                self._metadata.compare_metadata(sim_node, controller.quorum, self._world.fail)
            if node.replicas is not None and sim_node.ready:
                held += [(sim_node, partition) for partition in node.replicas if is_compared(partition)]
        for sim_node, partition in held:
            self._compare_partition(sim_node, partition)
        for sim_node, partition in held:
            truth = self._partitions[key_of(partition)]
            end = partition.log_end_offset
            if partition.leads and partition.leader_epoch == truth.newest_epoch and end < truth.end:
                what = f"node {sim_node.id} leads in epoch {partition.leader_epoch} and ends at {end}"
                self._world.fail(f"{partition.topic_partition}: {what}, where {truth.end} is committed")

    def _compare_partition(self, sim_node: SimNode, partition: Partition) -> None:
        truth = self._partitions.setdefault(key_of(partition), Committed())
        truth.newest_epoch = max(truth.newest_epoch, partition.leader_epoch)

        def fail(what: str) -> None:
            self._world.fail(f"{partition.topic_partition}: {what}")

        start, end = partition.earliest_local().offset, partition.high_watermark
        if end > partition.log_end_offset:
            fail(f"node {sim_node.id} ends at {partition.log_end_offset}, its high watermark is {end}")
        truth.compare(sim_node, start, end, lambda offset: partition.read_own(offset, READ_BYTES), fail)

    # -- the state of the cluster -----------------------------------------------------------

    def active(self) -> SimNode | None:
        """The active controller."""
        return next((sim_node for sim_node, _, controller in self._running() if controller.is_active), None)

    def all_is_well(self) -> bool:
        """Whether every broker is unfenced and every replica is in the ISR."""
        return self.why() == ""

    def all_is_quiet(self) -> bool:
        """Whether, beside that, every replica has the whole log, and every node the same metadata."""
        return self.why(quiet=True) == ""

    def why(self, *, quiet: bool = False) -> str:
        """What is not well; nothing if all is."""
        running = {found.sim_node.id: found for found in self._running()}
        absent = [sim_node.id for sim_node in self._cluster.nodes if not sim_node.ready or sim_node.id not in running]
        if absent:
            return f"nodes {absent} are not in service"
        active = self.active()
        if active is None:
            return "there is no active controller"
        image = running[active.id].controller.image
        for id_, (_, _, controller) in running.items():
            if quiet and controller.image.offset != image.offset:
                return f"node {id_} has metadata up to {controller.image.offset}, the active controller {image.offset}"
            broker = image.cluster.brokers.get(id_)
            if broker is None or not broker.active:
                return f"broker {id_} is fenced"
        for topic in image.topics.by_id.values():
            for index, partition in topic.partitions.items():
                name = f"{topic.name}-{index}"
                if partition.leader < 0 or set(partition.isr) != set(partition.replicas) or partition.reassigning:
                    return f"{name} has leader {partition.leader}, ISR {partition.isr} of {partition.replicas}"
                ends = []
                for replica in partition.replicas if quiet else ():
                    replicas = running[replica].node.replicas
                    held = replicas.held(topic.name, index) if replicas is not None else None
                    if held is None or held.high_watermark != held.log_end_offset:
                        return f"{name} on node {replica} is behind its log end offset"
                    ends.append(held.log_end_offset)
                if len(set(ends)) > 1:
                    return f"{name} ends at {ends} on {partition.replicas}"
        return ""

    def at_the_end(self) -> None:
        """When all is well again: all replicas are the same."""
        self.compare()
