"""Traces in the headers of records: written by W3C's rules, and read whatever is in them."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kavka.client.producer import Producer
from kavka.client.tracing import ProducerOptions, processing, received, with_trace

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass(frozen=True, slots=True)
class Record:
    headers: list[tuple[str, bytes | None]]
    topic: str = "orders"
    partition: int = 2
    offset: int = 17


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(spans: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider


def test_a_traced_producer_has_all_options_of_a_producer() -> None:
    options = inspect.signature(Producer).parameters
    assert ["bootstrap", *ProducerOptions.__annotations__] == list(options)


def test_a_record_is_worked_on_in_the_trace_of_its_producer(
    provider: TracerProvider, spans: InMemorySpanExporter
) -> None:
    with processing(Record([("traceparent", PARENT.encode()), ("tracestate", b"a=1")]), provider):
        pass
    (span,) = spans.get_finished_spans()
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == tuple(PARENT.split("-")[1:3])
    assert span.parent.trace_state["a"] == "1"
    assert span.attributes is not None
    assert span.attributes["messaging.kafka.offset"] == 17


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("traceparent", None)],
        [("traceparent", b"")],
        [("traceparent", b"\xff\xfe" * 1000)],
        [("traceparent", b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01")],
        [("tracestate", b"a=1")],
    ],
)
def test_headers_that_say_nothing_begin_a_trace(
    provider: TracerProvider, spans: InMemorySpanExporter, headers: list[tuple[str, bytes | None]]
) -> None:
    with processing(Record(headers), provider):
        pass
    received([Record(headers)], provider)
    processed, batch = spans.get_finished_spans()
    assert processed.parent is None
    assert not processed.links
    assert not batch.links


def test_headers_of_another_trace_are_replaced_and_the_others_stay(provider: TracerProvider) -> None:
    span = provider.get_tracer("test").start_span("one")
    context = span.get_span_context()
    found = with_trace([("traceparent", PARENT.encode()), ("mine", b"1")], span)
    text = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert found == [("mine", b"1"), ("traceparent", text.encode())]


def test_the_links_of_a_batch_are_bounded(provider: TracerProvider, spans: InMemorySpanExporter) -> None:
    received([Record([("traceparent", PARENT.encode())])] * 1000, provider)
    (span,) = spans.get_finished_spans()
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 1000
    assert len(span.links) == 128
