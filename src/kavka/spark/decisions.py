"""Which micro-batches of a query are decided: its last decision is a record of a compacted topic, under its id.

Whoever opens a `Decider` is the only one that can decide from then on, because it takes over the transactional id that
decisions are written with. So what it then reads as the last decision stays the last one until it decides itself.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from kavka.client import (
    EARLIEST,
    LATEST,
    Admin,
    Consumer,
    Pool,
    PreparedTransaction,
    Producer,
    TopicPartition,
)
from kavka.model.errors import TopicAlreadyExists, UnknownTopicOrPartition

TOPIC: Final = "kavka-spark-decisions"
PREFIX: Final = "kavka-spark."
_PARTITION: Final = TopicPartition(TOPIC, 0)
_WINDOW: Final = 256
"""How far back from the end the last decision is looked for at first."""


@dataclass(frozen=True, slots=True)
class BatchDecision:
    """A micro-batch is to be committed: these transactions, by their transactional ids."""

    batch: int = -1
    transactions: Mapping[str, PreparedTransaction] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The record's value."""
        return json.dumps({"batch": self.batch, "transactions": self.transactions}).encode()

    @classmethod
    def decode(cls, value: bytes) -> BatchDecision:
        """What a record's value says."""
        said = json.loads(value)
        return cls(said["batch"], {id_: PreparedTransaction(*each) for id_, each in said["transactions"].items()})


class Decider:
    """The only one that can decide for a query."""

    def __init__(self, pool: Pool, query: str) -> None:
        self._pool = pool
        self._query = query
        self._producer = Producer(pool, transactional_id=PREFIX + query)
        self.last = BatchDecision()
        """The last decision; batch -1 if there is none yet."""

    async def __aenter__(self) -> Self:
        await self._producer.__aenter__()
        try:
            self.last = await self._find()
        except BaseException as error:
            await self._producer.__aexit__(type(error), error, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._producer.__aexit__(kind, error, trace)

    async def decide(self, decision: BatchDecision) -> None:
        """Make a decision, which stands once this returns; raises ProducerFenced if another one may decide now."""
        async with self._producer.transaction():
            await self._producer.send(TOPIC, decision.encode(), key=self._query.encode(), partition=0)
        self.last = decision

    async def _find(self) -> BatchDecision:
        admin = Admin(self._pool)
        try:
            bounds = [(await admin.list_offsets({_PARTITION: when}))[_PARTITION].offset for when in (EARLIEST, LATEST)]
        except UnknownTopicOrPartition:
            with contextlib.suppress(TopicAlreadyExists):
                await admin.create_topic(TOPIC, partitions=1, configs={"cleanup.policy": "compact"})
            return BatchDecision()
        first, end = bounds
        window = _WINDOW
        while True:
            start = max(first, end - window)
            found = await self._last_from(start)
            if found is not None or start == first:
                return found or BatchDecision()
            window *= 16

    async def _last_from(self, start: int) -> BatchDecision | None:
        found = None
        async with Consumer(self._pool, isolation="read_committed") as consumer:
            await consumer.assign(_PARTITION, start=start)
            async for record in consumer.until_end():
                if record.key == self._query.encode() and record.value is not None:
                    found = record.value
        return None if found is None else BatchDecision.decode(found)
