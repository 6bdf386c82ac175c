"""The clients both rivals are asked by: confluent-kafka, which is librdkafka, with nothing set that favours one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.report import percentile
from bench.wire import BenchError, Topic
from kavka.model.types import Uuid

STALL_S = 60.0
READ_AT_ONCE = 10_000
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Awaited:
    """Sends that each waited for the one before."""

    took: Sequence[float]

    @property
    def rate(self) -> float:
        """Acknowledged sends a second."""
        return len(self.took) / sum(self.took)

    def micros(self, share: float) -> float:
        """The microseconds that this share of them did not exceed."""
        return percentile(self.took, share) * 1e6


def await_each(bootstrap: str, topic: Topic, payload_bytes: int, seconds: float) -> Awaited:
    """Send messages one by one for so long, each after the last was acknowledged by all in-sync replicas."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    outcome: list[object] = []
    payload = os.urandom(payload_bytes)
    took: list[float] = []
    end = time.perf_counter() + seconds
    while not took or time.perf_counter() < end:
        outcome.clear()
        began = time.perf_counter()
        producer.produce(topic.name, payload, partition=0, on_delivery=lambda error, message: outcome.append(error))
        while not outcome:
            producer.poll(1)
            if time.perf_counter() - began > STALL_S:
                raise BenchError(f"no acknowledgement for {STALL_S:g} s")
        took.append(time.perf_counter() - began)
        if outcome[0] is not None:
            raise BenchError(f"a message was refused: {outcome[0]}")
    return Awaited(took)


def create_topic(bootstrap: str, partitions: int, replicas: int) -> Topic:
    """A topic with a name nobody has, when all its partitions have a leader and all their replicas in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    name = f"bench-{os.urandom(4).hex()}"
    admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(STALL_S)
    deadline = time.monotonic() + STALL_S
    while True:
        found = admin.list_topics(name, timeout=STALL_S).topics[name].partitions.values()
        if len(found) == partitions and all(
            partition.leader >= 0 and len(partition.isrs) == replicas for partition in found
        ):
            return Topic(name, Uuid.ZERO, partitions)
        if time.monotonic() > deadline:
            raise BenchError(f"{name} is not in sync after {STALL_S:g} s")
        time.sleep(_POLL_S)


def share(bootstrap: str, topic: Topic, payload_bytes: int, count: int, consumers: int) -> float:
    """Have a group of consumers, a thread each, read a topic together; the seconds it took.

    Joining is not on the clock, most of it is a wait that the coordinator is configured to make: the consumers hold
    still until each has its partitions, then all begin to fetch.
    """
    reading = _Reading(topic, count)
    group = f"bench-{os.urandom(4).hex()}"
    readers = [_Reader(bootstrap, group, reading) for _ in range(consumers)]
    threads = [threading.Thread(target=reader.run) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        deadline = time.monotonic() + STALL_S
        while not reading.stop.is_set() and not all(reader.assigned for reader in readers):
            if time.monotonic() > deadline:
                raise BenchError(f"the group is not complete after {STALL_S:g} s")
            time.sleep(_POLL_S)
        began = time.perf_counter()
        reading.begin.set()
        for thread in threads:
            thread.join()
    finally:
        reading.stop.set()
    wrong = [reader.failure for reader in readers if reader.failure]
    if wrong or (reading.got, reading.bytes) != (count, count * payload_bytes):
        raise BenchError(f"{reading.got} of {count} messages came, {reading.bytes} bytes; {wrong[:1]}")
    return reading.ended - began


class _Reading:
    """What the readers of one group share."""

    def __init__(self, topic: Topic, count: int) -> None:
        self.topic = topic.name
        self.begin, self.stop = threading.Event(), threading.Event()
        self.got = self.bytes = 0
        self.ended = 0.0
        self._count = count
        self._lock = threading.Lock()

    def take(self, messages: Sequence[Any]) -> None:
        """Count what a reader got."""
        size = 0
        for message in messages:
            value = message.value()
            if message.error() is not None or value is None:
                raise KafkaException(message.error())
            size += len(value)
        with self._lock:
            self.got += len(messages)
            self.bytes += size
            if self.got >= self._count:
                self.ended = time.perf_counter()
                self.stop.set()


class _Reader:
    def __init__(self, bootstrap: str, group: str, reading: _Reading) -> None:
        self.assigned: list[TopicPartition] = []
        self.failure = ""
        self._reading = reading
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "fetch.queue.backoff.ms": 1,
                "queued.max.messages.kbytes": 1 << 18,
            }
        )

    def run(self) -> None:
        """Join, wait for the word, read until the group has everything."""
        reading = self._reading
        try:
            self._consumer.subscribe([reading.topic], on_assign=self._hold)
            while not reading.begin.is_set() and not reading.stop.is_set():
                reading.take(self._consumer.consume(1, _POLL_S))
            self._consumer.resume(self.assigned)
            idle_since = time.monotonic()
            while not reading.stop.is_set():
                messages = self._consumer.consume(READ_AT_ONCE, _POLL_S)
                if messages:
                    reading.take(messages)
                    idle_since = time.monotonic()
                elif time.monotonic() - idle_since > STALL_S:
                    raise BenchError(f"nothing came for {STALL_S:g} s")
        except Exception as error:  # the caller raises it
            self.failure = f"{type(error).__name__}: {error}"
            reading.stop.set()
        finally:
            self._consumer.close()

    def _hold(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign(partitions)
        consumer.pause(partitions)
        self.assigned = partitions
