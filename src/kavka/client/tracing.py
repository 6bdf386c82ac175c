"""Traces that go with records: a producer that writes them into headers, and spans for those who read them.

OpenTelemetry's own: the tracer provider of the program is used, and the headers are those of W3C, `traceparent` and
`tracestate`. Needs `pip install 'kavka[otel]'`; nothing else in `kavka.client` imports this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypedDict, Unpack

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider, get_current_span
from opentelemetry.trace import get_tracer as tracer_of
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from kavka.client.batching import Delivery
from kavka.client.pool import Pool
from kavka.client.producer import Acks, Codec, Producer
from kavka.model.clock import Clock
from kavka.model.errors import KafkaError
from kavka.records.batch import Header

HEADERS: Final = ("traceparent", "tracestate")
MOST_LINKS: Final = 128
"""How many records of a batch its span is linked with; OpenTelemetry keeps no more by default."""
W3C: Final = TraceContextTextMapPropagator()


class Traced(Protocol):
    """A record that was read."""

    @property
    def topic(self) -> str:
        """Where it is from."""

    @property
    def partition(self) -> int:
        """And which part of it."""

    @property
    def offset(self) -> int:
        """Which record it is."""

    @property
    def headers(self) -> Sequence[Header]:
        """What its producer said beside it."""


class ProducerOptions(TypedDict, total=False):
    """The options of a `Producer`, which says what they mean."""

    acks: Acks
    idempotence: bool | None
    codec: Codec
    compression_level: int | None
    linger_ms: int
    batch_bytes: int
    max_request_bytes: int
    buffer_bytes: int
    max_in_flight: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    max_block_ms: int
    transactional_id: str | None
    transaction_timeout_ms: int
    two_phase_commit: bool
    client_id: str
    security: Mapping[str, Any] | None
    clock: Clock | None


class TracedProducer(Producer):
    """A producer each of whose records has a span, from `send` to the acknowledgement, and says so in its headers.

    ```python
    async with TracedProducer("127.0.0.1:9092") as producer:
        await producer.send("orders", b"value")
    ```

    The span is a child of the one that is current, if any.
    """

    def __init__(
        self,
        bootstrap: str | Iterable[str] | Pool,
        *,
        tracer_provider: TracerProvider | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(bootstrap, **options)
        self._tracer = _tracer(tracer_provider)

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
        span = self._tracer.start_span(f"send {topic}", kind=SpanKind.PRODUCER, attributes=_about(topic, "send"))
        try:
            delivery = await super().send(
                topic,
                value,
                key=key,
                partition=partition,
                timestamp=timestamp,
                headers=with_trace(headers, span),
            )
        except BaseException as error:
            _end(span, error)
            raise
        delivery.when_done(lambda partition, offset, error: _delivered(span, partition, offset, error))
        return delivery


def with_trace(headers: Sequence[Header], span: Span | None = None) -> list[Header]:
    """The headers of a record that belongs to a span, by default the current one; those of another trace go."""
    from opentelemetry.trace import set_span_in_context

    carrier: dict[str, str] = {}
    W3C.inject(carrier, set_span_in_context(span or get_current_span()))
    kept = [header for header in headers if header[0] not in HEADERS]
    return [*kept, *((name, text.encode()) for name, text in carrier.items())]


def context_of(record: Traced) -> Context:
    """The trace that a record belongs to; an empty context if it says nothing, or something wrong."""
    return context_in(record.headers)


def context_in(headers: Iterable[Header]) -> Context:
    """The same, by a record's headers."""
    found: dict[str, str] = {}
    for name, value in headers:
        if name in HEADERS and value is not None:
            found[name] = value.decode("ascii", "replace")
    return W3C.extract(found, Context())


def received(records: Iterable[Traced], tracer_provider: TracerProvider | None = None) -> None:
    """A span for records that were read together, linked with those that they were sent in."""
    tracer = _tracer(tracer_provider)
    topics: dict[str, list[Traced]] = {}
    for record in records:
        topics.setdefault(record.topic, []).append(record)
    for topic, rows in topics.items():
        contexts = (get_current_span(context_of(record)).get_span_context() for record in rows[:MOST_LINKS])
        links = [Link(context) for context in contexts if context.is_valid]
        attributes = {**_about(topic, "receive"), "messaging.batch.message_count": len(rows)}
        tracer.start_span(f"receive {topic}", kind=SpanKind.CLIENT, links=links, attributes=attributes).end()


@contextmanager
def processing(record: Traced, tracer_provider: TracerProvider | None = None) -> Iterator[Span]:
    """A span for the work on a record, in the trace of whoever sent it; current within the block.

    ```python
    async for record in consumer:
        with processing(record):
            ...
    ```
    """
    attributes = {
        **_about(record.topic, "process"),
        "messaging.destination.partition.id": str(record.partition),
        "messaging.kafka.offset": record.offset,
    }
    context = context_of(record)
    sent = get_current_span(context).get_span_context()
    with _tracer(tracer_provider).start_as_current_span(
        f"process {record.topic}",
        context=context,
        kind=SpanKind.CONSUMER,
        attributes=attributes,
        links=[Link(sent)] if sent.is_valid else None,
    ) as span:
        yield span


def _tracer(provider: TracerProvider | None) -> Tracer:
    return tracer_of("kavka.client", tracer_provider=provider)


def _about(topic: str, operation: str) -> Mapping[str, str | int]:
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }


def _delivered(span: Span, partition: int, offset: int, error: KafkaError | None) -> None:
    span.set_attribute("messaging.destination.partition.id", str(partition))
    if error is None and offset >= 0:
        span.set_attribute("messaging.kafka.offset", offset)
    _end(span, error)


def _end(span: Span, error: BaseException | None) -> None:
    if error is not None:
        span.set_status(Status(StatusCode.ERROR, str(error)))
        span.set_attribute("error.type", type(error).__name__)
    span.end()
