"""Tiered topics: every committed record can be read from the start to the end, once and in order, from either tier.

When all is settled the catalogue and the store agree, and a topic that keeps so many bytes keeps no fewer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ClassVar, Final

from kavka.catalog.partition import PartitionSegments
from kavka.catalog.segment import SegmentState
from kavka.client.fetched import ConsumerRecord
from kavka.client.offsets import LATEST
from kavka.client.producer import Producer
from kavka.model.errors import KafkaError, OffsetOutOfRange
from kavka.model.types import TopicPartition, Uuid
from kavka.testing.checker import History, check
from kavka.testing.sim.client import SimClient, Workload, name_of
from kavka.testing.sim.store import BucketView
from kavka.tiered.objects.opening import open_segments
from kavka.tiered.scrub import finished, orphans

URL: Final = "s3://tiers"
KEPT, SHRINKING = "archive", "window"
PARTITIONS: Final = 2
KEPT_BYTES: Final = 30_000
VALUE_BYTES: Final = 400
TIMEOUT_MS: Final = 4_000
LAST_LOOK_SECONDS: Final = 60.0


class Tiers(Workload):
    """One topic keeps everything, remote for the most part, and another a window of the last bytes."""

    share = 0.4
    settings: ClassVar[Mapping[str, str]] = {
        "remote.log.storage.system.enable": "true",
        "kavka.remote.storage.url": URL,
        "kavka.remote.storage.timeout.ms": "2000",
        "kavka.remote.delete.delay.ms": "500",
        "remote.log.manager.task.interval.ms": "500",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "2",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
        "rlmm.config.remote.log.metadata.consume.wait.ms": "5000",
    }

    def __init__(self) -> None:
        self._history = History()
        self._acknowledged = 0
        self._sent: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self._kept: dict[int, int] = {}
        self._faults: list[str] = []
        self._remote = 0

    async def prepare(self, client: SimClient) -> None:
        """Create the topics."""
        tiered = {"remote.storage.enable": "true", "segment.ms": "1000", "local.retention.ms": "1500"}
        await client.create_topic(KEPT, partitions=PARTITIONS, configs={**tiered, "retention.ms": "-1"})
        window = {"retention.bytes": str(KEPT_BYTES), "retention.ms": "-1", "local.retention.ms": "-2"}
        await client.create_topic(SHRINKING, partitions=PARTITIONS, configs={**tiered, **window})

    async def run(self, client: SimClient) -> None:
        """Write, in transactions and without, and read all the time."""
        writers = [client.spawn(self._write), client.spawn(self._transact), client.spawn(self._fill)]
        readers = [client.spawn(partial(self._read, name=f"reader{number}")) for number in range(3)]
        await client.ended(*writers, *readers)

    async def _read(self, client: SimClient, name: str) -> None:
        """Read for a while, and then from the start again, which is remote."""
        while client.busy:
            pool = client.pool()
            try:
                async with client.consumer(pool, isolation="read_committed") as consumer:
                    await consumer.assign(KEPT, start="start")
                    stop_at = client.now + client.chance.uniform(0.3, 4)
                    while client.busy and client.now < stop_at:
                        for record in await consumer.read(timeout_ms=300):
                            self._note(name, record)
            except OffsetOutOfRange as error:
                self._faults.append(
                    f"nothing of {KEPT} is ever deleted, and a reader hears at {client.now:.3f}: {error}"
                )
            except KafkaError:
                await asyncio.sleep(0.1)
            finally:
                await pool.close()

    async def _write(self, client: SimClient) -> None:
        chance, pool, number = client.chance, client.pool(), 0
        async with client.producer(pool, max_in_flight=1) as producer:
            while client.busy:
                number += 1
                partition, value = chance.randrange(PARTITIONS), f"w{number}"
                self._history.send(None, f"{KEPT}-{partition}", value)
                try:
                    sent = await producer.send_and_wait(KEPT, value.encode(), partition=partition)
                    self._history.sent(value, sent.offset)
                    self._acknowledged += 1
                except KafkaError:
                    pass  # nobody knows what became of it
                await asyncio.sleep(chance.uniform(0.01, 0.2))
        await pool.close()

    async def _transact(self, client: SimClient) -> None:
        """Transactions that last longer than a segment is written to, half of them aborted."""
        chance, number = client.chance, 0
        while client.busy:
            pool = client.pool()
            try:
                async with client.producer(
                    pool, transactional_id="archivist", transaction_timeout_ms=TIMEOUT_MS, max_block_ms=15_000
                ) as producer:
                    while client.busy:
                        number += 1
                        await self._once(client, producer, f"t{number}")
            except KafkaError:
                await asyncio.sleep(chance.uniform(0.05, 0.5))
            finally:
                await pool.close()

    async def _once(self, client: SimClient, producer: Producer, name: str) -> None:
        """One transaction: while it is open, nothing from its first record on is copied."""
        chance, history = client.chance, self._history
        first: dict[int, int] = {}
        producer.begin()
        try:
            for step in range(chance.randint(1, 6)):
                partition, value = chance.randrange(PARTITIONS), f"{name}/{step}"
                history.send(name, f"{KEPT}-{partition}", value)
                sent = await producer.send_and_wait(KEPT, value.encode(), partition=partition)
                first.setdefault(partition, sent.offset)
                await asyncio.sleep(chance.uniform(0, 0.8))
            copied = [
                f"{name} is open from offset {first[held.name.partition]} on, and {segment} is copied"
                for held in catalogued(client)
                if held.name.topic == KEPT and held.name.partition in first
                for segment in held.segments()
                if segment.end_offset >= first[held.name.partition]
            ]
            if chance.random() < 0.5:
                over = is_over(client, first)
                await producer.abort()
                history.aborted(name)
                self._faults += [] if over else copied
                return
        except KafkaError:
            history.aborted(name)  # nobody has asked for its commit, and nobody will
            raise
        history.commit(name)
        await producer.commit()
        history.committed(name)
        self._faults += copied  # it was open until now: it could be committed

    async def _fill(self, client: SimClient) -> None:
        chance, pool = client.chance, client.pool()
        async with client.producer(pool) as producer:
            while client.busy:
                partition = chance.randrange(PARTITIONS)
                try:
                    await producer.send_and_wait(SHRINKING, bytes(VALUE_BYTES), partition=partition)
                    self._sent[partition] += VALUE_BYTES
                except KafkaError:
                    pass  # nobody was promised anything
                await asyncio.sleep(chance.uniform(0.01, 0.15))
        await pool.close()

    def _note(self, reader: str, record: ConsumerRecord) -> None:
        at = f"{record.topic}-{record.partition}"
        self._history.read(reader, at, record.offset, (record.value or b"").decode())

    # -- the end --------------------------------------------------------------------------

    async def finish(self, client: SimClient) -> None:
        """Read everything, and compare the store with the catalogue."""
        pool = client.pool()
        admin = client.admin(pool)
        partitions = [TopicPartition(KEPT, index) for index in range(PARTITIONS)]
        while True:
            stable = await admin.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=True)
            ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
            if all(stable[tp].offset == ends[tp].offset for tp in partitions):
                break
            await asyncio.sleep(0.5)
        async with client.consumer(pool, isolation="read_committed") as consumer:
            await consumer.assign(KEPT, start="start")
            async for record in consumer.until_end():
                self._note("last", record)
            for tp in partitions:
                self._history.reached("last", name_of(tp), ends[tp].offset)
        async with client.consumer(pool) as consumer:
            await consumer.assign(SHRINKING, start="start")
            async for record in consumer.until_end():
                self._kept[record.partition] = self._kept.get(record.partition, 0) + len(record.value or b"")
        await pool.close()
        await self._settle(client)

    async def _settle(self, client: SimClient) -> None:
        """Wait until nothing is begun and not ended, and nothing is stored that nobody knows."""
        deadline = client.now + LAST_LOOK_SECONDS
        left: list[str] = []
        with ThreadPoolExecutor(1) as threads:
            bucket = client.cluster.bucket
            store = open_segments(URL, threads, bare=BucketView(bucket, client.process))
            while True:
                known = list(catalogued(client))
                left = [
                    f"{held.name}: {segment.id} is {segment.state.name}"
                    for held in known
                    for segment in held.segments()
                    if segment.state is not SegmentState.COPY_SEGMENT_FINISHED
                ]
                # What a process stored that ended before it could take it back is for `kavka tiers repair`.
                left += [
                    f"{stored.info.key} is in the store"
                    async for stored in orphans(store, known)
                    if bucket.objects[stored.info.key].owner.alive
                ]
                if not left or client.now >= deadline:
                    break
                await asyncio.sleep(0.5)
            self._faults += [f"the catalogue and the store do not agree: {what}" for what in left[:3]]
            for name, segment in finished(known):
                self._remote += 1
                self._faults += [
                    f"{name}: {segment.id}: {fault}" for fault in await store.faults(name, segment, deep=True)
                ]

    def faults(self) -> Iterable[str]:
        """Losses, doubles, disorder, and what is left lying about."""
        yield from (f"{fault.kind.name}: {fault.what}" for fault in check(self._history))
        yield from self._faults
        for partition, sent in self._sent.items():
            kept = self._kept.get(partition, 0)
            if kept < min(sent, KEPT_BYTES * 3 // 4):  # what is kept counts headers too
                yield f"LOST: {SHRINKING}-{partition} keeps {kept} bytes, {sent} were written, {KEPT_BYTES} are to stay"

    def counts(self) -> dict[str, int]:
        """How much was written, and is remote."""
        return {"tiered records": self._acknowledged, "remote segments": self._remote}


def is_over(client: SimClient, first: Mapping[int, int]) -> bool:
    """Whether a transaction with these first offsets by partition was aborted before its producer asked for that.

    At transaction version 2 its producer is not told: to the coordinator its own request is then a retry (KIP-890).
    """
    nodes = (sim_node.node for sim_node in client.cluster.nodes)
    replicas = [node.replicas for node in nodes if node is not None and node.replicas is not None]
    held = ((held.held(KEPT, partition), offset) for held in replicas for partition, offset in first.items())
    return any(partition is not None and partition.last_stable_offset > offset for partition, offset in held)


def catalogued(client: SimClient) -> Iterator[PartitionSegments]:
    """What the nodes know of remote segments, each partition as one that knows it has it."""
    seen: set[tuple[Uuid, int]] = set()
    for sim_node in client.cluster.nodes:
        catalogue = sim_node.node.catalogue if sim_node.node is not None else None
        for key, held in catalogue.partitions.items() if catalogue is not None else ():
            if key not in seen and catalogue is not None and catalogue.is_ready(*key):
                seen.add(key)
                yield held
