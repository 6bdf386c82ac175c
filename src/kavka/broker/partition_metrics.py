"""What a node shows of its partitions: states, sizes and traffic, summed up anew for each scrape, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from time import process_time
from typing import Final

from kavka.metadata.delta import MetadataDelta
from kavka.metadata.image import MetadataImage
from kavka.metadata.image.topics import PartitionImage
from kavka.quorum.controller_loop import ControllerLoop
from kavka.replica.manager import ReplicaManager
from kavka.replica.partition import Partition
from kavka.replica.traffic import Traffic
from kavka.telemetry.metrics import Labelled, Metrics

STEP_PARTITIONS: Final = 500
"""So many are looked at in a step, which takes a millisecond."""

TRAFFIC: Final = {
    "produce_requests": "How often something was to be appended to {}.",
    "failed_produce_requests": "How often nothing was appended to {}, whatever the error.",
    "in_bytes": "Bytes that clients and coordinators have appended to {}.",
    "in_messages": "Records that were appended to {}, the marks of transactions included.",
    "produce_conversions": "Records that were compressed anew for {}, which wants another codec than the producer's.",
    "fetch_requests": "How often consumers were answered about {}.",
    "failed_fetch_requests": "How often consumers were answered with an error about {}.",
    "out_bytes": "Bytes that consumers were given of {}.",
    "replication_in_bytes": "Bytes of {} that were fetched from leaders.",
    "replication_out_bytes": "Bytes of {} that followers were given.",
}

STATES: Final = {
    "kavka_partitions": "Partitions held.",
    "kavka_partitions_led": "Partitions led.",
    "kavka_log_bytes": "Bytes of all logs.",
    "kavka_failed_logs": "Logs that the disk refused.",
    "kavka_under_replicated_partitions": "Partitions led whose ISR lacks a replica.",
    "kavka_under_min_isr_partitions": "Partitions led whose ISR is smaller than min.insync.replicas.",
    "kavka_at_min_isr_partitions": "Partitions led whose ISR is just min.insync.replicas.",
    "kavka_reassigning_partitions": "Partitions led that are being reassigned.",
}


class CpuShares:
    """What the node has spent, divided among partitions by what there was to do for them."""

    def __init__(self, spent: Callable[[], float]) -> None:
        self._spent = spent
        self._before = spent()

    def charge(self, found: Sequence[Traffic]) -> Iterator[None]:
        """Divide what was spent since this was last done, in steps."""
        now, total, due = self._spent(), 0, list[tuple[Traffic, int]]()
        cost, self._before = now - self._before, now
        for number, traffic in enumerate(found, 1):
            done = traffic.work
            if work := done - traffic.charged:
                traffic.charged = done
                due.append((traffic, work))
                total += work
            if number % STEP_PARTITIONS == 0:
                yield
        for number, (traffic, work) in enumerate(due, 1):
            traffic.cpu_seconds += cost * work / total
            if number % STEP_PARTITIONS == 0:
                yield


class PartitionSurvey:
    """The sums over the partitions of a node as they were at the last look."""

    def __init__(self, replicas: ReplicaManager, *, by_topic: bool, shares: CpuShares | None = None) -> None:
        self._replicas = replicas
        self._by_topic = by_topic
        self._shares = shares
        self.states = dict.fromkeys(STATES, 0)
        self.node = Traffic()
        self.topics: dict[str, tuple[Traffic, int]] = {}
        """By name: the traffic, and the bytes of the logs."""

    def look(self) -> Iterator[None]:
        """Sum up, in steps; what was seen before stays to be shown until all is summed up."""
        states, node, topics, looked_at = dict.fromkeys(STATES, 0), Traffic(), dict[str, tuple[Traffic, int]](), 0
        node.add(self._replicas.gone)
        for hosted in self._replicas.topics:
            traffic, size = Traffic(), 0
            traffic.add(hosted.gone)
            for partition in list(hosted.partitions.values()):
                size += self._count(partition, states, traffic)
                looked_at += 1
                if looked_at % STEP_PARTITIONS == 0:
                    yield
            node.add(traffic)
            if self._by_topic:
                topics[hosted.name] = traffic, size
        if self._shares is not None:
            yield from self._shares.charge([partition.traffic for partition in self._replicas])
        self.states, self.node, self.topics = states, node, topics

    def state(self, name: str) -> int:
        """How many partitions are in a state, or bytes."""
        return self.states[name]

    def of_node(self, name: str) -> int:
        """One of the numbers of the traffic of all topics."""
        return int(getattr(self.node, name))

    def of_topics(self, name: str) -> Iterator[Labelled]:
        """The same by topic."""
        for topic, (traffic, _) in self.topics.items():
            yield (topic,), getattr(traffic, name)

    def sizes(self) -> Iterator[Labelled]:
        """The bytes of the logs of each topic."""
        for topic, (_, size) in self.topics.items():
            yield (topic,), size

    def _count(self, partition: Partition, states: dict[str, int], traffic: Traffic) -> int:
        partition.count_messages()
        traffic.add(partition.traffic)
        size = partition.size_bytes
        states["kavka_partitions"] += 1
        states["kavka_log_bytes"] += size
        states["kavka_failed_logs"] += partition.failed is not None
        if partition.leads:
            states["kavka_partitions_led"] += 1
            in_sync, replicas = len(partition.isr), len(partition.replicas)
            least = min(partition.rules.min_insync_replicas, replicas)
            states["kavka_under_min_isr_partitions"] += in_sync < least
            states["kavka_at_min_isr_partitions"] += in_sync == least
            image = self._image(partition)
            if image is not None:
                states["kavka_reassigning_partitions"] += image.reassigning
                states["kavka_under_replicated_partitions"] += in_sync < replicas and under_replicated(partition, image)
        return size

    def _image(self, partition: Partition) -> PartitionImage | None:
        topic = self._replicas.image.topics.by_id.get(partition.topic_id)
        return None if topic is None else topic.partitions.get(partition.topic_partition.partition)


def under_replicated(partition: Partition, image: PartitionImage) -> bool:
    """Whether the ISR lacks a replica that is not just being added."""
    return not set(partition.replicas) - set(image.adding) <= set(partition.isr)


def show_partitions(metrics: Metrics, replicas: ReplicaManager, detail: str) -> None:
    """Partitions and their traffic: of the node, by topic and by partition, as far as the detail says."""
    shares = CpuShares(process_time) if detail == "partition" else None
    survey = PartitionSurvey(replicas, by_topic=detail != "node", shares=shares)
    metrics.survey(survey.look)
    for name, help_ in STATES.items():
        metrics.gauge(name, help_, partial(survey.state, name))
    metrics.gauge(
        "kavka_offline_replicas", "Replicas whose log or directory has failed.", lambda: replicas.offline_replicas
    )
    for name, help_ in TRAFFIC.items():
        metrics.count(f"kavka_node_{name}", help_.format("any topic"), partial(survey.of_node, name))
        if detail != "node":
            help_ = help_.format("the partitions of a topic here")
            metrics.counts(f"kavka_topic_{name}", help_, ("topic",), partial(survey.of_topics, name))
    if detail != "node":
        metrics.gauges("kavka_topic_log_bytes", "Bytes of a topic's logs here.", ("topic",), survey.sizes)
    if detail == "partition":
        _show_each(metrics, replicas)


EACH: Final[Mapping[str, tuple[str, Callable[[Partition], int]]]] = {
    "log_bytes": ("Bytes of a partition's log here.", lambda partition: partition.size_bytes),
    "log_start_offset": ("The first offset that can be read.", lambda partition: partition.log_start_offset),
    "log_end_offset": ("The offset of the next record.", lambda partition: partition.log_end_offset),
    "high_watermark": ("Up to here records are committed.", lambda partition: partition.high_watermark),
    "in_sync_replicas": ("The size of the ISR.", lambda partition: len(partition.isr)),
}


def _show_each(metrics: Metrics, replicas: ReplicaManager) -> None:
    def rows(read: Callable[[Partition], float]) -> Iterator[Labelled]:
        for partition in replicas:
            tp = partition.topic_partition
            yield (tp.topic, str(tp.partition)), read(partition)

    labels = ("topic", "partition")
    for name, help_ in TRAFFIC.items():
        shown = partial(rows, attrgetter(f"traffic.{name}"))
        metrics.counts(f"kavka_partition_{name}", help_.format("a partition"), labels, shown)
    metrics.counts(
        "kavka_partition_cpu_seconds",
        "The processor's time that this node has spent, divided among partitions by their bytes and requests.",
        labels,
        partial(rows, attrgetter("traffic.cpu_seconds")),
    )
    for name, (help_, read) in EACH.items():
        metrics.gauges(f"kavka_partition_{name}", help_, labels, partial(rows, read))


NOBODY: Final = -1
"""The leader of a partition that has none."""


class LeaderChanges:
    """Counts, while this node is the active controller, how partitions change their leaders."""

    def __init__(self, controller: ControllerLoop) -> None:
        self._controller = controller
        self._before: MetadataImage = controller.image
        self.elections = 0
        self.unclean = 0
        controller.subscribe(self.apply)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> Iterator[None]:
        """Compare the partitions that a change of the metadata names with what they were."""
        before, self._before = self._before.topics.by_id, image
        if not self._controller.is_active:
            return
        for topic_id, indexes in delta.changed_partitions.items():
            if (old := before.get(topic_id)) is not None:
                for index in indexes:
                    self._compare(old.partitions.get(index), image.topics.by_id[topic_id].partitions[index])
            yield

    def _compare(self, old: PartitionImage | None, new: PartitionImage) -> None:
        if old is not None and new.leader not in (old.leader, NOBODY):
            self.elections += 1
            self.unclean += new.leader not in old.isr and new.leader not in old.elr


def show_leaders(metrics: Metrics, controller: ControllerLoop) -> None:
    """Partitions without a leader, and elections, as the active controller sees them."""
    changes = LeaderChanges(controller)
    offline = [0]

    def look() -> Iterator[None]:
        found = looked_at = 0
        for topic in list(controller.image.topics.by_id.values()) if controller.is_active else ():
            for partition in topic.partitions.values():
                found += partition.leader == NOBODY
            looked_at += len(topic.partitions)
            if looked_at >= STEP_PARTITIONS:
                looked_at = 0
                yield
        offline[0] = found

    metrics.survey(look)
    metrics.gauge(
        "kavka_offline_partitions",
        "Partitions of the cluster without a leader, as the active controller knows; 0 elsewhere.",
        lambda: offline[0],
    )
    metrics.count(
        "kavka_leader_elections", "Partitions given another leader by this controller.", lambda: changes.elections
    )
    metrics.count(
        "kavka_unclean_leader_elections",
        "Of these: leaders that were not in sync, so that records may be lost.",
        lambda: changes.unclean,
    )
