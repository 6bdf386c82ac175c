"""Sending batches: which may go, to whom, and what their answers mean.

Sending is one function, `_pump`, which runs soon after anything that may let a batch go: a batch is
full, a linger time or a backoff is over, an answer, a connection or new metadata has come.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from kavka.client.background import Background
from kavka.client.batching import Batch, Delivery, Outcome, PartitionQueue, halves
from kavka.client.connection import Connection
from kavka.client.pool import Pool
from kavka.client.view import error_for, raise_for
from kavka.model.errors import (
    DuplicateSequenceNumber,
    KafkaError,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    RequestTimedOut,
    UnknownProducerId,
)
from kavka.model.types import TopicPartition, Uuid
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kavka.protocol.schemas.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kavka.records.batch import Header

REQUEST_OVERHEAD: Final = 512
"""Room for what a request has beside its batches."""

_BY_NAME_UNTIL: Final = 12
_NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class SenderOptions:
    """How batches are sent."""

    acks: int
    idempotent: bool
    codec: int
    level: int | None
    batch_bytes: int
    linger_seconds: float
    max_request_bytes: int
    max_in_flight: int
    request_timeout_ms: int
    delivery_timeout_seconds: float
    transactional_id: str | None = None


class Sender:
    """Owns the batches of all partitions from their first record to their outcome."""

    def __init__(self, pool: Pool, options: SenderOptions) -> None:
        self.buffered = 0
        """The bytes of all records without an outcome."""
        self._pool = pool
        self._options = options
        self._idempotent = options.idempotent
        self._loop = asyncio.get_running_loop()
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._active: dict[TopicPartition, PartitionQueue] = {}
        self._in_flight: defaultdict[int, int] = defaultdict(int)
        self._attempts: defaultdict[str, int] = defaultdict(int)
        self._blocked: list[asyncio.Future[None]] = []
        self._failed: Batch | None = None
        self._producer_id = (-1, -1)
        self._pump_soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = _NEVER
        self._background = Background()
        self._jobs: set[str] = set()
        self._closed = False
        self._discarding = False
        self.on_failure: Callable[[KafkaError], None] | None = None
        """Is told of the first batch of a transaction that fails; then nothing more of it is sent."""
        self.produce_at_most: int | None = None
        """The newest version of Produce that a transaction may be sent with."""

    async def __aenter__(self) -> Self:
        await self._background.__aenter__()
        if self._idempotent and self._options.transactional_id is None:
            self._start("producer id", self._init_producer_id)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._give_up(RequestTimedOut("the producer was closed before the record was acknowledged"))
        for handle in (self._pump_soon, self._timer):
            if handle is not None:
                handle.cancel()
        await self._background.__aexit__(kind, error, trace)

    def append(
        self,
        tp: TopicPartition,
        size: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Sequence[Header],
    ) -> tuple[Delivery, bool]:
        """Add a record of at most this size to its partition's batch; also whether a batch became full."""
        queue = self._queues.get(tp)
        if queue is None:
            queue = PartitionQueue(
                tp,
                idempotent=self._idempotent,
                max_unanswered=self._options.max_in_flight,
                transactional=self._options.transactional_id is not None,
            )
            self._queues[tp] = queue
        waiting = queue.waiting
        fits = waiting and waiting[-1].builder.size + size <= self._options.batch_bytes
        batch = waiting[-1] if fits else self._new_batch(tp, size)
        index = batch.builder.append(key, value, timestamp, headers)
        batch.charge += size
        self.buffered += size
        if not fits:
            full = bool(waiting) or size >= self._options.batch_bytes
            waiting.append(batch)
            self._active[tp] = queue
            if full or not self._options.linger_seconds:
                self._wake()
            else:
                self._wake_at(batch.ready_at)
            return Delivery(batch, index, timestamp), full
        return Delivery(batch, index, timestamp), False

    def _new_batch(self, tp: TopicPartition, size: int) -> Batch:
        now = self._loop.time()
        options = self._options
        ready_at = now if size >= options.batch_bytes else now + options.linger_seconds
        deadline = now + options.delivery_timeout_seconds
        outcome: asyncio.Future[Outcome] = self._loop.create_future()
        transactional = options.transactional_id is not None
        return Batch(tp, options.codec, options.level, ready_at, deadline, outcome, transactional=transactional)

    async def flush(self) -> None:
        """Send what is there now and wait for its outcome; raises the first failure that nobody has asked about."""
        batches = [batch for queue in self._active.values() for batch in (*queue.sent, *queue.waiting)]
        for batch in batches:
            batch.ready_at = 0.0
        self._wake()
        while batches:
            await asyncio.wait([batch.outcome for batch in batches])
            batches = [part for batch in batches for part in batch.parts]
        failed, self._failed = self._failed, None
        if failed is not None and not failed.seen:
            error = failed.outcome.result().error
            assert error is not None
            raise type(error)(error.message)

    async def room_for(self, size: int, limit: int) -> None:
        """Wait until the buffer has room for so many bytes more."""
        while self.buffered and self.buffered + size > limit:
            self._wake()
            room: asyncio.Future[None] = self._loop.create_future()
            self._blocked.append(room)
            await room

    def _wake(self) -> None:
        if self._pump_soon is None:
            self._pump_soon = self._loop.call_soon(self._pump)

    def _wake_at(self, at: float) -> None:
        if self._timer is None or self._timer_at > at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(at, self._timer_fired)
            self._timer_at = at

    def _timer_fired(self) -> None:
        self._timer = None
        self._pump()

    def _pump(self) -> None:
        """Send every batch that may go."""
        self._pump_soon = None
        if self._closed:
            return
        now = self._loop.time()
        self._expire(now)
        while self._send_round(now):
            pass
        at = min((queue.wake_at(now) for queue in self._active.values()), default=_NEVER)
        if at < _NEVER:
            self._wake_at(at)
        if self._pool.stale:
            self._start("metadata", self._refresh)

    def _expire(self, now: float) -> None:
        for tp, queue in list(self._active.items()):
            for batch in queue.expire(now):
                view = self._pool.view.topics.get(tp.topic)
                because = f" ({view.error()})" if view is not None and view.error is not None else ""
                waited = f"{tp}: not acknowledged in time, {self._options.delivery_timeout_seconds:g} s{because}"
                self._end(batch, Outcome(error=RequestTimedOut(waited)))
            if queue.empty:
                del self._active[tp]

    def _send_round(self, now: float) -> bool:
        """Send at most one batch per partition; whether any was sent."""
        by_node: defaultdict[int, list[tuple[PartitionQueue, Batch]]] = defaultdict(list)
        view = self._pool.view
        for tp, queue in self._active.items():
            if queue.needs_producer_id and not self._adopt(queue):
                continue
            batch = queue.candidate(now)
            if batch is None:
                continue
            leader = view.leader(*tp)
            if leader >= 0:
                by_node[leader].append((queue, batch))
            else:
                self._start("metadata", self._refresh)
        return sum(self._send_to(node, ready) for node, ready in by_node.items()) > 0

    def _send_to(self, node: int, ready: list[tuple[PartitionQueue, Batch]]) -> bool:
        if self._in_flight[node] >= self._options.max_in_flight:
            return False
        connection = self._pool.ready(node)
        if connection is None:
            self._start(f"connect {node}", partial(self._connect, node))
            return False
        batches: dict[TopicPartition, Batch] = {}
        room = self._options.max_request_bytes - REQUEST_OVERHEAD
        for queue, batch in ready:
            if batches and batch.builder.size > room:
                break
            queue.take(batch)
            room -= len(batch.encoded())
            batches[queue.topic_partition] = batch
        try:
            self._transmit(node, connection, batches)
        except KafkaError as error:
            self._settle_all(batches, error)
        return True

    def _transmit(self, node: int, connection: Connection, batches: dict[TopicPartition, Batch]) -> None:
        topics = self._pool.view.topics
        by_topic: defaultdict[str, list[PartitionProduceData]] = defaultdict(list)
        for tp, batch in batches.items():
            by_topic[tp.topic].append(PartitionProduceData(index=tp.partition, records=batch.encoded()))
        at_most = self.produce_at_most
        if any(topics[name].id == Uuid.ZERO for name in by_topic):
            at_most = _BY_NAME_UNTIL if at_most is None else min(at_most, _BY_NAME_UNTIL)
        version = connection.version(ApiKey.PRODUCE, at_most=at_most)
        request = ProduceRequest(
            transactional_id=self._options.transactional_id,
            acks=self._options.acks,
            timeout_ms=self._options.request_timeout_ms,
            topic_data=[
                TopicProduceData(name=name, topic_id=topics[name].id, partition_data=rows)
                for name, rows in by_topic.items()
            ],
        )
        if self._options.acks == 0:
            connection.send_unanswered(request, version=version)
            for tp, batch in batches.items():
                self._acknowledged(self._queues[tp], batch, Outcome())
            return
        names = {topics[name].id: name for name in by_topic}
        answer = connection.send(request, ProduceResponse, version=version, timeout_ms=self._options.request_timeout_ms)
        self._in_flight[node] += 1
        answer.add_done_callback(partial(self._answered, node, batches, names))

    def _answered(
        self,
        node: int,
        batches: dict[TopicPartition, Batch],
        names: dict[Uuid, str],
        answer: asyncio.Future[ProduceResponse],
    ) -> None:
        self._in_flight[node] -= 1
        error = None if answer.cancelled() else answer.exception()
        if self._closed or answer.cancelled():
            return
        if isinstance(error, KafkaError):
            self._settle_all(batches, error)
            return
        left = dict(batches)
        for topic in answer.result().responses:
            name = names.get(topic.topic_id) or topic.name
            for row in topic.partition_responses:
                batch = left.pop(TopicPartition(name, row.index), None)
                if batch is not None:
                    self._settle(batch, row)
        if left:
            self._settle_all(left, RequestTimedOut("the broker's answer left the batch out"))
        self._wake()

    def _settle_all(self, batches: dict[TopicPartition, Batch], error: KafkaError) -> None:
        for tp, batch in batches.items():
            self._failed_attempt(self._queues[tp], batch, error)
        self._wake()

    def _settle(self, batch: Batch, row: PartitionProduceResponse) -> None:
        queue = self._queues[batch.topic_partition]
        if row.error_code in (0, DuplicateSequenceNumber.code):
            self._acknowledged(queue, batch, Outcome(row.base_offset, row.log_append_time_ms))
            return
        details = [
            record_error.batch_index_error_message
            for record_error in row.record_errors
            if record_error.batch_index_error_message
        ]
        message = details[0] if details else row.error_message
        self._failed_attempt(queue, batch, error_for(row.error_code, message))

    def _failed_attempt(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> None:
        if isinstance(error, MessageTooLarge) and batch.builder.count > 1 and not self._discarding:
            queue.split(
                batch, halves(batch, self._options.level, [self._loop.create_future(), self._loop.create_future()])
            )
            return
        if self._is_final(queue, batch, error):
            queue.refuse(batch)
            self._end(batch, Outcome(error=type(error)(error.message or f"{queue.topic_partition}: {error}")))
            self._retire(queue)
            return
        queue.again(batch, self._loop.time() + self._pool.retry_delay(batch.attempts))
        if error.retriable:
            self._start("metadata", self._refresh)

    def _is_final(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> bool:
        """Whether a batch is not sent again; a broken sequence begins anew, but not within a transaction."""
        transactional = self._options.transactional_id is not None
        if self._idempotent and isinstance(error, OutOfOrderSequenceNumber):
            queue.out_of_order(batch)
            return transactional and queue.broken
        if self._idempotent and isinstance(error, UnknownProducerId):
            queue.lost_state()
            return transactional
        return self._discarding or not error.retriable

    def _acknowledged(self, queue: PartitionQueue, batch: Batch, outcome: Outcome) -> None:
        queue.acknowledge(batch)
        self._end(batch, outcome)
        self._retire(queue)

    def _retire(self, queue: PartitionQueue) -> None:
        if queue.empty:
            self._active.pop(queue.topic_partition, None)

    def _end(self, batch: Batch, outcome: Outcome) -> None:
        batch.end(outcome)
        if outcome.error is not None and (self._failed is None or self._failed.seen):
            self._failed = batch
        if outcome.error is not None and self.on_failure is not None:
            self.on_failure(outcome.error)
        self.buffered -= batch.charge
        batch.charge = 0
        blocked, self._blocked = self._blocked, []
        for room in blocked:
            if not room.done():
                room.set_result(None)

    def _adopt(self, queue: PartitionQueue) -> bool:
        producer_id, epoch = self._producer_id
        if self._options.transactional_id is not None and producer_id < 0:
            return False
        if producer_id < 0 or producer_id == queue.spent_producer_id:
            self._producer_id = (-1, -1)
            self._start("producer id", self._init_producer_id)
            return False
        queue.adopt(producer_id, epoch)
        return True

    def _start(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a job in the background, unless it runs already."""
        if name not in self._jobs:
            self._jobs.add(name)
            self._background.start(self._job(name, work))

    async def _job(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
            self._attempts[name] = 0
        except KafkaError as error:
            if name == "producer id" and not error.retriable:
                self._give_up(error)
            self._attempts[name] += 1
            await asyncio.sleep(self._pool.retry_delay(self._attempts[name]))
        finally:
            self._jobs.discard(name)
            self._wake()

    async def _connect(self, node: int) -> None:
        try:
            await self._pool.node(node)
        except KafkaError:
            self._start("metadata", self._refresh)  # another node may lead by now
            raise

    async def _refresh(self) -> None:
        await self._pool.refresh({tp.topic for tp in self._active})
        self._wake()
        await asyncio.sleep(self._pool.retry_delay(1))  # or a partition without a leader would have us ask in a circle

    async def _init_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
        answer = await self._pool.request(request, InitProducerIdResponse)
        raise_for(answer.error_code)
        self._producer_id = (answer.producer_id, answer.producer_epoch)

    # -- transactions -------------------------------------------------------------------------------------

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Number what is sent from now on under this producer, if it is another one; nothing must be on its way."""
        if self._producer_id == (producer_id, epoch):
            return  # the sequences go on: from zero again, the next batches would be taken for the first ones
        self._producer_id = (producer_id, epoch)
        for queue in self._queues.values():
            queue.adopt(producer_id, epoch)

    async def discard(self, error: KafkaError) -> bool:
        """Give up what waits, and wait for what is on its way: after that nothing of it can arrive any more.

        Whether sequence numbers were given up, so that the next ones do not follow.
        """
        told, self.on_failure = self.on_failure, None
        self._discarding = True
        gap = any(not batch.in_flight for queue in self._active.values() for batch in queue.sent)
        try:
            for queue in list(self._active.values()):
                for batch in queue.drop_unsent():
                    self._end(batch, Outcome(error=error))
                self._retire(queue)
            on_their_way = [batch.outcome for queue in self._active.values() for batch in queue.sent]
            if on_their_way:
                await asyncio.wait(on_their_way)
            return gap or any(queue.broken for queue in self._queues.values())
        finally:
            self._discarding = False
            self._failed = None
            self.on_failure = told

    def _give_up(self, error: KafkaError) -> None:
        for queue in list(self._active.values()):
            for batch in (*queue.sent, *queue.waiting):
                self._end(batch, Outcome(error=error))
            queue.sent.clear()
            queue.waiting.clear()
            self._retire(queue)
