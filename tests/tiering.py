"""A node that tiers, in this process, and what tests ask of it: records of a known size, one to a batch."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kavka.broker.config import node_config
from kavka.broker.wiring import Node
from kavka.client import Admin, ConfigResource, Consumer, Pool, Producer, ResourceType
from kavka.client.offsets import list_offsets
from kavka.model.clock import SystemClock
from kavka.model.types import TopicPartition
from kavka.records.builder import BatchBuilder
from kavka.storage.disk import RealDisk
from kavka.tiered.objects.base import ObjectStore

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
PATIENCE = 60.0
SECOND_MS = 1_000
TOPIC = "orders"
FAST = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "50",
    "log.retention.check.interval.ms": "50",
    "log.initial.task.delay.ms": "0",
    "kavka.remote.delete.delay.ms": "0",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


def value_of(number: int) -> bytes:
    return b"%08d" % number


def batch_bytes(records: int = 1) -> int:
    """How large a batch of so many records is on disk."""
    builder = BatchBuilder()
    for number in range(records):
        builder.append(None, value_of(number), SECOND_MS)
    return len(builder.build())


async def until(holds: Callable[[], Awaitable[Any]], what: str = "", *, patience: float = PATIENCE) -> Any:
    """Wait for something to become true."""
    found: Any = None
    try:
        async with asyncio.timeout(patience):
            while not (found := await holds()):
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"it never came to be: {what or holds} ({found})") from None
    return found


class World:
    """A cluster, as clients see it."""

    def __init__(self, bootstrap: str, pool: Pool, metrics: str | None = None) -> None:
        self.bootstrap = bootstrap
        self.metrics = metrics
        self.pool = pool
        self.admin = Admin(pool)

    async def create(
        self, topic: str = TOPIC, *, partitions: int = 1, replicas: int = 1, per_segment: int = 2, **configs: object
    ) -> None:
        texts: dict[str, str] = {
            "remote.storage.enable": "true",
            "internal.segment.bytes": str(per_segment * batch_bytes()),
            "index.interval.bytes": "1",
            "local.retention.bytes": "1",
            "retention.ms": "-1",
            "retention.bytes": "-1",
        }
        texts |= {name.replace("_", "."): str(value) for name, value in configs.items()}
        await self.admin.create_topic(topic, partitions=partitions, replication_factor=replicas, configs=texts)

    async def produce(self, *numbers: int, topic: str = TOPIC, partition: int = 0) -> None:
        """Records with known times, each a batch of its own."""
        async with Producer(self.pool, linger_ms=0) as producer:
            for number in numbers:
                await producer.send_and_wait(
                    topic, value_of(number), partition=partition, timestamp=(number + 1) * SECOND_MS
                )

    async def produce_at(self, *times_ms: int, topic: str = TOPIC) -> None:
        """Records of these times."""
        async with Producer(self.pool, linger_ms=0) as producer:
            for number, time_ms in enumerate(times_ms):
                await producer.send_and_wait(topic, value_of(number), partition=0, timestamp=time_ms)

    async def alter(self, topic: str = TOPIC, **configs: object) -> None:
        """Change a topic's configuration."""
        texts = {name.replace("_", "."): str(value) for name, value in configs.items()}
        await self.admin.alter_configs(ConfigResource(ResourceType.TOPIC, topic), set=texts)

    async def offset(self, which: int, topic: str = TOPIC, partition: int = 0) -> int:
        tp = TopicPartition(topic, partition)
        return (await list_offsets(self.pool, {tp: which}))[tp].offset

    async def offsets(self, *which: int, topic: str = TOPIC) -> list[int]:
        return [await self.offset(one, topic) for one in which]

    async def becomes(self, which: int, offset: int, topic: str = TOPIC, partition: int = 0) -> None:
        """Wait until a special offset is this one."""

        async def is_so() -> bool:
            return await self.offset(which, topic, partition) == offset

        await until(is_so, f"offset {which} of {topic} is {offset}")

    async def metric(self, name: str) -> float:
        """A number without labels of the page of metrics."""
        with await asyncio.to_thread(urllib.request.urlopen, f"http://{self.metrics}/metrics") as page:
            text = page.read().decode()
        return float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name} ")))

    async def read(
        self, topic: str = TOPIC, partition: int = 0, *, start: int = 0, committed: bool = False
    ) -> list[bytes | None]:
        """All values from an offset on."""
        isolation: Any = "read_committed" if committed else "read_uncommitted"
        tp = TopicPartition(topic, partition)
        async with asyncio.timeout(PATIENCE), Consumer(self.pool, isolation=isolation) as consumer:
            await consumer.assign(tp, start=start if start else "start")
            return [record.value async for record in consumer.until_end()]


def settings(folder: Path, store: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(folder),
        "kavka.remote.storage.url": store,
        **FAST,
        **(more or {}),
    }


@asynccontextmanager
async def serving(texts: Mapping[str, str], store: ObjectStore | None = None) -> AsyncIterator[World]:
    """A node until the block ends, and a client of it."""
    stopping, reports = asyncio.Event(), asyncio.Queue[Any]()
    async with asyncio.TaskGroup() as tasks:
        node = Node(node_config(texts), RealDisk(), SystemClock(), store=store)
        tasks.create_task(node.run(reports.put_nowait, stopping))
        report = await reports.get()
        try:
            async with Pool(report.bootstrap) as pool:
                yield World(report.bootstrap, pool, report.metrics)
        finally:
            stopping.set()
