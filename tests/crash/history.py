"""What was sent, what was acknowledged, and what a log may look like afterwards."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

PATIENCE_S = 60.0
FETCH_MESSAGES = 10_000
Place = tuple[str, int]


class History:
    """Values are unique and in order per sender and partition: `sender/number/padding`."""

    def __init__(self) -> None:
        self.sent: dict[Place, list[bytes]] = defaultdict(list)
        self.acknowledged: dict[Place, dict[int, bytes]] = defaultdict(dict)
        self.failures: list[str] = []
        self.acknowledgements = 0
        self._numbers: dict[tuple[str, Place], int] = defaultdict(int)

    def next_value(self, sender: str, place: Place, padding: int) -> bytes:
        """The value to send next, which counts as sent."""
        number = self._numbers[sender, place]
        self._numbers[sender, place] = number + 1
        value = b"%s/%d/%s" % (sender.encode(), number, b"." * padding)
        self.sent[place].append(value)
        return value

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """The delivery callback of a producer."""
        if error is not None:
            self.failures.append(str(error))
            return
        place = (message.topic(), message.partition())
        offset = message.offset()
        assert offset not in self.acknowledged[place], f"offset {offset} of {place} was acknowledged twice"
        self.acknowledged[place][offset] = message.value()
        self.acknowledgements += 1

    def check(self, place: Place, log: list[tuple[int, bytes]]) -> None:
        """Nothing acknowledged is missing, nothing is there twice, nothing has a gap before it."""
        assert [offset for offset, _ in log] == list(range(len(log))), f"the offsets of {place} have gaps"
        values = [value for _, value in log]
        assert len(set(values)) == len(values), f"{place} has a record twice: {_first_repeated(values)!r}"
        foreign = set(values) - set(self.sent[place])
        assert not foreign, f"{place} has records nobody sent: {sorted(foreign)[:3]}"
        for offset, value in self.acknowledged[place].items():
            assert offset < len(values), f"{place} ends at {len(values)}, but offset {offset} was acknowledged"
            assert values[offset] == value, f"offset {offset} of {place} was acknowledged with another record"
        numbers: dict[bytes, int] = defaultdict(int)
        for value in values:
            sender, number, _ = value.split(b"/", 2)
            assert int(number) == numbers[sender], f"{place}: {sender!r} sent {numbers[sender]} before {number!r}"
            numbers[sender] += 1


def _first_repeated(values: Iterable[bytes]) -> bytes | None:
    seen: set[bytes] = set()
    for value in values:
        if value in seen:
            return value[:60]
        seen.add(value)
    return None


class Sender:
    """An idempotent producer that writes to random partitions and notes it all."""

    def __init__(self, name: str, bootstrap: str, places: list[Place], history: History, rng: random.Random) -> None:
        self.name = name
        self._places = places
        self._history = history
        self._rng = rng
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": rng.choice([0, 1, 5]),
                "batch.num.messages": rng.choice([1, 5, 100]),
                "compression.type": rng.choice(["none", "lz4", "zstd"]),
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "log_level": 0,
                "on_delivery": history.delivered,
            }
        )

    def burst(self, serve_s: float = 0.005) -> None:
        """Send a few, and take acknowledgements for a while."""
        for _ in range(self._rng.randint(1, 30)):
            place = self._rng.choice(self._places)
            value = self._history.next_value(self.name, place, self._rng.choice([0, 10, 100, 2000]))
            self._producer.produce(place[0], value, partition=place[1])
        self._producer.poll(serve_s)

    def finish(self) -> None:
        """Wait until everything is acknowledged."""
        left = self._producer.flush(PATIENCE_S)
        assert left == 0, f"{left} records were not acknowledged in {PATIENCE_S:g} s"

    def abandon(self) -> None:
        """Forget what is not acknowledged: nobody will ever know whether it arrived."""
        self._producer.poll(0)
        before = len(self._history.failures)
        deadline = time.monotonic() + PATIENCE_S
        while len(self._producer):  # one purge may miss what moves between two queues at that moment
            assert time.monotonic() < deadline, f"{len(self._producer)} records cannot be purged"
            self._producer.purge()
            self._producer.flush(0.1)
        del self._history.failures[before:]


def read_log(bootstrap: str, place: Place) -> list[tuple[int, bytes]]:
    """All of a partition, CRC-checked by the client."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "crash-tests",
            "enable.auto.commit": False,
            "check.crcs": True,
            "fetch.queue.backoff.ms": 1,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    try:
        partition = TopicPartition(*place, 0)
        consumer.assign([partition])
        _, end = consumer.get_watermark_offsets(partition, timeout=PATIENCE_S, cached=False)
        log: list[tuple[int, bytes]] = []
        while len(log) < end:
            messages = consumer.consume(min(FETCH_MESSAGES, end - len(log)), PATIENCE_S)
            assert messages, f"{place} says it ends at {end}, but only {len(log)} records came"
            for message in messages:
                assert message.error() is None, message.error()
                log.append((message.offset(), message.value()))
        return log
    finally:
        consumer.close()
