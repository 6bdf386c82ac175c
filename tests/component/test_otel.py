"""Metrics and traces as a collector sees them: an OTLP receiver that nobody here wrote, a node, and its clients."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import Producer, TopicPartition
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from collector import Collector, of
from kavka.client import Consumer
from kavka.client import TopicPartition as Place
from kavka.client.admin_configs import ConfigResource, ResourceType
from kavka.client.blocking import Client
from kavka.client.tracing import TracedProducer, processing, received
from kavka.testing import Cluster
from kavka.testing.local import free_ports

SECONDS = 60.0


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
    until(lambda: any(one.parent_span_id == sent.span_id for one in collector.spans("kavka")))
    stored = next(one for one in collector.spans("kavka") if one.parent_span_id == sent.span_id)
    assert (stored.name, stored.trace_id) == ("Produce", sent.trace_id)
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


def test_a_collector_alone_gets_what_clients_push_and_how_far_groups_are_behind() -> None:
    alone = Collector()
    config = {"kavka.otel.endpoint": alone.url, "kavka.otel.metrics.interval.ms": "200"}
    with Cluster(config=config) as cluster:
        assert cluster.node(1).ready["metrics"] is None
        with Client(cluster.bootstrap) as client:
            subscription = ConfigResource(ResourceType.CLIENT_METRICS, "all")
            client.admin.alter_configs(subscription, set={"metrics": "*", "interval.ms": "200"})
            client.admin.create_topic("sales", partitions=1)
            client.admin.alter_group_offsets("billing", {Place("sales", 0): 0})
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "till", "enable.metrics.push": True})

        def came() -> bool:
            producer.produce("sales", b"x")
            producer.poll(0)
            found = alone.metrics()
            pushed = [metric for name, metric in found.items() if name.startswith("kavka_client_producer_")]
            points = [point for each in pushed for point in (*each.gauge.data_points, *each.sum.data_points)]
            lag = found["kavka_group_lag_records"].gauge.data_points if found else ()
            return any(of(point.attributes, "client_id") == "till" for point in points) and any(
                of(point.attributes, "group") == "billing" and point.as_double > 0 for point in lag
            )

        until(came)
        producer.flush(SECONDS)
    alone.close()


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
