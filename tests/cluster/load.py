"""Writes without end from an idempotent confluent-kafka producer, and what became of them.

Each partition gets numbers that count up. Whatever faults there are: what was acknowledged must be readable, each
number once, and in order.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

SETTINGS: dict[str, Any] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "message.timeout.ms": 120_000,
    "request.timeout.ms": 1_500,
    "socket.timeout.ms": 3_000,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 500,
    "topic.metadata.refresh.fast.interval.ms": 50,
}
"""A client that looks about often: what is measured is the cluster's patience, not librdkafka's."""


class Load:
    """A thread that writes to every partition of a topic in turn, from `start` to `finish`."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, rate: float = 200.0, **settings: Any) -> None:
        self.topic, self.partitions = topic, partitions
        self.acked: dict[int, list[tuple[int, int, float]]] = defaultdict(list)
        """By partition: the number that was written, its offset, and when that was acknowledged."""
        self.failed: list[str] = []
        self._pause = partitions / rate
        self._bootstrap = bootstrap
        self._producer = Producer({"bootstrap.servers": bootstrap, **SETTINGS, **settings})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._next = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def finish(self, timeout: float = 60.0) -> None:
        """Write no more, and wait until everything is acknowledged."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(timeout)
        assert left == 0, f"{left} records were not acknowledged within {timeout:g} s"

    @property
    def count(self) -> int:
        """How many were acknowledged."""
        return sum(map(len, self.acked.values()))

    def await_acks(self, more: int, timeout: float = 60.0) -> None:
        """Return when every partition has so many more acknowledged."""
        wanted = {index: len(self.acked[index]) + more for index in range(self.partitions)}
        deadline = time.monotonic() + timeout
        while any(len(self.acked[index]) < count for index, count in wanted.items()):
            missing = [index for index, count in wanted.items() if len(self.acked[index]) < count]
            assert time.monotonic() < deadline, f"partitions {missing} take no writes"
            time.sleep(0.01)

    def longest_gap(self, since: float) -> float:
        """The longest time, from a moment on, that any partition went without an acknowledged write."""
        longest = 0.0
        for rows in list(self.acked.values()):
            times = [since, *(at for _, _, at in list(rows) if at >= since)]
            longest = max([longest, *(later - sooner for sooner, later in pairwise(times))])
        return longest

    def check(self, bootstrap: str | None = None) -> int:
        """Read everything back; the number of records. Raises AssertionError for a loss, a double or disorder."""
        found = read_all(bootstrap or self._bootstrap, self.topic, self.partitions)
        assert not self.failed, self.failed[:5]
        for index in range(self.partitions):
            rows = found[index]
            numbers = [number for _, number in rows]
            there = set(numbers)
            # librdkafka knows no offset of what it sent again and learns was there already
            acked = {(offset, number) for number, offset, _ in self.acked[index] if offset is not None}
            lost = (acked - set(rows)) | {(-1, number) for number, _, _ in self.acked[index] if number not in there}
            assert not lost, f"{len(lost)} acknowledged records of partition {index} are lost: {sorted(lost)[:5]}"
            assert len(there) == len(numbers), f"partition {index} has records twice: {doubles(rows)}"
            assert numbers == sorted(numbers), f"partition {index} is out of order"
        return sum(map(len, found.values()))

    def _write(self) -> None:
        while not self._stop.is_set():
            for index in range(self.partitions):
                self._produce(index, self._next)
            self._next += 1
            self._producer.poll(0)
            self._stop.wait(self._pause)

    def _produce(self, index: int, number: int) -> None:
        while True:
            try:
                self._producer.produce(self.topic, b"%d" % number, partition=index, on_delivery=self._delivered)
                return
            except BufferError:
                self._producer.poll(0.05)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        if error is not None:
            self.failed.append(f"{message.partition()}: {value!r} {error}")
        else:
            self.acked[message.partition()].append((int(value), message.offset(), time.monotonic()))


def doubles(rows: list[tuple[int, int]]) -> dict[int, list[int]]:
    """The numbers that are there more than once, and where."""
    places: dict[int, list[int]] = defaultdict(list)
    for offset, number in rows:
        places[number].append(offset)
    return {number: offsets for number, offsets in places.items() if len(offsets) > 1}


def read_all(bootstrap: str, topic: str, partitions: int, timeout: float = 60.0) -> dict[int, list[tuple[int, int]]]:
    """Offset and number of each record, by partition, up to the ends as they are now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    found: dict[int, list[tuple[int, int]]] = {index: [] for index in range(partitions)}
    left = set(found)
    deadline = time.monotonic() + timeout
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in found])
        while left:
            assert time.monotonic() < deadline, f"partitions {sorted(left)} cannot be read to their end"
            for message in consumer.consume(500, 0.2):
                error = message.error()
                if error is None:
                    value = message.value()
                    assert value is not None
                    found[message.partition()].append((message.offset(), int(value)))
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                elif not error.retriable() and error.fatal():
                    raise KafkaException(error)
    finally:
        consumer.close()
    return found
