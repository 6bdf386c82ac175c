"""Traces through a sink: a row that brought a trace in its headers goes on in it, with a span of its own.

Spans are sent by OTLP from the process of the task. Needs `pip install 'kavka[otel]'` where tasks run; nothing here is
imported by a sink without `traces.endpoint`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, Unpack

from opentelemetry.context import Context, attach, detach
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import get_current_span

from kavka.client.batching import Delivery
from kavka.client.pool import Pool
from kavka.client.producer import Producer
from kavka.client.tracing import ProducerOptions, TracedProducer, context_in
from kavka.records.batch import Header

FLUSH_MS: Final = 10_000
QUEUE: Final = 16_384
"""Spans that wait to be sent; more in a moment are left out."""


@cache
def provider(endpoint: str) -> TracerProvider:
    """Where the spans of this process go: one for each collector, for all its tasks."""
    known = Resource.create()
    named = known if not str(known.attributes[SERVICE_NAME]).startswith("unknown_service") else known.merge(OURS)
    made = TracerProvider(resource=named)
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
    made.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=QUEUE))
    return made


OURS: Final = Resource({SERVICE_NAME: "kavka-spark"})


class TracingProducer(TracedProducer):
    """Gives a span to each record that came with a trace, and leaves the others alone."""

    def __init__(
        self, bootstrap: str | Iterable[str] | Pool, *, endpoint: str, **options: Unpack[ProducerOptions]
    ) -> None:
        self._provider = provider(endpoint)
        super().__init__(bootstrap, tracer_provider=self._provider, **options)

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
        """Buffer a record, in the trace that its headers name."""
        context = context_in(headers)
        if not _names_trace(context):
            return await Producer.send(
                self, topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers
            )
        token = attach(context)
        try:
            return await super().send(topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers)
        finally:
            detach(token)


def flush(endpoint: str) -> None:
    """Send what is known of spans: nobody knows how long this process lives."""
    provider(endpoint).force_flush(FLUSH_MS)


def _names_trace(context: Context) -> bool:
    return get_current_span(context).get_span_context().is_valid
