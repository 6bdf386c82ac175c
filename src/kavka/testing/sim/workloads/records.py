"""Producers and readers of plain records: what was acknowledged is there, once, in order, and never changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

from kavka.client.batching import Delivery
from kavka.client.fetched import ConsumerRecord
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.testing.checker import History, check
from kavka.testing.sim.client import Client, Workload, name_of

TOPIC = "orders"
PARTITIONS = 3
IN_FLIGHT = {"a": 1, "b": 1, "c": 5}
"""By writer. With several batches under way a broker that was stopped in order knows only the last one of them again:
what the others hold may be written twice then, as with Kafka, so the third writer is held to losses alone."""


class Records(Workload):
    """Idempotent producers that count up, and readers that follow."""

    def __init__(self) -> None:
        self._history = History()
        self._read: dict[tuple[str, str], list[int]] = {}
        self._acknowledged: set[str] = set()
        self._seen: set[str] = set()

    async def prepare(self, client: Client) -> None:
        """Create the topic."""
        rolls = client.chance.choice(({}, {"segment.ms": "1500"}, {"segment.ms": "4000"}))
        await client.create_topic(TOPIC, partitions=PARTITIONS, configs=rolls)

    async def run(self, client: Client) -> None:
        """Write and read, each on a machine that can be cut off from the others."""
        writers = [client.spawn(partial(self._write, name=name)) for name in IN_FLIGHT]
        await client.follow(TOPIC, partial(self._note, "follower"))  # what was read once may never be otherwise
        await client.ended(*writers)

    async def _write(self, client: Client, name: str) -> None:
        chance, pool = client.chance, client.pool()
        codec = chance.choice(("none", "gzip", "none"))
        number = 0
        options = {"linger_ms": chance.choice((0, 5)), "codec": codec, "max_in_flight": IN_FLIGHT[name]}
        writing = client.producer(pool, **options)
        async with writing as producer, asyncio.TaskGroup() as tasks:
            while client.busy:
                for _ in range(chance.randint(1, 6)):
                    number += 1
                    partition, value = chance.randrange(PARTITIONS), f"{name}{number}"
                    if IN_FLIGHT[name] == 1:
                        self._history.send(None, f"{TOPIC}-{partition}", value)
                    try:
                        delivery = await producer.send(TOPIC, value.encode(), partition=partition)
                    except KafkaError:
                        continue
                    tasks.create_task(self._delivered(delivery, value))
                await asyncio.sleep(chance.uniform(0.01, 0.5))
        await pool.close()

    async def _delivered(self, delivery: Delivery, value: str) -> None:
        try:
            delivered = await delivery
        except KafkaError:
            return  # nobody knows what became of it
        self._acknowledged.add(value)
        if IN_FLIGHT[value[0]] == 1:
            self._history.sent(value, delivered.offset)

    def _note(self, reader: str, record: ConsumerRecord) -> None:
        value = (record.value or b"").decode()
        if IN_FLIGHT[value[0]] == 1:
            self._history.read(reader, f"{record.topic}-{record.partition}", record.offset, value)

    async def finish(self, client: Client) -> None:
        """Read everything from the start."""
        pool = client.pool()
        async with client.consumer(pool) as consumer:
            await consumer.assign(TOPIC, start="start")
            ends = await consumer.end_offsets()
            async for record in consumer.until_end():
                at, value = f"{record.topic}-{record.partition}", (record.value or b"").decode()
                self._note("last", record)
                self._seen.add(value)
                self._read.setdefault((at, value[0]), []).append(int(value[1:]))
            for tp, end in ends.items():
                self._history.reached("last", name_of(TopicPartition(*tp)), end)
        await pool.close()

    def faults(self) -> Iterable[str]:
        """Losses, doubles, disorder."""
        yield from (f"{fault.kind.name}: {fault.what}" for fault in check(self._history))
        if lost := self._acknowledged - self._seen:
            yield f"LOST: {sorted(lost)[:5]} were acknowledged"
        for (at, writer), numbers in self._read.items():
            if IN_FLIGHT[writer] == 1 and numbers != sorted(numbers):
                yield f"REORDERED: what {writer} wrote to {at} is not in order"

    def counts(self) -> dict[str, int]:
        """How many records were acknowledged."""
        return {"acknowledged records": len(self._acknowledged)}
