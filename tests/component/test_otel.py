"""Metrics and traces as a collector sees them: an OTLP receiver that nobody here wrote, a node, and its clients."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import TopicPartition
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from oteltest.sink import HttpSink
from oteltest.sink.handler import AccumulatingHandler
from oteltest.telemetry import Telemetry

from kavka.client import Consumer
from kavka.client.tracing import TracedProducer, processing, received
from kavka.testing import Cluster
from kavka.testing.local import free_ports

SECONDS = 60.0


class Collector:
    """What was received."""

    def __init__(self) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._handler = AccumulatingHandler()
        self._sink = HttpSink(self._handler, logging.getLogger("sink"), port)
        self._sink.start()

    def close(self) -> None:
        self._sink.stop()

    @property
    def telemetry(self) -> Telemetry:
        return self._handler.telemetry

    def spans(self, service: str) -> list[Any]:
        return [
            span
            for request in list(self.telemetry.trace_requests)
            for resource in request.pbreq.resource_spans
            if of(resource.resource.attributes, "service.name") == service
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> dict[str, Any]:
        """The metrics that came last, by name."""
        requests = list(self.telemetry.metric_requests)
        if not requests:
            return {}
        (resource,) = requests[-1].pbreq.resource_metrics
        assert of(resource.resource.attributes, "service.name") == "kavka"
        assert of(resource.resource.attributes, "service.instance.id") == "1"
        return {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}


def of(attributes: Any, name: str) -> str | None:
    return next((each.value.string_value for each in attributes if each.key == name), None)


def until(look: Callable[[], bool]) -> None:
    ends = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < ends
        time.sleep(0.05)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture(scope="module")
def cluster(collector: Collector) -> Iterator[Cluster]:
    config = {
        "kavka.otel.endpoint": collector.url,
        "kavka.otel.metrics.interval.ms": "300",
        "kavka.otel.traces.sample": "1.0",
        "kavka.metrics.listener": "127.0.0.1:0",
    }
    with Cluster(config=config) as cluster:
        yield cluster


@pytest.fixture
def provider(collector: Collector) -> Iterator[TracerProvider]:
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces")))
    yield provider
    provider.shutdown()


def test_a_trace_goes_from_the_producer_to_who_works_on_the_record(
    cluster: Cluster, collector: Collector, provider: TracerProvider
) -> None:
    async def main() -> list[tuple[str, bytes | None]]:
        tracer = provider.get_tracer("shop")
        async with TracedProducer(cluster.bootstrap, tracer_provider=provider) as producer:
            with tracer.start_as_current_span("checkout"):
                delivery = await producer.send("orders", b"one", headers=[("shop", b"1")])
            await delivery
        async with Consumer(cluster.bootstrap) as consumer:
            await consumer.assign("orders")
            records = await consumer.read()
            received(records, provider)
            with processing(records[0], provider), tracer.start_as_current_span("charge"):
                return list(records[0].headers)

    headers = asyncio.run(main())
    spans = {span.name: span for span in collector.spans("shop")}
    assert set(spans) == {"checkout", "send orders", "receive orders", "process orders", "charge"}
    sent, processed = spans["send orders"], spans["process orders"]
    assert sent.parent_span_id == spans["checkout"].span_id
    assert processed.parent_span_id == sent.span_id
    assert spans["charge"].parent_span_id == processed.span_id
    assert len({spans[name].trace_id for name in ("checkout", "send orders", "process orders", "charge")}) == 1
    assert [link.span_id for link in spans["receive orders"].links] == [sent.span_id]
    assert of(sent.attributes, "messaging.destination.partition.id") == "0"
    (shop, (name, traceparent)) = headers
    assert (shop, name) == (("shop", b"1"), "traceparent")
    assert traceparent is not None
    assert traceparent.startswith(f"00-{sent.trace_id.hex()}-{sent.span_id.hex()}-0".encode())
    other = OtherConsumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    other.assign([TopicPartition("orders", 0, 0)])
    message = other.poll(20)
    assert message is not None
    assert message.headers() == [("shop", b"1"), ("traceparent", traceparent)]
    other.close()


def test_requests_of_the_node_have_spans(cluster: Cluster, collector: Collector) -> None:
    async def main() -> None:
        async with Consumer(cluster.bootstrap, client_id="reader") as consumer:
            await consumer.assign("__nothing", start="start")

    with pytest.raises(Exception, match="__nothing"):
        asyncio.run(main())
    until(lambda: {"Metadata", "ApiVersions"} <= {span.name for span in collector.spans("kavka")})
    span = next(span for span in collector.spans("kavka") if span.name == "Metadata")
    assert of(span.attributes, "client.address") == "127.0.0.1"
    assert of(span.attributes, "kavka.principal") == "User:ANONYMOUS"
    assert 0 <= span.end_time_unix_nano - span.start_time_unix_nano < SECONDS * 1e9


def test_the_metrics_are_those_that_prometheus_is_shown(cluster: Cluster, collector: Collector) -> None:
    with urlopen(f"http://{cluster.node(1).ready['metrics']}/metrics", timeout=SECONDS) as answer:
        page = answer.read().decode()
    shown = {name.removesuffix("_total") for name in re.findall(r"^# TYPE (\w+) ", page, re.MULTILINE)}
    until(lambda: set(collector.metrics()) == shown)
    requests = collector.metrics()["kavka_requests"]
    assert requests.sum.is_monotonic
    assert any(of(point.attributes, "api") == "Metadata" and point.as_double > 0 for point in requests.sum.data_points)
    times = collector.metrics()["kavka_request_seconds"].histogram.data_points
    for point in times:
        assert point.count == sum(point.bucket_counts)
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1


def test_a_collector_that_is_away_holds_nobody_up() -> None:
    (port,) = free_ports(1)
    config = {
        "kavka.otel.endpoint": f"http://127.0.0.1:{port}",
        "kavka.otel.metrics.interval.ms": "100",
        "kavka.otel.traces.sample": "0.5",
    }
    with Cluster(config=config) as cluster:

        async def main() -> None:
            async with TracedProducer(cluster.bootstrap) as producer:
                for number in range(100):
                    await producer.send_and_wait("orders", b"%d" % number)

        asyncio.run(main())
        cluster.stop()
        assert "Traceback" not in cluster.log
