"""A producer that sends what was acknowledged once more: the log has it once, however many leaders later."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Final

from kavka.client.pool import Pool
from kavka.model.errors import DuplicateSequenceNumber, KafkaError, error_for
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kavka.records.builder import BatchBuilder
from kavka.testing.sim.client import SimClient, Workload

TOPIC: Final = "receipts"
PARTITIONS: Final = 2


class Repeats(Workload):
    """One batch at a time, again and again until it is acknowledged, and then perhaps once more."""

    share = 0.6

    def __init__(self) -> None:
        self._offsets: dict[tuple[int, int], int] = {}
        self._faults: list[str] = []
        self._repeated = 0

    async def prepare(self, client: SimClient) -> None:
        """Create the topic."""
        await client.create_topic(TOPIC, partitions=PARTITIONS)

    async def run(self, client: SimClient) -> None:
        """A producer per partition, each on a machine of its own."""
        await client.ended(*(client.spawn(partial(self._write, index=index)) for index in range(PARTITIONS)))

    async def _write(self, client: SimClient, index: int) -> None:
        chance, pool, sequence = client.chance, client.pool(timeout_ms=2_000), 0
        producer_id, epoch = await self._begin(pool)
        while client.busy:
            builder = BatchBuilder(producer_id=producer_id, producer_epoch=epoch)
            builder.base_sequence = sequence
            builder.append(None, f"{index}/{sequence}".encode(), client.process.now_ms())
            batch = builder.build()
            offset = await self._until_written(pool, index, batch)
            if offset is None:
                break
            self._offsets[index, sequence] = offset
            if chance.random() < 0.5:
                await asyncio.sleep(chance.uniform(0, 6))
                self._repeated += 1
                again = await self._until_written(pool, index, batch)
                if again not in (None, offset):
                    self._faults.append(f"{TOPIC}-{index}: {sequence} was written at {offset} and again at {again}")
            sequence += 1
            await asyncio.sleep(chance.uniform(0.01, 0.5))
        await pool.close()

    async def _begin(self, pool: Pool) -> tuple[int, int]:
        while True:
            try:
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
                answer = await pool.request(request, InitProducerIdResponse)
                if not answer.error_code:
                    return answer.producer_id, answer.producer_epoch
            except KafkaError:
                await asyncio.sleep(0.1)

    async def _until_written(self, pool: Pool, index: int, batch: bytes) -> int | None:
        """The offset that a batch is acknowledged at; None if it is refused for good, which is a fault."""
        while True:
            try:
                view = await pool.topic(TOPIC)
                data = TopicProduceData(
                    name=TOPIC, topic_id=view.id, partition_data=[PartitionProduceData(index=index, records=batch)]
                )
                request = ProduceRequest(acks=-1, timeout_ms=1_500, topic_data=[data])
                answer = await pool.request(request, ProduceResponse, node=view.partitions[index].leader)
                row = answer.responses[0].partition_responses[0]
                if row.error_code in (0, DuplicateSequenceNumber.code):
                    return row.base_offset
                if not (refused := error_for(row.error_code, row.error_message)).retriable:
                    self._faults.append(f"{TOPIC}-{index} refuses a batch with {refused!r}")
                    return None
            except KafkaError:
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.1)
            await self._refresh(pool)

    async def _refresh(self, pool: Pool) -> None:
        try:
            await pool.refresh([TOPIC])
        except KafkaError:
            await asyncio.sleep(0.1)

    async def finish(self, client: SimClient) -> None:
        """Every batch is where it was acknowledged, and nowhere else."""
        pool = client.pool()
        found: dict[tuple[int, int], int] = {}
        async with client.consumer(pool) as consumer:
            await consumer.assign(TOPIC, start="start")
            async for record in consumer.until_end():
                index, _, sequence = (record.value or b"").decode().partition("/")
                key = int(index), int(sequence)
                if key in found:
                    self._faults.append(f"{TOPIC}-{index}: {sequence} is at {found[key]} and at {record.offset}")
                found[key] = record.offset
        for key, offset in self._offsets.items():
            if found.get(key) != offset:
                self._faults.append(f"{TOPIC}: {key} was acknowledged at {offset} and is at {found.get(key)}")
        await pool.close()

    def faults(self) -> Iterable[str]:
        """Doubles, losses, refusals."""
        return self._faults

    def counts(self) -> dict[str, int]:
        """How often something was sent again."""
        return {"repeated batches": self._repeated}
