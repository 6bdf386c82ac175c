"""How fast does confluent-kafka write and read in bulk, and what does a million messages cost the broker?"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.node import Bench, Node
from bench.report import Row
from bench.wire import BenchError, Caller, Topic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 4
POOL = 1000
STALL_S = 60.0
FETCH_MESSAGES = 10_000


def rows(bench: Bench) -> list[Row]:
    """Random payloads, which no codec can shrink, of three sizes."""
    sizes = {100: bench.size(1_000_000, 100_000), 1024: bench.size(300_000, 50_000), 10_240: bench.size(40_000, 8_000)}
    found: list[Row] = []
    with bench.node() as node:
        for payload_bytes, count in sizes.items():
            for codec in CODECS:
                found += _both_ways(node, payload_bytes, count, codec)
    return found


def _both_ways(node: Node, payload_bytes: int, count: int, codec: str) -> Iterator[Row]:
    with Caller(node.bootstrap) as caller:
        topic = caller.create_topic(PARTITIONS)
        pool = random_payloads(payload_bytes)
        for verb in ("produce", "consume"):
            cpu, began = node.cpu_seconds(), time.perf_counter()
            if verb == "produce":
                produce(node.bootstrap, topic, pool, count, codec)
            else:
                consume(node.bootstrap, topic, payload_bytes, count)
            wall, cpu = time.perf_counter() - began, node.cpu_seconds() - cpu
            note = f"{count * payload_bytes / 1e6 / wall:,.0f} MB/s, {cpu * 1e6 / count:.2f} CPU-s / million messages"
            yield Row(f"{verb} {payload_bytes:,} B, {codec}", count / wall, "messages / s", note=note)
        caller.delete_topics([topic.name])


def random_payloads(payload_bytes: int) -> list[bytes]:
    """Payloads to send in turn, which no codec can shrink."""
    return [os.urandom(payload_bytes) for _ in range(POOL)]


def produce(
    bootstrap: str,
    topic: Topic,
    pool: Sequence[bytes],
    count: int,
    codec: str,
    security: Mapping[str, str] | None = None,
) -> None:
    """Send this many messages over all partitions of a topic; all are acknowledged when it returns."""
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 5,
            "queue.buffering.max.messages": 200_000,
            "enable.idempotence": True,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, message: failures.append(error),
            **(security or {}),
        }
    )
    for number in range(count):
        while True:
            try:
                producer.produce(topic.name, pool[number % len(pool)], partition=number % topic.partitions)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(STALL_S)
    if left or failures:
        raise BenchError(f"{left} messages were not sent, {len(failures)} failed: {failures[:1]}")


def consume(
    bootstrap: str, topic: Topic, payload_bytes: int, count: int, security: Mapping[str, str] | None = None
) -> None:
    """Read this many messages of a topic from its start, with CRCs checked; raises unless all came whole."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "check.crcs": True,
            "fetch.queue.backoff.ms": 1,  # librdkafka's default of a second makes it wait for itself
            "queued.max.messages.kbytes": 1 << 20,
            **(security or {}),
        }
    )
    consumer.assign([TopicPartition(topic.name, index, 0) for index in range(topic.partitions)])
    got = size = 0
    while got < count:
        messages = consumer.consume(min(FETCH_MESSAGES, count - got), STALL_S)  # waits for that many
        if not messages:
            raise BenchError(f"{got} of {count} messages came")
        for message in messages:
            value = message.value()
            if message.error() is not None or value is None:
                raise KafkaException(message.error())
            size += len(value)
        got += len(messages)
    consumer.close()
    if (got, size) != (count, count * payload_bytes):
        raise BenchError(f"{got} messages of {size} bytes came, {count} of {count * payload_bytes} were sent")
