"""A trace that begins at a producer, goes through Spark and ends at who reads, as a collector sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from collector import Collector, of
from kavka.client import Consumer, Producer
from kavka.client.tracing import TracedProducer, processing
from kavka.spark.connecting import OptionError
from kavka.spark.options import sink_options
from kavka.testing import Cluster


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


def provider_of(collector: Collector) -> TracerProvider:
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces")))
    return provider


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_trace_goes_through_a_sink(
    spark: Any, node: Cluster, topic: Callable[..., str], collector: Collector, tmp_path: Path, delivery: str
) -> None:
    source, target, provider = topic(), topic(), provider_of(collector)

    async def sent() -> None:
        async with TracedProducer(node.bootstrap, tracer_provider=provider) as producer:
            await (await producer.send(source, b"traced"))
        async with Producer(node.bootstrap) as producer:
            await producer.send_and_wait(source, b"plain", headers=[("h", b"1")])

    asyncio.run(sent())
    rows = (
        spark.readStream.format("kavka")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    query = (
        rows.select("value", "headers")
        .writeStream.format("kavka")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("topic", target)
        .option("delivery", delivery)
        .option("traces.endpoint", collector.url)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    async def read() -> dict[bytes | None, list[str]]:
        async with Consumer(node.bootstrap, isolation="read_committed") as consumer:
            await consumer.assign(target)
            found = [record async for record in consumer.until_end()]
            for record in found:
                if record.value == b"traced":
                    with processing(record, provider):
                        pass
            return {record.value: [name for name, _ in record.headers] for record in found}

    headers = asyncio.run(read())
    provider.shutdown()
    assert headers == {b"traced": ["traceparent"], b"plain": ["h"]}
    first = next(span for span in collector.spans("shop") if span.name == f"send {source}")
    (through,) = [span for span in collector.spans("kavka-spark") if span.name == f"send {target}"]
    last = next(span for span in collector.spans("shop") if span.name == f"process {target}")
    assert first.trace_id == through.trace_id == last.trace_id
    assert (through.parent_span_id, last.parent_span_id) == (first.span_id, through.span_id)
    assert of(through.attributes, "messaging.destination.name") == target


def test_an_endpoint_is_a_url() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "topic": "t"}
    assert sink_options(options).traces is None
    assert sink_options({**options, "traces.endpoint": "http://h:4318"}).traces == "http://h:4318"
    with pytest.raises(OptionError, match="URL of a collector"):
        sink_options({**options, "traces.endpoint": "h:4318"})
