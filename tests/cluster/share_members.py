"""Members of a share group that do what members do, and a record of what they were sent and said."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from cluster.share_history import Delivery, Said, ShareHistory
from kavka.client import Pool, ShareConsumer, ShareRecord
from kavka.client.share_session import ShareSession
from kavka.model.errors import KafkaError

Sent = dict[Any, dict[int, int]]


def watched(history: ShareHistory) -> type[ShareSession]:
    """The client's share session, of which every request and response is written down."""

    class WatchedSession(ShareSession):
        async def _fetch(self, said: Sent) -> Any:
            sent = time.time()
            try:
                answer = await super()._fetch(said)
            except (KafkaError, asyncio.CancelledError):
                self._note(said, sent, None)
                raise
            rows = [row for topic in answer.responses for row in topic.partitions]
            self._note(said, sent, {row.partition_index: row.acknowledge_error_code for row in rows})
            history.deliveries += [
                Delivery((row.partition_index, offset), self._member_id, self.node, one.delivery_count, sent, now())
                for row in rows
                for one in row.acquired_records
                for offset in range(one.first_offset, one.last_offset + 1)
            ]
            return answer

        async def _acknowledge(self, said: Sent, last: bool, renews: bool) -> Any:
            sent = time.time()
            if last:
                self._ended()
            try:
                outcomes = await super()._acknowledge(said, last, renews)
            except (KafkaError, asyncio.CancelledError):
                self._note(said, sent, None)
                raise
            codes = {tp.partition: 0 if error is None else error.code for tp, error in outcomes.items()}
            self._note(said, sent, codes)
            return outcomes

        def _failed(self, error: KafkaError) -> None:
            self._ended()
            super()._failed(error)

        def close(self) -> None:
            self._ended()
            super().close()

        def _ended(self) -> None:
            history.ended[self._member_id, self.node].append(now())

        def _note(self, said: Sent, sent: float, codes: dict[int, int] | None) -> None:
            """Without codes it is not known what became of it."""
            for tp, words in said.items():
                holds = None if codes is None else codes.get(tp.partition, 0) == 0
                history.said += [
                    Said((tp.partition, offset), self._member_id, how, sent, now(), holds)
                    for offset, how in words.items()
                ]

    return WatchedSession


def now() -> float:
    """The time as the controller's log has it."""
    return time.time()


class Members:
    """The members of a group, each a task."""

    def __init__(self, bootstrap: str, rng: random.Random, lock_seconds: float) -> None:
        self._bootstrap = bootstrap
        self._rng = rng
        self._lock_seconds = lock_seconds
        self.calm = False
        """Whether everything is accepted from now on."""

    async def work(self) -> None:
        """Be one member after another: who leaves or dies comes back as another."""
        while True:
            try:
                await self._live()
            except (KafkaError, ConnectionError, TimeoutError):
                await asyncio.sleep(0.2)

    async def _live(self) -> None:
        async with Pool(self._bootstrap) as pool:
            consumer = ShareConsumer(
                pool, group="g", topics=["jobs"], acknowledgement="explicit", max_records=10, max_wait_ms=300
            )
            async with consumer:
                while True:
                    records = await consumer.read(1000)
                    if records and self._chance(0.02):
                        if self._chance(0.5):
                            await pool.close()  # it dies with all that it holds
                        return
                    await self._answer(consumer, records)

    async def _answer(self, consumer: ShareConsumer, records: list[ShareRecord]) -> None:
        if records and self._chance(0.05):
            await asyncio.sleep(self._lock_seconds + 0.5)  # too slow: others get the records
        if records and self._rng.random() < 0.1:
            await consumer.renew()
        weights = [100, 0, 0] if self.calm else [75, 20, 5]
        for record in records:
            how: Any = self._rng.choices(["accept", "release", "reject"], weights)[0]
            consumer.acknowledge(record, how)
        await consumer.commit()

    def _chance(self, likely: float) -> bool:
        return not self.calm and self._rng.random() < likely
