"""Read, process, write in transactions: each input has one output, all of a transaction is there or nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from functools import partial

from kavka.client.fetched import ConsumerRecord
from kavka.client.offsets import LATEST
from kavka.client.producer import Producer
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition
from kavka.testing.checker import History, check
from kavka.testing.sim.client import SimClient, Workload, name_of

CARTS, BILLS = "carts", "bills"
PARTITIONS = 2
GROUP = "billing"
TIMEOUT_MS = 4_000


class Transactions(Workload):
    """Processors that take over from each other, some of them before the one before them has ended."""

    share = 0.8

    def __init__(self) -> None:
        self._history = History()
        self._lives = 0
        self._committed = 0
        self._aborted = 0

    async def prepare(self, client: SimClient) -> None:
        """Create the topics."""
        for topic in (CARTS, BILLS):
            await client.create_topic(topic, partitions=PARTITIONS)

    async def run(self, client: SimClient) -> None:
        """Feed, process and read."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._feed(client))
            follow = client.follow(BILLS, partial(self._note, "follower"), isolation="read_committed")
            tasks.create_task(follow)
            tasks.create_task(self._desert(client))
            for name in ("biller", "other"):
                tasks.create_task(self._process(client, name))

    async def _feed(self, client: SimClient) -> None:
        chance, pool, number = client.chance, client.pool(), 0
        async with client.producer(pool) as producer:
            while client.busy:
                number += 1
                value = f"cart{number}"
                with contextlib.suppress(KafkaError):  # it may be there or not: what is made of it is what counts
                    await producer.send_and_wait(CARTS, value.encode(), partition=chance.randrange(PARTITIONS))
                await asyncio.sleep(chance.uniform(0.01, 0.3))
        await pool.close()

    async def _process(self, client: SimClient, name: str) -> None:
        """One life after another; an old one may go on for a while beside the new."""
        chance = client.chance
        index = 0 if name == "biller" else 1
        async with asyncio.TaskGroup() as tasks:
            while client.busy:
                life = tasks.create_task(self._live(client, name, index))
                await asyncio.wait([life], timeout=chance.uniform(2, 15))
                await asyncio.sleep(chance.uniform(0, 0.2))

    async def _live(self, client: SimClient, name: str, index: int) -> None:
        self._lives += 1
        life, pool = f"{name}{self._lives}", client.pool()
        source = TopicPartition(CARTS, index)
        group = f"{GROUP}-{name}"
        try:
            producer = client.producer(
                pool, transactional_id=name, transaction_timeout_ms=TIMEOUT_MS, max_block_ms=15_000
            )
            async with producer, client.consumer(pool, isolation="read_committed") as consumer:
                offsets = await client.admin(pool).group_offsets(group)
                start = offsets[source].offset if source in offsets else 0
                await consumer.assign(source, start=start)
                number = 0
                while client.busy:
                    records = (await consumer.read(timeout_ms=300))[: client.chance.randint(1, 5)]
                    if not records:
                        continue
                    number += 1
                    offset = records[-1].offset + 1
                    if await self._transact(client, producer, f"{life}.{number}", records, group):
                        start = offset
                    await consumer.assign(source, start=start)
        except KafkaError:
            await asyncio.sleep(client.chance.uniform(0.05, 0.5))
        finally:
            await pool.close()

    async def _transact(
        self, client: SimClient, producer: Producer, name: str, records: list[ConsumerRecord], group: str
    ) -> bool:
        """Process records in one transaction; whether it was committed. Raises KafkaError if that is not known."""
        chance, history = client.chance, self._history
        producer.begin()
        try:
            for number, record in enumerate(records):
                source = f"{record.partition}:{record.offset}:{(record.value or b'').decode()}"
                partition, value = chance.randrange(PARTITIONS), f"{name}/{number}"
                history.send(name, f"{BILLS}-{partition}", value, source)
                await producer.send(BILLS, value.encode(), partition=partition)
            tp = TopicPartition(records[-1].topic, records[-1].partition)
            await producer.send_offsets({tp: records[-1].offset + 1}, group)
            if chance.random() < 0.1:
                await asyncio.sleep(chance.uniform(0.5, 2 * TIMEOUT_MS / 1000))  # long enough to be given up
            if chance.random() < 0.15:
                await producer.abort()
                history.aborted(name)
                self._aborted += 1
                return False
        except KafkaError:
            history.aborted(name)  # nobody has asked for its commit, and nobody will
            raise
        history.commit(name)
        await producer.commit()
        history.committed(name)
        self._committed += 1
        return True

    async def _desert(self, client: SimClient) -> None:
        """Have processes vanish in the midst of a transaction: the coordinator must abort it in time."""
        chance, number = client.chance, 0
        while client.busy:
            number += 1
            deserter = client.spawn(partial(self._only_begin, name=f"deserter{number}"))
            await asyncio.sleep(chance.uniform(0.3, 4))
            if deserter.alive:
                deserter.die()
            await asyncio.sleep(chance.uniform(0.5, 3))

    async def _only_begin(self, client: SimClient, name: str) -> None:
        pool = client.pool()
        partition, value = client.chance.randrange(PARTITIONS), f"{name}/0"
        try:
            async with client.producer(pool, transactional_id=name, transaction_timeout_ms=TIMEOUT_MS) as producer:
                producer.begin()
                self._history.send(name, f"{BILLS}-{partition}", value)
                self._history.aborted(name)  # nobody will ask for its commit
                await producer.send_and_wait(BILLS, value.encode(), partition=partition)
                await asyncio.sleep(TIMEOUT_MS)  # it does not live that long
        except KafkaError:
            await asyncio.sleep(0)
        finally:
            await pool.close()

    def _note(self, reader: str, record: ConsumerRecord) -> None:
        at = f"{record.topic}-{record.partition}"
        self._history.read(reader, at, record.offset, (record.value or b"").decode())

    async def finish(self, client: SimClient) -> None:
        """Wait until no transaction is open, and read everything."""
        pool = client.pool()
        admin = client.admin(pool)
        partitions = [TopicPartition(BILLS, index) for index in range(PARTITIONS)]
        while True:
            stable = await admin.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=True)
            ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
            if all(stable[tp].offset == ends[tp].offset for tp in partitions):
                break
            await asyncio.sleep(0.5)
        async with client.consumer(pool, isolation="read_committed") as consumer:
            await consumer.assign(BILLS, start="start")
            async for record in consumer.until_end():
                self._note("last", record)
            for tp in partitions:
                self._history.reached("last", name_of(tp), ends[tp].offset)
        for row in await admin.list_transactions():
            await admin.describe_transaction(row.id)
        await pool.close()

    def faults(self) -> Iterable[str]:
        """What a transaction must not do."""
        yield from (f"{fault.kind.name}: {fault.what}" for fault in check(self._history))

    def counts(self) -> dict[str, int]:
        """How many transactions there were."""
        return {"committed transactions": self._committed, "aborted transactions": self._aborted}
