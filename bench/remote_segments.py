"""How soon does a node know its 10,000 remote segments after a start, and what memory do they take?"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import tempfile
import time
import tracemalloc
from pathlib import Path

from bench.node import Bench, Node
from bench.report import Row, at_most
from kavka.catalog.machine import Catalogue, segment_event, update_event
from kavka.catalog.partitioner import metadata_partition
from kavka.catalog.records import encode_event
from kavka.catalog.segment import RemoteSegment, SegmentState, TopicIdPartition
from kavka.client import Admin, Pool, Producer, TopicPartition
from kavka.client.offsets import list_offsets
from kavka.metadata.names import REMOTE_LOG_METADATA, REMOTE_LOG_METADATA_CLIENT
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.testing import Cluster

METADATA_PARTITIONS = 50
TOPIC = "archive"
PARTITIONS = 100
LATEST_TIERED = -5
RECORDS = 1000
"""In each segment, of which every 20th has another leader epoch."""
TIERED = {"remote.storage.enable": "true", "remote.log.copy.disable": "true", "retention.ms": "-1"}


def rows(bench: Bench) -> list[Row]:
    """One node, whose metadata topic is written by a client as other leaders would write it."""
    count = bench.size(10_000, 1_000)
    with tempfile.TemporaryDirectory(prefix="kavka-bench-") as folder:
        config = {
            "remote.log.storage.system.enable": "true",
            "kavka.remote.storage.url": f"file://{folder}/store",
            "kavka.remote.cache.dir": f"{folder}/cache",
            "rlmm.config.remote.log.metadata.topic.num.partitions": str(METADATA_PARTITIONS),
        }
        with Cluster(config=config, timeout=120) as cluster:
            asyncio.run(fill(cluster.bootstrap, count))
            cluster.stop()
            snapshot = timed_start(cluster)
            cluster.stop()
            shutil.rmtree(Path(folder) / "cache" / "catalogue")
            topic = timed_start(cluster)
    case = f"{count} remote segments known after a start"
    return [
        Row(f"{case}, from the snapshot", snapshot[0], "s", at_most(3), f"{snapshot[1]:.2f} CPU-s of the node"),
        Row(f"{case}, from the topic", topic[0], "s", at_most(15), f"{topic[1]:.2f} CPU-s of the node"),
        Row("memory of a remote segment", bytes_each(count), "B", at_most(400)),
    ]


def events(name: TopicIdPartition, count: int) -> list[bytes]:
    """What the metadata topic has of so many segments of a partition."""
    found = []
    for number in range(count):
        start = number * RECORDS
        segment = RemoteSegment(
            Uuid(os.urandom(16)), start, start + RECORDS - 1, start, start, 1 << 20, 1, ((number // 20, start),)
        )
        done = segment._replace(state=SegmentState.COPY_SEGMENT_FINISHED, custom_metadata=bytes(13))
        found += [encode_event(segment_event(name, segment)), encode_event(update_event(name, done))]
    return found


async def fill(bootstrap: str, count: int) -> None:
    """Write the events, and wait until the node has read them."""
    async with Pool(bootstrap, client_id=f"{REMOTE_LOG_METADATA_CLIENT}1") as pool, Producer(pool) as producer:
        admin = Admin(pool)
        topic = await admin.create_topic(TOPIC, partitions=PARTITIONS, configs=TIERED)
        await ready(bootstrap)
        for index in range(PARTITIONS):
            home = metadata_partition(topic.id, index, METADATA_PARTITIONS)
            for event in events(TopicIdPartition(topic.id, index, TOPIC), count // PARTITIONS):
                await producer.send(REMOTE_LOG_METADATA, event, partition=home)
        await producer.flush()


def timed_start(cluster: Cluster) -> tuple[float, float]:
    """Start a node; the seconds and CPU-seconds that it took until it answered for every partition."""
    began = time.perf_counter()
    cluster.start()
    asyncio.run(ready(cluster.bootstrap))
    return time.perf_counter() - began, Node(cluster.bootstrap, cluster.pid).cpu_seconds()


async def ready(bootstrap: str) -> None:
    """Wait until the node can say of every partition what is remote."""
    wanted = {TopicPartition(TOPIC, index): LATEST_TIERED for index in range(PARTITIONS)}
    async with Pool(bootstrap) as pool:
        while True:
            try:
                await list_offsets(pool, wanted)
                return
            except KafkaError:
                await asyncio.sleep(0.02)


def bytes_each(count: int) -> float:
    """What a segment takes of a catalogue that has read so many."""
    name = TopicIdPartition(Uuid(os.urandom(16)), 0, TOPIC)
    values = events(name, count)
    gc.collect()
    tracemalloc.start()
    catalogue = Catalogue(1)
    for offset, value in enumerate(values):
        catalogue.replay_value(0, offset, value)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return used / count
