"""Kafka and Kavka take turns on one data directory and one store: each reads what the other has tiered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from jvm.java_tools import Java
from jvm.nodes import APACHE, KAVKA, Node, running
from jvm.tools import Tools, dump_log
from kafka_jars import fetch
from tests.tiering import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING,
    LATEST,
    LATEST_TIERED,
    SECOND_MS,
    TOPIC,
    World,
    until,
    value_of,
)

from kavka.client import Pool
from kavka.model.errors import KafkaError

METADATA = "__remote_log_metadata"
SERDE = "org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde"
FORMATTER = f"{SERDE}$RemoteLogMetadataFormatter"


def settings(store: Path) -> dict[str, str]:
    """One configuration for both: each has its own key for the store."""
    jars = fetch.test_folder()
    if not any(jars.glob("kafka-storage-*.jar")):
        pytest.skip(f"no test jars of Apache Kafka in {jars}: run python tools/kafka_jars/fetch.py")
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": f"{jars}/*",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rsm.config.dir": str(store),
        "kavka.remote.storage.url": f"file://{store}",
        "kavka.remote.cache.dir": f"{store}.cache",  # Kafka wants no folders but its own among its logs
        "kavka.remote.delete.delay.ms": "0",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.min.isr": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
        "remote.log.manager.task.interval.ms": "300",
        "log.initial.task.delay.ms": "300",
        "log.retention.check.interval.ms": "300",
    }


def play(node: Node, scenario: Callable[[World], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(120), Pool(node.bootstrap) as pool:
            await scenario(World(node.bootstrap, pool))

    asyncio.run(whole())


async def has(world: World, count: int) -> None:
    """All but the last two records are in the store alone, and all can be read."""

    async def settled() -> bool:
        try:
            return await world.offsets(LATEST_TIERED, EARLIEST_LOCAL) == [count - 3, count - 2]
        except KafkaError:
            return False

    await until(settled, f"{count - 2} records are in the store alone")
    assert await world.offsets(EARLIEST, EARLIEST_PENDING, LATEST) == [0, count - 2, count]
    assert await world.read() == [value_of(number) for number in range(count)]


def test_each_reads_and_goes_on_with_what_the_other_has_tiered(java: Java, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    config = settings(store)

    async def begin(world: World) -> None:
        await world.create()
        await world.produce(*range(10))
        await has(world, 10)

    def go_on(first: int, count: int) -> Callable[[World], Awaitable[None]]:
        async def scenario(world: World) -> None:
            await has(world, first)
            await world.produce(*range(first, count))
            await has(world, count)

        return scenario

    async def delete(world: World) -> None:
        await has(world, 22)
        await world.admin.delete_topic(TOPIC)

        async def gone() -> bool:
            return not list(store.rglob("*.log"))

        await until(gone, "the store is empty")

    with running(APACHE, java, tmp_path / "node", config) as kafka:
        play(kafka, begin)
    with running(KAVKA, java, tmp_path / "node", config) as kavka:
        play(kavka, go_on(10, 16))
        look_with_kafkas_tools(Tools(java, kavka))
    with running(APACHE, java, tmp_path / "node", config) as kafka:
        play(kafka, go_on(16, 22))
    dumped = dump_log(java, "--remote-log-metadata-decoder", "--files", str(metadata_log(tmp_path / "node" / "data")))
    assert "COPY_SEGMENT_FINISHED" in dumped.must_succeed().out
    with running(KAVKA, java, tmp_path / "node", config) as kavka:
        play(kavka, delete)


def metadata_log(data: Path) -> Path:
    """The part of the catalogue that has something."""
    return next(path for path in data.glob(f"{METADATA}-*/*.log") if path.stat().st_size)


def look_with_kafkas_tools(tools: Tools) -> None:
    """Kafka's own tools understand what Kavka shows and writes."""
    special = {"earliest": 0, "earliest-local": 14, "latest-tiered": 13, "earliest-pending-upload": 14, "latest": 16}
    for when, offset in (*special.items(), ("max-timestamp", 15), (str(4 * SECOND_MS), 3), (str(15 * SECOND_MS), 14)):
        found = tools.get_offsets("--topic", TOPIC, "--time", when).must_succeed()
        assert found.lines == [f"{TOPIC}:0:{offset}"]
    consumed = tools.console_consumer(
        "--topic", METADATA, "--from-beginning", "--formatter", FORMATTER, timeout_ms=8_000
    )
    assert consumed.out.count("RemoteLogSegmentMetadata{") == 7, consumed.said
    assert consumed.out.count("COPY_SEGMENT_FINISHED") == 7
