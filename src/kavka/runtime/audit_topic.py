"""The entries of a node's audit log written to a topic: all of them, in order, each once.

Batches are transactions of an id that only this node has. Whoever begins anew, after a failure or a crash, first ends
what was open under that id, and then reads from the topic which entry was the last: the file beside the log only says
from where to read, and may be behind.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol

from kavka.client.consumer import Consumer
from kavka.client.offsets import LATEST, list_offsets
from kavka.client.pool import Pool
from kavka.client.producer import Producer
from kavka.metadata.names import AUDIT
from kavka.model.clock import Clock
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition

logger = logging.getLogger(__name__)

BATCH_BYTES: Final = 128 * 1024
TRANSACTION_MS: Final = 10_000
"""After this the coordinator ends what a node that is gone left open; readers wait no longer."""
BLOCK_MS: Final = 5_000
"""How long the coordinator is asked before all begins anew; a node that stops waits no longer to end what is open."""
FIRST_WAIT_S: Final = 0.2
LONGEST_WAIT_S: Final = 5.0


class Reached(NamedTuple):
    """The last entry that is known to be in the topic, and its offset."""

    seq: int
    offset: int


class Entries(Protocol):
    """The log that is written to the topic."""

    @property
    def id(self) -> str:
        """Which log it is: numbers of another mean nothing."""

    @property
    def next(self) -> int:
        """The number of the entry that comes next."""

    def place_of(self, number: int, /) -> Any:
        """A place from which on an entry is found."""

    def read(self, place: Any, max_bytes: int, /) -> tuple[list[tuple[int, bytes]], Any]:
        """Entries from a place on, and the place after them."""


class AuditTopic:
    """Writes entries to the topic while `run` runs; what it cannot write yet stays in the log."""

    def __init__(
        self,
        entries: Entries,
        pool: Pool,
        node_id: int,
        reached: Reached,
        forced: Callable[[], Awaitable[None]],
        remember: Callable[[Reached], Awaitable[None]],
        open_topic: Callable[[], Awaitable[int]],
        clock: Clock,
    ) -> None:
        """`forced` waits until the log is on the disk: the topic never has what a power cut could take from the log.

        `open_topic` creates the topic unless it is there, and says how many partitions it has.
        """
        self._entries = entries
        self._pool = pool
        self._node_id = node_id
        self._reached = reached
        self._forced = forced
        self._remember = remember
        self._open_topic = open_topic
        self._clock = clock
        self._more = asyncio.Event()
        self.failures = 0

    @property
    def done(self) -> int:
        """The number of the last entry that is in the topic."""
        return self._reached.seq

    def wake(self) -> None:
        """There are new entries."""
        self._more.set()

    async def run(self) -> None:
        """Write, and try again for ever, until cancelled."""
        wait = FIRST_WAIT_S
        try:
            while True:
                before = self._reached
                try:
                    await self._write()
                except (KafkaError, OSError) as error:
                    self.failures += 1
                    wait = FIRST_WAIT_S if self._reached != before else min(LONGEST_WAIT_S, 2 * wait)
                    logger.warning("the topic %s cannot be written, trying again: %s", AUDIT, error)
                except Exception:  # a node goes on without its topic: the log has all of it
                    self.failures += 1
                    wait = min(LONGEST_WAIT_S, 2 * wait)
                    logger.exception("the topic %s cannot be written, trying again", AUDIT)
                await asyncio.sleep(wait)
        finally:
            await self._pool.close()

    async def _write(self) -> None:
        """Write what is there and what comes; raises KafkaError when it has to begin anew."""
        while self._entries.next - 1 <= self._reached.seq:  # nothing is created for an empty log
            await self._wait()
        partitions = await self._open_topic()
        where = TopicPartition(AUDIT, self._node_id % partitions)
        producer = Producer(
            self._pool,
            transactional_id=transactional_id(self._node_id),
            transaction_timeout_ms=TRANSACTION_MS,
            max_block_ms=BLOCK_MS,
            linger_ms=0,
            clock=self._clock,
        )
        async with producer:  # fences whoever had the id before: what it wrote is committed or aborted now
            await self._follow(producer, where)

    async def _follow(self, producer: Producer, where: TopicPartition) -> None:
        self._reached = await self._look(where)
        place = self._entries.place_of(self._reached.seq + 1)
        while True:
            lines, place = self._entries.read(place, BATCH_BYTES)
            fresh = [line for line in lines if line[0] > self._reached.seq]
            if fresh:
                await self._send(producer, where, fresh)
            elif not lines:
                await self._wait()
            await asyncio.sleep(0)

    async def _wait(self) -> None:
        self._more.clear()
        await self._more.wait()

    async def _send(self, producer: Producer, where: TopicPartition, lines: list[tuple[int, bytes]]) -> None:
        key = self._entries.id.encode()
        await self._forced()
        producer.begin()  # what fails is left open: all of it begins anew
        sent = [await producer.send(AUDIT, line, key=key, partition=where.partition) for _, line in lines]
        await producer.commit()
        last = await sent[-1]
        self._reached = Reached(lines[-1][0], max(last.offset, self._reached.offset))
        await self._remember(self._reached)

    async def _look(self, where: TopicPartition) -> Reached:
        """The last entry of this log in the topic.

        Up to where it is written now, not up to where all of it is decided: another node's open transaction may be
        before our last entries.
        """
        key, reached = self._entries.id.encode(), self._reached
        end = (await list_offsets(self._pool, {where: LATEST}))[where].offset
        async with Consumer(self._pool, isolation="read_committed", out_of_range="start") as consumer:
            await consumer.assign(where, start=min(reached.offset, end))
            while records := await consumer.read(ends={where: end}):
                for record in records:
                    if record.key != key or (number := seq_of(record.value)) <= reached.seq:
                        continue
                    if number < self._entries.next:
                        reached = Reached(number, record.offset)
                    else:  # all that is sent is in the log, and on the disk
                        said = "%s has at offset %d an entry %d of this log that this node never wrote"
                        logger.warning(said, AUDIT, record.offset, number)
        return reached


def transactional_id(node_id: int) -> str:
    """What a node writes its entries as."""
    return f"{AUDIT}-{node_id}"


def seq_of(value: bytes | None) -> int:
    """The number of an entry; -1 of what is none."""
    try:
        found = json.loads(value or b"")
    except ValueError:
        return -1
    number = found.get("seq") if isinstance(found, dict) else None
    return number if isinstance(number, int) else -1
