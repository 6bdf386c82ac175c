"""What does tiering cost, how fast are cold reads, and do they slow the tail down?"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.loader import Lane, Template, run
from bench.node import Bench, Broker, Node
from bench.readback import VERSION, fetch_request
from bench.report import Row, at_least, at_most, best_of
from bench.wire import BenchError, Caller, Topic, check
from kavka.kernels.batches import scan_prefix
from kavka.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.tiered.objects.base import list_objects
from kavka.tiered.objects.local import LocalStore

Counted = Any
"""A number that processes share."""

MIB = 1 << 20
PARTITIONS = 4
COLD_READERS = 4
RECORDS = 14
SEGMENT_BYTES = 4 * MIB
EARLIEST_LOCAL = -4
PATIENCE_S = 300.0
TAIL_SECONDS = 3.0
CONFIG = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "4",
    "kavka.remote.cache.bytes": "0",  # every read is one of the store
}
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": "1",
    "retention.ms": "-1",
}


def rows(bench: Bench) -> list[Row]:
    """A backlog in a directory as a store, read while the tail goes on; figures in turns, on one machine."""
    size = bench.size(1024, 64) * MIB
    cold, raw, beside = [], [], []
    with (
        tempfile.TemporaryDirectory(prefix="kavka-bench-") as store,
        bench.node({**CONFIG, "kavka.remote.storage.url": f"file://{store}"}) as node,
    ):
        topic, per_gb = tiered_topic(node, size)
        for _ in range(bench.repeats):  # in turns, so that all see the same machine
            out_of_memory(Path(store))
            cold.append(read_cold(node, topic))
            out_of_memory(Path(store))
            raw.append(asyncio.run(read_raw(Path(store))))
            beside.append(tail_beside(node, topic))
    best_cold, best_raw = max(read.per_second for read in cold), max(raw)
    per_cpu = max(read.per_cpu_second for read in cold)
    shares = [tail.share for tail in beside]
    slower = f"{best_of(shares)}; the readers got {max(tail.cold for tail in beside):,.0f} MB/s meanwhile"
    return [
        Row("copying to a directory", per_gb, "CPU-s / GB"),
        Row("cold read, one reader", per_cpu, "MB / CPU-s", note=best_of([read.per_cpu_second for read in cold])),
        Row("cold read, one reader", best_cold, "MB / s", note=best_of([read.per_second for read in cold])),
        Row("share of the raw store's speed", 100 * best_cold / best_raw, "%", at_least(70)),
        Row(
            f"tail with {COLD_READERS} cold readers, against without",
            100 * (1 - max(shares)),
            "% slower",
            at_most(10),
            slower,
        ),
    ]


def tiered_topic(node: Broker, size: int) -> tuple[Topic, float]:
    """A topic of this size that is in the store but for its last segments, and the CPU-seconds per GB that it took.

    More than for one that is on the disk only, to which the same was written before.
    """
    with Caller(node.bootstrap) as caller:
        plain, topic = caller.create_topic(PARTITIONS), caller.create_topic(PARTITIONS, TIERED)
    began = node.cpu_seconds()
    run(lanes_of(node, plain, size // PARTITIONS))
    between = node.cpu_seconds()
    run(lanes_of(node, topic, size // PARTITIONS))
    deadline = time.monotonic() + PATIENCE_S
    with Caller(node.bootstrap) as caller:
        while any(local_start(caller, topic, index) * 1024 < size // PARTITIONS // 2 for index in range(PARTITIONS)):
            if time.monotonic() > deadline:
                raise BenchError(f"the disk has not let go of old segments within {PATIENCE_S:.0f} s")
            time.sleep(0.2)
    return topic, (node.cpu_seconds() - between - (between - began)) / (size / 1e9)


def lanes_of(node: Broker, topic: Topic, size: int) -> list[Lane]:
    payloads = [os.urandom(1024) for _ in range(RECORDS)]
    lanes = []
    for partition in range(PARTITIONS):
        template = Template(topic, partition, payloads, version=13, acks=-1)
        each = max(size // template.batch_bytes, 1)
        lanes.append(Lane(node.bootstrap, topic, [template], each, depth=64, chunk=8, prebuilt=False))
    return lanes


def local_start(caller: Caller, topic: Topic, index: int) -> int:
    """Where the disk begins."""
    row = ListOffsetsPartition(partition_index=index, timestamp=EARLIEST_LOCAL)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic.name, partitions=[row])])
    found = caller.call(request, 9).topics[0].partitions[0]
    check(found.error_code, "list offsets")
    return int(found.offset)


def walk_cold(bootstrap: str, topic: Topic, partition: int) -> Iterator[int]:
    """Read what only the store has of a partition; how many bytes, fetch by fetch."""
    offset = 0
    with Caller(bootstrap) as caller:
        end = local_start(caller, topic, partition)
        while offset < end:
            (part,) = caller.call(fetch_request(topic, partition, offset, MIB), VERSION).responses[0].partitions
            check(part.error_code, f"cold fetch at {offset}")
            infos, valid, _ = scan_prefix(part.records or b"", check_crc=False)
            if infos:  # else the store took longer than a fetch waits
                offset = infos[-1].last_offset + 1
                yield valid


class ColdRead(NamedTuple):
    """Megabytes per second, and per CPU-second of the node, of one cold reader."""

    per_second: float
    per_cpu_second: float


def read_cold(node: Broker, topic: Topic) -> ColdRead:
    """Read the backlog once, with one reader."""
    cpu, began = node.cpu_seconds(), time.perf_counter()
    megabytes = sum(sum(walk_cold(node.bootstrap, topic, index)) for index in range(PARTITIONS)) / 1e6
    return ColdRead(megabytes / (time.perf_counter() - began), megabytes / (node.cpu_seconds() - cpu))


def out_of_memory(folder: Path) -> None:
    """Have the system forget what it holds of a store's files: a backlog that was read a moment ago is not cold."""
    for path in folder.rglob("*.log"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


async def read_raw(folder: Path) -> float:
    """Megabytes per second of reading the same objects out of the store, a MiB at a time, with no node in between."""
    size, began = 0, time.perf_counter()
    with ThreadPoolExecutor(1) as threads:
        store = LocalStore(str(folder), threads)
        async for info in list_objects(store):
            for start in range(0, info.size if info.key.endswith(".log") else 0, MIB):
                size += len(await store.read(info.key, start, min(MIB, info.size - start)))
    return size / 1e6 / (time.perf_counter() - began)


def read_for_ever(bootstrap: str, topic: Topic, partition: int, read: Counted) -> None:
    """One cold reader; the clients of the tail go first where they share a core."""
    os.nice(19)
    while True:
        for size in walk_cold(bootstrap, topic, partition):
            read.value += size


@contextmanager
def cold_readers(node: Broker, topic: Topic) -> Iterator[list[Counted]]:
    """Readers of the backlog, each a process, that have begun; what each has read."""
    context = multiprocessing.get_context("spawn")
    counts = [context.Value("q", 0) for _ in range(COLD_READERS)]
    readers = [
        context.Process(target=read_for_ever, args=(node.bootstrap, topic, index % PARTITIONS, read), daemon=True)
        for index, read in enumerate(counts)
    ]
    for reader in readers:
        reader.start()
    try:
        while not all(read.value for read in counts):
            if not all(reader.is_alive() for reader in readers):
                raise RuntimeError("a reader of the backlog has died")
            time.sleep(0.01)
        yield counts
    finally:
        for reader in readers:
            reader.kill()
            reader.join()


@contextmanager
def on_its_own_core(node: Node) -> Iterator[None]:
    """Keep clients off a node's core, where there are several: in a cluster they are other machines."""
    cores = os.sched_getaffinity(0)
    first = min(cores)
    if len(cores) > 1:
        pin(node, {first})
        os.sched_setaffinity(0, cores - {first})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        pin(node, cores)


def pin(node: Node, cores: set[int]) -> None:
    """Have all threads of a node run on these cores."""
    for thread in Path(f"/proc/{node.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cores)


class Beside(NamedTuple):
    """How fast the tail goes with cold readers, as a share of how fast it goes without; their megabytes per second."""

    share: float
    cold: float


def tail_beside(node: Node, topic: Topic) -> Beside:
    """Measure the tail, without cold readers and with them."""
    with Caller(node.bootstrap) as caller:
        live = caller.create_topic(PARTITIONS)
    with on_its_own_core(node):
        alone = tail(node, live)
        with cold_readers(node, topic) as counts:
            before, began = sum(read.value for read in counts), time.perf_counter()
            beside = tail(node, live)
            cold = (sum(read.value for read in counts) - before) / 1e6 / (time.perf_counter() - began)
    return Beside(beside / alone, cold)


def tail(node: Broker, topic: Topic) -> float:
    """Produce for a while and read what was produced; megabytes per second both ways."""
    size, began = 0, time.perf_counter()
    with Caller(node.bootstrap) as caller:
        while time.perf_counter() - began < TAIL_SECONDS:
            run(lanes := lanes_of(node, topic, MIB))
            for index, lane in enumerate(lanes):
                lane.verify()
                (part,) = caller.call(fetch_request(topic, index, 0, MIB), VERSION).responses[0].partitions
                check(part.error_code, "tail fetch")
                size += lane.total * lane.templates[0].batch_bytes + len(part.records or b"")
    return size / 1e6 / (time.perf_counter() - began)
