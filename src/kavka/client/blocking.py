"""The client without asyncio: the same classes with blocking methods, run by a loop in one thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar, Unpack

from kavka.client import batching as _batching
from kavka.client import consumer as _consumer
from kavka.client import group_consumer as _group_consumer
from kavka.client import producer as _producer
from kavka.client.batching import Delivered
from kavka.client.blocking_admin import Admin as Admin
from kavka.client.blocking_share import ShareConsumer, ShareOptions
from kavka.client.consumer import Edge, Isolation, Place
from kavka.client.fetched import ConsumerRecord
from kavka.client.pool import DEFAULT_TIMEOUT_MS, Pool
from kavka.client.producer import Acks, Codec
from kavka.client.share_consumer import ShareConsumer as AsyncShareConsumer
from kavka.client.transactions import PreparedTransaction
from kavka.model.errors import KafkaError, RequestTimedOut
from kavka.model.types import TopicPartition
from kavka.records.batch import Header

T = TypeVar("T")

_OUTBOX_RECORDS: Final = 10_000
_LOOK_IN_SECONDS: Final = 1.0


class Client:
    """A connection to a cluster, for code that has no event loop.

    ```python
    with Client("127.0.0.1:9092") as client:
        client.admin.create_topic("orders", partitions=3)
        with client.producer() as producer:
            print(producer.send("orders", b"value", key=b"key").result())
        with client.consumer("orders") as consumer:
            for record in consumer.until_end():
                print(record.offset, record.value)
    ```
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        security: Mapping[str, Any] | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        client_id: str = "kavka",
    ) -> None:
        """`security` has options named as in Kafka's client.properties: security.protocol, ssl.*, sasl.*."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kavka-client", daemon=True)
        self._thread.start()
        try:
            pool = Pool(bootstrap, security=security, timeout_ms=timeout_ms, client_id=client_id)
            self.pool = self.run(pool.__aenter__())
        except BaseException:
            self._stop()
            raise
        self.admin = Admin(self)
        """The blocking admin client."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread."""
        if not self._loop.is_closed():
            self.run(self.pool.close())
            self._stop()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the client's loop and wait for its result."""
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def producer(
        self,
        *,
        acks: Acks = "all",
        idempotence: bool | None = None,
        codec: Codec = "none",
        linger_ms: int = 5,
        batch_bytes: int = 16_384,
        max_request_bytes: int = 1_048_576,
        delivery_timeout_ms: int = 120_000,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        two_phase_commit: bool = False,
    ) -> Producer:
        """A blocking producer; for options not listed here use the asyncio one."""
        made = _producer.Producer(
            self.pool,
            acks=acks,
            idempotence=idempotence,
            codec=codec,
            linger_ms=linger_ms,
            batch_bytes=batch_bytes,
            max_request_bytes=max_request_bytes,
            delivery_timeout_ms=delivery_timeout_ms,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            two_phase_commit=two_phase_commit,
        )
        return Producer(self, made, transactional=transactional_id is not None)

    def consumer(
        self,
        *sources: str | TopicPartition,
        start: Place = "start",
        isolation: Isolation = "read_uncommitted",
        out_of_range: Edge | Literal["error"] = "error",
    ) -> Consumer:
        """A blocking consumer that reads these topics or partitions from a place on."""
        made = _consumer.Consumer(self.pool, isolation=isolation, out_of_range=out_of_range)
        consumer = Consumer(self, made)
        if sources:
            try:
                consumer.assign(*sources, start=start)
            except BaseException:
                consumer.close()
                raise
        return consumer

    def group_consumer(
        self,
        group: str,
        *topics: str,
        pattern: str | None = None,
        protocol: Literal["consumer", "classic"] = "consumer",
        start: Place | Literal["error"] = "end",
        auto_commit_ms: int | None = 5_000,
        isolation: Isolation = "read_uncommitted",
    ) -> GroupConsumer:
        """A blocking member of a group; for options not listed here use the asyncio one."""
        made = _group_consumer.GroupConsumer(
            self.pool,
            group=group,
            topics=topics,
            pattern=pattern,
            protocol=protocol,
            start=start,
            auto_commit_ms=auto_commit_ms,
            isolation=isolation,
        )
        return GroupConsumer(self, made)

    def share_consumer(self, group: str, *topics: str, **options: Unpack[ShareOptions]) -> ShareConsumer:
        """A blocking member of a share group; for options not listed there use the asyncio one."""
        made = AsyncShareConsumer(self.pool, group=group, topics=topics, **options)
        return ShareConsumer(self, made, lambda inner: _Held(self, inner))

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _LeftByExceptionError(Exception):
    """The user's block ended with an exception, which is the user's."""


class _Held:
    """An async context manager that a task of the loop keeps open, since it must be left by the task that entered."""

    def __init__(self, client: Client, manager: AbstractAsyncContextManager[object]) -> None:
        self._client = client
        self._closing = asyncio.Event()
        self._failed = False
        opened: Future[None] = Future()
        self._task = asyncio.run_coroutine_threadsafe(self._hold(manager, opened), client._loop)
        try:
            opened.result()
        except BaseException:
            self._task.cancel()
            raise

    async def _hold(self, manager: AbstractAsyncContextManager[object], opened: Future[None]) -> None:
        try:
            async with manager:
                opened.set_result(None)
                await self._closing.wait()
                if self._failed:
                    raise _LeftByExceptionError
        except _LeftByExceptionError:
            pass
        except BaseException as error:
            if not opened.done():
                opened.set_exception(error)
                return
            raise

    def close(self, *, failed: bool = False) -> None:
        """Leave the block, as after an exception in it if that is so, and wait until that is done."""
        self._failed = failed
        if not self._task.done():
            self._client._loop.call_soon_threadsafe(self._closing.set)
        with contextlib.suppress(CancelledError):
            self._task.result()

    def abandon(self) -> None:
        """Leave the block as after an exception in it, and do not wait."""
        self._task.cancel()


class Delivery:
    """The promise that a record will be in the log."""

    __slots__ = ("_error", "_inner", "_producer", "_seen")

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._inner: _batching.Delivery | None = None
        self._error: Exception | None = None
        self._seen = False

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._error is not None or (self._inner is not None and self._inner.done())

    def result(self, timeout: float | None = None) -> Delivered:
        """Wait (at most so many seconds) until the record is acknowledged; where it went, or raises why not."""
        self._seen = True
        return self._producer._client.run(self._outcome(timeout))

    async def _outcome(self, seconds: float | None) -> Delivered:
        try:
            async with asyncio.timeout(seconds):
                if self._inner is None and self._error is None:
                    await self._producer._move()
                if self._error is not None:
                    raise self._error
                assert self._inner is not None
                return await self._inner
        except TimeoutError:
            raise RequestTimedOut(f"not acknowledged within {seconds} s") from None


_Outgoing = tuple[Delivery, str, bytes | None, bytes | None, int | None, int | None, Sequence[Header]]


class Producer:
    """Sends records; made by `Client.producer`. Leaving its block sends everything, unless by an exception."""

    def __init__(self, client: Client, inner: _producer.Producer, *, transactional: bool = False) -> None:
        self._client = client
        self._inner = inner
        self._transactional = transactional
        self._outbox: deque[_Outgoing] = deque()
        self._moving = False
        self._moved = threading.Condition()
        self._one_mover = asyncio.Lock()
        self._failed: Delivery | None = None
        self._held = _Held(client, inner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._held.abandon()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
    ) -> Delivery:
        """Hand a record to the loop's thread and return the promise of its delivery."""
        delivery = Delivery(self)
        with self._moved:
            while len(self._outbox) >= _OUTBOX_RECORDS:
                self._moved.wait()
            self._outbox.append((delivery, topic, value, key, partition, timestamp, headers))
            if not self._moving:
                self._moving = True
                asyncio.run_coroutine_threadsafe(self._move(), self._client._loop)
        return delivery

    def flush(self) -> None:
        """Send what is buffered now and wait for it; raises the first failure that nobody has asked about."""
        self._client.run(self._flush())

    def close(self) -> None:
        """Send everything, then close; an open transaction is aborted."""
        try:
            if self._transactional:
                self._client.run(self._move())
            else:
                self.flush()
        finally:
            self._held.close()

    # -- transactions -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Open a transaction: what is sent from now on becomes visible together, or not at all."""

        async def begin() -> None:
            self._inner.begin()

        self._client.run(begin())

    def commit(self) -> None:
        """Commit the transaction; raises what went wrong with it, and then it must be aborted."""
        self._client.run(self._handed(self._inner.commit))

    def abort(self) -> None:
        """Abort the transaction."""

        async def abort() -> None:
            await self._move()
            self._failed = None
            await self._inner.abort()

        self._client.run(abort())

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction that is committed at the end of a block, or aborted if an exception leaves it."""
        self.begin()
        try:
            yield
            self.commit()
        except BaseException:
            with contextlib.suppress(KafkaError, RuntimeError):
                self.abort()
            raise

    def send_offsets(self, offsets: Mapping[TopicPartition, int], group: str | GroupConsumer) -> None:
        """Commit these offsets of a group with the transaction."""
        self._client.run(self._inner.send_offsets(offsets, group if isinstance(group, str) else group._inner))

    def prepare(self) -> PreparedTransaction:
        """Write all of the transaction and prepare it (two-phase commit): only `complete` may follow."""
        return self._client.run(self._handed(self._inner.prepare))

    @property
    def kept(self) -> PreparedTransaction | None:
        """The prepared transaction of an earlier instance, which waits for `complete`."""
        return self._inner.kept

    def complete(self, decided: PreparedTransaction | None) -> bool:
        """Commit the prepared transaction if it is the one that was decided for, else abort it; whether it was."""
        return self._client.run(self._inner.complete(decided))

    async def _handed(self, end: Callable[[], Awaitable[T]]) -> T:
        """Do something once all that was sent is handed over; raises what could not be."""
        await self._move()
        failed, self._failed = self._failed, None
        if failed is not None and failed._error is not None:
            raise failed._error
        return await end()

    async def _move(self) -> None:
        """Give the producer everything that has been handed over; when this returns, that is done."""
        async with self._one_mover:
            while batch := self._handed_over():
                for delivery, topic, value, key, partition, timestamp, headers in batch:
                    try:
                        delivery._inner = await self._inner.send(
                            topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers
                        )
                    except Exception as error:  # it belongs to whoever asks for this delivery, or flushes
                        delivery._error = error
                        self._failed = self._failed or delivery

    def _handed_over(self) -> list[_Outgoing]:
        with self._moved:
            batch = list(self._outbox)
            self._outbox.clear()
            self._moving = bool(batch)
            self._moved.notify_all()
            return batch

    async def _flush(self) -> None:
        await self._move()
        await self._inner.flush()
        failed, self._failed = self._failed, None
        if failed is not None and failed._error is not None and not failed._seen:
            raise failed._error


class Consumer:
    """Reads records; made by `Client.consumer`."""

    def __init__(self, client: Client, inner: _consumer.Consumer) -> None:
        self._client = client
        self._inner = inner
        self._held = _Held(client, inner)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close(failed=kind is not None)

    def close(self) -> None:
        """Stop reading."""
        self._held.close()

    def assign(self, *sources: str | TopicPartition, start: Place = "start") -> None:
        """Read these topics or partitions, and no others, from a place on."""
        self._client.run(self._inner.assign(*sources, start=start))

    def seek(self, place: Place, *partitions: TopicPartition) -> None:
        """Go on reading from another place: these partitions, or all that are assigned."""
        self._client.run(self._inner.seek(place, *partitions))

    def start_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """The first offset of these partitions, or of all that are assigned."""
        return self._client.run(self._inner.start_offsets(*partitions))

    def end_offsets(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """The offset after the last record of these partitions, or of all that are assigned."""
        return self._client.run(self._inner.end_offsets(*partitions))

    def offsets(self, place: Place, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """The offset of a place in these partitions, or in all that are assigned."""
        return self._client.run(self._inner.offsets(place, *partitions))

    def read(
        self, timeout_ms: int | None = None, *, ends: Mapping[TopicPartition, int] | None = None
    ) -> list[ConsumerRecord]:
        """The next records, at least one; none when none came in time or all positions have reached these `ends`."""
        return self._client.run(self._inner.read(timeout_ms, ends=ends))

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            yield from self.read()

    def until_end(self) -> Iterator[ConsumerRecord]:
        """Every record up to what is now the end of the assigned partitions; some after it may be among them."""
        ends = self.end_offsets()
        while records := self.read(ends=ends):
            yield from records


class GroupConsumer(Consumer):
    """Reads records as a member of a group; made by `Client.group_consumer`."""

    _inner: _group_consumer.GroupConsumer

    def __init__(self, client: Client, inner: _group_consumer.GroupConsumer) -> None:
        super().__init__(client, inner)
        self._look_in_by = 0.0

    def __iter__(self) -> Iterator[ConsumerRecord]:
        while True:
            # what has arrived needs no visit to the loop, but the group must hear of us from time to time
            record = self._inner.at_hand() if time.monotonic() < self._look_in_by else None
            if record is not None:
                yield record
            else:
                self._client.run(self._inner.arrive())
                self._look_in_by = time.monotonic() + _LOOK_IN_SECONDS

    def until_end(self) -> Iterator[ConsumerRecord]:
        """Every record up to what is now the end of the partitions that this member has and keeps."""
        inner = self._inner.until_end()
        while (record := self._client.run(_next(inner))) is not None:
            yield record

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that this member has."""
        return self._inner.assignment

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit offsets: behind all records that were given out, or these."""
        self._client.run(self._inner.commit(offsets))

    def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """The committed offsets of these partitions, or of all that are assigned."""
        return self._client.run(self._inner.committed(*partitions))


async def _next(records: AsyncIterator[ConsumerRecord]) -> ConsumerRecord | None:
    return await anext(records, None)
