"""Producers and readers of plain records: what was acknowledged is there, once, in order, and never changes.

A broker that restarts knows only the last batch of a producer again (Kafka's snapshots hold no more), and refuses the
retry of an earlier one as out of order; a producer with several batches under way then raises its epoch and sends again
what may be there already, as Kafka's `TransactionManager.canRetry` has it. So with one batch under way there are no
doubles at all, and with several none within a producer epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from kavka.client.batching import Delivery
from kavka.client.fetched import ConsumerRecord
from kavka.kernels.batches import scan
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.records.batch import records
from kavka.replica.partition import Partition
from kavka.testing.checker import History, check
from kavka.testing.sim.client import SimClient, Workload, name_of
from kavka.testing.sim.committed import READ_BYTES

TOPIC: Final = "orders"
PARTITIONS: Final = 3
IN_FLIGHT: Final = {"a": 1, "b": 1, "c": 5}
"""By writer: how many batches it has under way."""


class Run(NamedTuple):
    """What a writer wrote to a partition within one producer epoch."""

    partition: str
    writer: str
    producer_id: int
    epoch: int


class Records(Workload):
    """Idempotent producers that count up, and readers that follow."""

    def __init__(self) -> None:
        self._history = History()
        self._written: dict[Run, list[int]] = {}
        self._acknowledged: dict[str, tuple[str, int]] = {}
        """By value: where it was said to be."""
        self._found: dict[tuple[str, int], str] = {}

    async def prepare(self, client: SimClient) -> None:
        """Create the topic."""
        rolls = client.chance.choice(({}, {"segment.ms": "1500"}, {"segment.ms": "4000"}))
        await client.create_topic(TOPIC, partitions=PARTITIONS, configs=rolls)

    async def run(self, client: SimClient) -> None:
        """Write and read, each on a machine that can be cut off from the others."""
        writers = [client.spawn(partial(self._write, name=name)) for name in IN_FLIGHT]
        await client.follow(TOPIC, partial(self._note, "follower"))  # what was read once may never be otherwise
        await client.ended(*writers)

    async def _write(self, client: SimClient, name: str) -> None:
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
        self._acknowledged[value] = (f"{TOPIC}-{delivered.partition}", delivered.offset)
        if IN_FLIGHT[value[0]] == 1:
            self._history.sent(value, delivered.offset)

    def _note(self, reader: str, record: ConsumerRecord) -> None:
        value = (record.value or b"").decode()
        if IN_FLIGHT[value[0]] == 1:
            self._history.read(reader, f"{record.topic}-{record.partition}", record.offset, value)

    async def finish(self, client: SimClient) -> None:
        """Read everything from the start, and see in the logs who wrote it."""
        pool = client.pool()
        async with client.consumer(pool) as consumer:
            await consumer.assign(TOPIC, start="start")
            ends = await consumer.end_offsets()
            async for record in consumer.until_end():
                self._note("last", record)
                self._found[f"{record.topic}-{record.partition}", record.offset] = (record.value or b"").decode()
            for tp, end in ends.items():
                self._history.reached("last", name_of(TopicPartition(*tp)), end)
        await pool.close()
        for led in self._led(client):
            self._look_into(led)

    def _led(self, client: SimClient) -> Iterator[Partition]:
        for sim_node in client.cluster.nodes:
            replicas = sim_node.node.replicas if sim_node.node is not None else None
            held = (replicas.held(TOPIC, index) for index in range(PARTITIONS)) if replicas is not None else ()
            yield from (partition for partition in held if partition is not None and partition.leads)

    def _look_into(self, partition: Partition) -> None:
        offset, at = partition.log_start_offset, name_of(partition.topic_partition)
        while offset < partition.log_end_offset:
            data = partition.read_own(offset, READ_BYTES)
            for batch in scan(data):
                for record in records(data, batch):
                    value = (record.value or b"").decode()
                    run = Run(at, value[0], batch.producer_id, batch.producer_epoch)
                    self._written.setdefault(run, []).append(int(value[1:]))
                    offset = record.offset + 1

    def faults(self) -> Iterable[str]:
        """Losses, doubles, disorder."""
        yield from (f"{fault.kind.name}: {fault.what}" for fault in check(self._history))
        for value, place in self._acknowledged.items():
            if self._found.get(place) != value:
                yield f"LOST: {value} was acknowledged at {place}, where there is {self._found.get(place)}"
        for run, numbers in self._written.items():
            for earlier, later in pairwise(numbers):
                if later <= earlier:
                    yield f"REORDERED: {run} has {later} after {earlier}"
        for writer in (name for name, batches in IN_FLIGHT.items() if batches == 1):
            if len(epochs := {run.epoch for run in self._written if run.writer == writer}) > 1:
                yield f"{writer} has one batch under way at a time and came to need the producer epochs {epochs}"

    def counts(self) -> dict[str, int]:
        """How many records were acknowledged."""
        return {"acknowledged records": len(self._acknowledged)}
