"""The producer: chooses a partition for each record and buffers it; the sender does the rest."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from kavka.client.batching import MAX_UNANSWERED, Delivered, Delivery, record_size
from kavka.client.group_offsets import nobody
from kavka.client.partitioner import StickyPartitioner, partition_for_key
from kavka.client.pool import Pool
from kavka.client.sender import REQUEST_OVERHEAD, Sender, SenderOptions
from kavka.client.transactions import PreparedTransaction, Transactor, TransactorState
from kavka.model.clock import Clock, SystemClock
from kavka.model.errors import (
    KafkaError,
    MessageTooLarge,
    RequestTimedOut,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from kavka.model.types import TopicPartition
from kavka.records.batch import Header
from kavka.records.builder import BatchBuilder

if TYPE_CHECKING:
    from kavka.client.group_consumer import GroupConsumer

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal["all", 0, 1, -1]

PRODUCE_UNTIL_VERSION_1: Final = 11
"""The newest version of Produce before brokers add partitions to transactions themselves."""
CODECS: Final[dict[str, int]] = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class Producer:
    """Sends records.

    ```python
    async with Producer("127.0.0.1:9092") as producer:
        delivery = await producer.send("orders", b"value", key=b"key")  # buffered
        print(await delivery)  # acknowledged: Delivered(topic='orders', partition=0, offset=17, ...)
    ```

    Leaving the block sends everything. With a `transactional_id`, records are sent in transactions:

    ```python
    async with Producer("127.0.0.1:9092", transactional_id="shop-1") as producer:
        async with producer.transaction():  # or begin(), and commit() or abort()
            await producer.send("orders", b"value")
            await producer.send_offsets({TopicPartition("carts", 0): 18}, "shop")
    ```

    Whoever comes later with the same id fences this one.

    With the defaults each record is written exactly once and in order per partition, over retries and leader changes
    (`acks="all"`, idempotence). Without idempotence a retry may reorder or repeat records, unless `max_in_flight` is 1.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | Pool,
        *,
        acks: Acks = "all",
        idempotence: bool | None = None,
        codec: Codec = "none",
        compression_level: int | None = None,
        linger_ms: int = 5,
        batch_bytes: int = 16_384,
        max_request_bytes: int = 1_048_576,
        buffer_bytes: int = 33_554_432,
        max_in_flight: int = 5,
        request_timeout_ms: int = 30_000,
        delivery_timeout_ms: int = 120_000,
        max_block_ms: int = 60_000,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        two_phase_commit: bool = False,
        client_id: str = "kavka-producer",
        security: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        _check_options(acks, idempotence, codec, max_in_flight, linger_ms, batch_bytes)
        _check_transactions(acks, idempotence, transactional_id, two_phase_commit)
        wire_acks = -1 if acks == "all" else acks
        self._options = SenderOptions(
            acks=wire_acks,
            idempotent=wire_acks == -1 if idempotence is None else idempotence,
            codec=CODECS[codec],
            level=compression_level,
            batch_bytes=batch_bytes,
            linger_seconds=linger_ms / 1000,
            max_request_bytes=max_request_bytes,
            max_in_flight=max_in_flight,
            request_timeout_ms=request_timeout_ms,
            delivery_timeout_seconds=delivery_timeout_ms / 1000,
            transactional_id=transactional_id,
        )
        self._transaction_timeout_ms = transaction_timeout_ms
        self._two_phase_commit = two_phase_commit
        self._transactor: Transactor | None = None
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._security = security
        self._buffer_bytes = buffer_bytes
        self._max_block_ms = max_block_ms
        self._clock: Clock = clock if clock is not None else SystemClock()
        self._sticky = StickyPartitioner(batch_bytes)
        self._pool: Pool | None = None
        self._sender: Sender | None = None

    async def __aenter__(self) -> Self:
        _load_codec(self._options.codec, self._options.level)
        if isinstance(self._bootstrap, Pool):
            self._pool = self._bootstrap
        else:
            self._pool = Pool(self._bootstrap, client_id=self._client_id, security=self._security)
            await self._pool.any()
        self._sender = Sender(self._pool, self._options)
        await self._sender.__aenter__()
        if self._options.transactional_id is not None:
            try:
                await self._take_over(self._pool, self._sender, self._options.transactional_id)
            except BaseException as error:
                await self.__aexit__(type(error), error, None)
                raise
        return self

    async def _take_over(self, pool: Pool, sender: Sender, transactional_id: str) -> None:
        transactor = self._transactor = Transactor(
            pool,
            transactional_id,
            timeout_ms=self._transaction_timeout_ms,
            max_block_ms=self._max_block_ms,
            two_phase_commit=self._two_phase_commit,
        )
        await transactor.init(keep_prepared=self._two_phase_commit)
        sender.produce_at_most = None if transactor.bumps_epoch else PRODUCE_UNTIL_VERSION_1
        sender.on_failure = transactor.sending_failed
        sender.adopt(*transactor.producer)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pool, sender = self._opened()
        try:
            if kind is None and self._transactor is None:
                await sender.flush()
            elif self._transactor is not None and self._transactor.state in (
                TransactorState.OPEN,
                TransactorState.FAILED,
            ):
                # What is left open is aborted by the coordinator in any case, only later.
                with contextlib.suppress(KafkaError):
                    await self.abort()
        finally:
            self._sender = None
            try:
                await sender.__aexit__(kind, error, trace)  # raises again what cancelled the block
            finally:
                if pool is not self._bootstrap:
                    await pool.close()

    async def start(self) -> Self:
        """Open it, for whoever has no `async with` block; the same task calls `stop` at the end."""
        return await self.__aenter__()

    async def stop(self) -> None:
        """Send everything and close, as the end of an `async with` block does."""
        await self.__aexit__(None, None, None)

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
    ) -> Delivery:
        """Buffer a record and return the promise of its delivery; waits only for metadata or room in the buffer."""
        if value.__class__ is not bytes or (key is not None and key.__class__ is not bytes) or headers:
            check_record(key, value, headers)
        pool, sender = self._opened()
        view = pool.view.topics.get(topic)
        if view is None or view.error is not None:
            view = await pool.topic(topic, create=True, wait_ms=self._max_block_ms)
        size = record_size(key, value, headers)
        if size + REQUEST_OVERHEAD > self._options.max_request_bytes:
            raise MessageTooLarge(f"a record of {size} bytes is too large for max_request_bytes")
        if sender.buffered + size > self._buffer_bytes:
            await self._wait_for_room(sender, size)
        if partition is None:
            if key is not None:
                partition = partition_for_key(key, len(view.partitions))
            else:
                partition = self._sticky.partition(topic, size, view.available)
        elif partition not in view.partitions:
            await self._check_partition(pool, topic, partition)
        if timestamp is None:
            timestamp = self._clock.now_ms()
        if self._transactor is not None:
            self._transactor.require(TransactorState.OPEN)
            await self._transactor.write_to(TopicPartition(topic, partition))
        delivery, full = sender.append(TopicPartition(topic, partition), size, key, value, timestamp, headers)
        if full:
            # A loop that does nothing but send would keep the network waiting until the buffer is full.
            await asyncio.sleep(0)
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Sequence[Header] = (),
    ) -> Delivered:
        """Send a record and wait until it is acknowledged."""
        delivery = await self.send(topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers)
        return await delivery

    async def flush(self) -> None:
        """Send what is buffered now and wait for it; raises the first failure that nobody has asked about."""
        await self._opened()[1].flush()

    # -- transactions -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Open a transaction: what is sent from now on becomes visible together, or not at all."""
        self._transactions()[0].begin()

    async def commit(self) -> None:
        """Commit the transaction; raises what went wrong with it, and then it must be aborted."""
        transactor, sender = self._transactions()
        if transactor.state is not TransactorState.PREPARED:
            await self._written(transactor, sender)
        await self._end(transactor, sender, commit=True)

    async def abort(self) -> None:
        """Abort the transaction."""
        transactor, sender = self._transactions()
        transactor.require(TransactorState.OPEN, TransactorState.FAILED, TransactorState.PREPARED)
        reason = TransactionAbortable("the transaction was aborted")
        if await sender.discard(reason):
            transactor.fail(reason)
        await self._end(transactor, sender, commit=False)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """A transaction that is committed at the end of a block, or aborted if an exception leaves it."""
        self.begin()
        try:
            yield
            await self.commit()
        except BaseException:
            transactor, _ = self._transactions()
            if transactor.state in (TransactorState.OPEN, TransactorState.FAILED):
                with contextlib.suppress(KafkaError):
                    await self.abort()
            raise

    async def send_offsets(self, offsets: Mapping[TopicPartition, int], group: str | GroupConsumer) -> None:
        """Commit these offsets of a group with the transaction.

        Given a consumer instead of a name, only as long as it is a member that may commit.
        """
        transactor, _ = self._transactions()
        if isinstance(group, str):
            await transactor.send_offsets(offsets, group, nobody, None)
        else:
            await transactor.send_offsets(
                offsets, group.group, lambda: (group.member_id, group.epoch), group.instance_id
            )

    async def prepare(self) -> PreparedTransaction:
        """Write all of the transaction and prepare it (two-phase commit): only `complete` may follow.

        No timeout aborts it. Keep the result with the decision to commit: after a restart, it tells whether the
        decision was about the transaction that is still open.
        """
        transactor, sender = self._transactions()
        if not self._two_phase_commit:
            raise RuntimeError("prepare is for producers with two_phase_commit")
        await self._written(transactor, sender)
        transactor.state = TransactorState.PREPARED
        return PreparedTransaction(*transactor.producer)

    @property
    def kept(self) -> PreparedTransaction | None:
        """The prepared transaction of an earlier instance, which waits for `complete`."""
        return self._transactions()[0].kept

    async def complete(self, decided: PreparedTransaction | None) -> bool:
        """Commit the prepared transaction if it is the one that was decided for, else abort it; whether it was."""
        transactor, sender = self._transactions()
        transactor.require(TransactorState.PREPARED, TransactorState.IDLE)
        if transactor.state is TransactorState.IDLE:
            return False  # nothing is open: it has been ended already
        prepared = transactor.kept or PreparedTransaction(*transactor.producer)
        await self._end(transactor, sender, commit=prepared == decided)
        return prepared == decided

    async def _written(self, transactor: Transactor, sender: Sender) -> None:
        """Wait until all of the transaction is acknowledged."""
        transactor.require(TransactorState.OPEN)
        try:
            await sender.flush()
        except KafkaError as error:
            transactor.sending_failed(error)
        transactor.require(TransactorState.OPEN)

    async def _end(self, transactor: Transactor, sender: Sender, *, commit: bool) -> None:
        await transactor.end(commit=commit)
        sender.adopt(*transactor.producer)

    def _transactions(self) -> tuple[Transactor, Sender]:
        sender = self._opened()[1]
        if self._transactor is None:
            raise RuntimeError("the producer has no transactional_id")
        return self._transactor, sender

    def _opened(self) -> tuple[Pool, Sender]:
        if self._pool is None or self._sender is None:
            raise RuntimeError("the producer is not open: use it in an `async with` block")
        return self._pool, self._sender

    async def _check_partition(self, pool: Pool, topic: str, partition: int) -> None:
        view = (await pool.refresh([topic])).topics.get(topic)
        if view is None or partition not in view.partitions:
            raise UnknownTopicOrPartition(f"topic {topic!r} has no partition {partition}")

    async def _wait_for_room(self, sender: Sender, size: int) -> None:
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                await sender.room_for(size, self._buffer_bytes)
        except TimeoutError:
            raise RequestTimedOut(f"the send buffer stayed full for {self._max_block_ms} ms") from None


def check_record(key: object, value: object, headers: object) -> None:
    """Raise a TypeError that says how to put it right where a record is made of something else than bytes."""
    for name, part in (("key", key), ("value", value)):
        if part is not None and not isinstance(part, bytes | bytearray | memoryview):
            hint = f": {name}.encode()" if isinstance(part, str) else ""
            raise TypeError(f"a record's {name} is bytes or None, not {type(part).__name__}{hint}")
    if isinstance(headers, Mapping):
        raise TypeError("headers are pairs of a name and bytes, since a name may come twice: list(headers.items())")
    if not isinstance(headers, Sequence) or isinstance(headers, str | bytes):
        raise TypeError(f"headers are a list of pairs of a name and bytes, not {type(headers).__name__}")
    for header in headers:
        if not isinstance(header, tuple | list) or len(header) != 2 or not isinstance(header[0], str):
            raise TypeError(f"a header is a pair of a name and bytes, such as ('trace', b'1'), not {header!r}")
        if header[1] is not None and not isinstance(header[1], bytes | bytearray | memoryview):
            raise TypeError(f"the value of header {header[0]!r} is bytes or None, not {type(header[1]).__name__}")


def _check_options(
    acks: Acks, idempotence: bool | None, codec: str, max_in_flight: int, linger_ms: int, batch_bytes: int
) -> None:
    if acks not in ("all", -1, 0, 1):
        raise ValueError(f"acks is 'all', 1 or 0, not {acks!r}")
    if idempotence and acks not in ("all", -1):
        raise ValueError("idempotence needs acks='all'")
    if codec not in CODECS:
        raise ValueError(f"codec is one of {', '.join(CODECS)}, not {codec!r}")
    if max_in_flight < 1 or (idempotence is not False and acks in ("all", -1) and max_in_flight > MAX_UNANSWERED):
        raise ValueError(f"max_in_flight is 1 to {MAX_UNANSWERED} with idempotence, and at least 1 without")
    if linger_ms < 0 or batch_bytes < 0:
        raise ValueError("linger_ms and batch_bytes cannot be negative")


def _check_transactions(
    acks: Acks, idempotence: bool | None, transactional_id: str | None, two_phase_commit: bool
) -> None:
    if transactional_id is not None and (acks not in ("all", -1) or idempotence is False):
        raise ValueError("transactions need idempotence and acks='all'")
    if transactional_id == "" or (two_phase_commit and transactional_id is None):
        raise ValueError("transactions need a transactional_id")


def _load_codec(codec: int, level: int | None) -> None:
    """Fail at the start, not at the first batch, when a codec cannot be used."""
    builder = BatchBuilder(codec=codec, level=level)
    builder.append(None, b"")
    builder.build()
