"""A micro-batch that reaches its topics once, whatever is killed: two-phase commit (KIP-939).

Each task writes in a transaction of its own and prepares it. When all have, the driver writes one record that decides
the batch and then commits them; the record is what counts. After a crash, a batch that was decided is only completed,
and what an undecided one has left open is aborted before it is written again.

Rule: nobody aborts a transaction that somebody else left open before it has opened the query's Decider. So either the
decision is there to be read, or it can no longer be made.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from kavka.client import Admin, Pool, PreparedTransaction, Producer
from kavka.client.transactions import Transactor
from kavka.model.errors import TransactionalIdAuthorizationFailed, UnsupportedVersion
from kavka.spark import reading
from kavka.spark.connecting import OptionError
from kavka.spark.decisions import PREFIX, BatchDecision, Decider
from kavka.spark.options import SinkOptions

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"
_ONGOING: Final = "Ongoing"
_TIMEOUT_MS: Final = 60_000

Send = Callable[[Producer, Any], Coroutine[Any, Any, None]]
MakeProducer = Callable[[Pool, str], Producer]


class BatchLostError(RuntimeError):
    """A micro-batch cannot be committed: another writer has taken its transactions over."""


@dataclass
class PreparedTask(WriterCommitMessage):
    """What one task wrote, in a transaction that waits to be committed; None if it wrote nothing."""

    rows: int
    query: str
    transactional_id: str
    transaction: PreparedTransaction | None


def write(options: SinkOptions, batches: Iterator[Any], make_producer: MakeProducer, send: Send) -> PreparedTask:
    """Write a task's rows in a transaction and prepare it; nothing if the micro-batch is decided already."""
    context = TaskContext.get()
    query = context.getLocalProperty(QUERY_PROPERTY) if context is not None else None
    batch = context.getLocalProperty(BATCH_PROPERTY) if context is not None else None
    if context is None or query is None or batch is None:
        raise OptionError("delivery exactly-once is for streams: use writeStream")
    task = Task(query, int(batch), context.partitionId())
    return reading.run(task.write(options, batches, make_producer, send))


@dataclass(frozen=True, slots=True)
class Task:
    """A Spark task of a micro-batch, however often it is attempted."""

    query: str
    batch: int
    number: int

    @property
    def transactional_id(self) -> str:
        """The transactional id of its transactions, in every micro-batch of the query."""
        return f"{PREFIX}{self.query}.{self.number}"

    async def write(
        self, options: SinkOptions, batches: Iterator[Any], make_producer: MakeProducer, send: Send
    ) -> PreparedTask:
        """Write the rows in a transaction and prepare it; nothing if the micro-batch is known to be decided."""
        rows = 0
        prepared = None
        async with _pool(options) as pool, make_producer(pool, self.transactional_id) as producer:
            if producer.kept is not None and await self._is_decided(pool, producer):
                for _ in batches:  # Spark wants its rows taken
                    pass
                return PreparedTask(0, self.query, self.transactional_id, None)
            producer.begin()
            for batch in batches:
                await send(producer, batch)
                rows += batch.num_rows
            if rows:
                prepared = await producer.prepare()
            else:
                await producer.abort()
        return PreparedTask(rows, self.query, self.transactional_id, prepared)

    async def _is_decided(self, pool: Pool, producer: Producer) -> bool:
        """Complete the transaction an earlier attempt has left open; whether this micro-batch is decided."""
        async with Decider(pool, self.query) as decider:
            await producer.complete(decider.last.transactions.get(self.transactional_id))
            return decider.last.batch >= self.batch


def commit(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
    """All tasks of a micro-batch have prepared: decide it and commit their transactions."""
    if written := _written(messages):
        reading.run(_commit(options, written, batch))


def abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Some task failed: abort what the others have prepared, unless it is decided."""
    if written := _written(messages):
        reading.run(_abort(options, written))


async def _commit(options: SinkOptions, written: Sequence[PreparedTask], batch: int) -> None:
    query = written[0].query
    prepared = {task.transactional_id: task.transaction for task in written if task.transaction is not None}
    async with _pool(options) as pool, Decider(pool, query) as decider:
        if decider.last.batch >= batch:
            await _settle(pool, {*prepared, *decider.last.transactions, *await _left_open(pool, query)}, decider.last)
            return
        await _settle(pool, set(await _left_open(pool, query)).difference(prepared), decider.last)
        taken = await _all(_take_over(pool, id_) for id_ in prepared)
        lost = [
            transactor.transactional_id
            for transactor in taken
            if transactor.kept != prepared[transactor.transactional_id]
        ]
        if lost:
            raise BatchLostError(
                f"micro-batch {batch} cannot be committed, another writer has {', '.join(sorted(lost))}: "
                "start the query again, and only once"
            )
        if prepared:
            await decider.decide(BatchDecision(batch, prepared))
        await _all(transactor.end(commit=True) for transactor in taken)


async def _abort(options: SinkOptions, written: Sequence[PreparedTask]) -> None:
    async with _pool(options) as pool, Decider(pool, written[0].query) as decider:
        await _settle(pool, {task.transactional_id for task in written if task.transaction is not None}, decider.last)


async def _settle(pool: Pool, ids: set[str], decision: BatchDecision) -> None:
    """Complete the open transactions of these transactional ids: commit what was decided, abort the rest."""

    async def settle(id_: str) -> None:
        transactor = await _take_over(pool, id_)
        if transactor.kept is not None:
            await transactor.end(commit=transactor.kept == decision.transactions.get(id_))

    await _all(settle(id_) for id_ in ids)


async def _take_over(pool: Pool, transactional_id: str) -> Transactor:
    """A transactional id, with earlier producers fenced; a transaction that is open stays open."""
    transactor = Transactor(
        pool, transactional_id, timeout_ms=_TIMEOUT_MS, max_block_ms=pool.timeout_ms, two_phase_commit=True
    )
    await transactor.init(keep_prepared=True)
    return transactor


async def _left_open(pool: Pool, query: str) -> list[str]:
    """The tasks' transactional ids of a query that have a transaction open."""
    found = await Admin(pool).list_transactions(
        states=[_ONGOING], pattern=re.escape(f"{PREFIX}{query}.").replace(r"\-", "-") + "[0-9]+"
    )
    return [transaction.id for transaction in found]


async def _all(coroutines: Iterator[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Run all at once; if one fails, the others still finish before its error is raised."""
    results = await asyncio.gather(*coroutines, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[PreparedTask]:
    return [message for message in messages if isinstance(message, PreparedTask)]


@asynccontextmanager
async def _pool(options: SinkOptions) -> AsyncIterator[Pool]:
    pool = await reading.connected(options.bootstrap, options.timeout_ms, options.client_id)
    try:
        yield pool
    except (TransactionalIdAuthorizationFailed, UnsupportedVersion) as error:
        raise OptionError(
            "delivery exactly-once needs two-phase commit: start every node with "
            f"transaction.two.phase.commit.enable=true ({error})"
        ) from error
    finally:
        await pool.close()
