"""Metrics and spans of a node sent to an OpenTelemetry collector, by OTLP over HTTP.

Metrics are read on the node's loop, a few at a time, and sent from a thread; spans are given to the SDK's own thread.
Imported only by a node with `kavka.otel.endpoint`, and needs `pip install 'kavka[otel]'`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Gauge as OtlpGauge
from opentelemetry.sdk.metrics.export import Histogram as OtlpHistogram
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context

from kavka.model.clock import Clock
from kavka.telemetry.metrics import Collected, Counter, Family, Gauge, Histogram, Metrics, Shown

logger = logging.getLogger(__name__)

SCOPE: Final = InstrumentationScope("kavka")
TURN_SECONDS: Final = 0.005
"""After this long the requests of clients have their turn."""
TIMEOUT_SECONDS: Final = 3
"""How long a collector may take, with all attempts; a node that stops waits no longer for it."""
CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)

Numbers = Sequence[tuple[Mapping[str, str], float]]


class SentMetrics:
    """Sends all metrics of a node now and then, while `run` runs."""

    def __init__(self, metrics: Metrics, endpoint: str, about: Mapping[str, str], clock: Clock, every_ms: int) -> None:
        """`about` says who sends: attributes of the resource."""
        self._metrics = metrics
        self._resource = Resource.create(dict(about))
        self._exporter = OTLPMetricExporter(endpoint=f"{endpoint.rstrip('/')}/v1/metrics", timeout=TIMEOUT_SECONDS)
        self._clock = clock
        self._every_s = every_ms / 1000
        self._began_ns = clock.now_ms() * 1_000_000
        self.sent = 0
        """How often they were sent, also where nobody took them."""

    async def run(self) -> None:
        """Send, until cancelled; what a collector did not take is in what it gets next, for everything is a sum."""
        loop, thread = asyncio.get_running_loop(), ThreadPoolExecutor(1, "kavka-otel")
        try:
            while True:
                await asyncio.sleep(self._every_s)
                try:
                    data = await self._read()
                    await loop.run_in_executor(thread, self._exporter.export, data)
                    self.sent += 1
                except Exception:  # a node goes on without its collector
                    logger.exception("metrics cannot be sent, trying again in %s s", self._every_s)
        finally:
            self._exporter.shutdown()  # ends what is being tried again
            thread.shutdown(wait=False)

    async def _read(self) -> MetricsData:
        loop, found = asyncio.get_running_loop(), list[Metric]()
        ends = loop.time() + TURN_SECONDS
        for metric in self._steps():
            if metric is not None:
                found.append(metric)
            if loop.time() >= ends:
                await asyncio.sleep(0)
                ends = loop.time() + TURN_SECONDS
        scope = ScopeMetrics(SCOPE, found, "")
        return MetricsData([ResourceMetrics(self._resource, [scope], "")])

    def _steps(self) -> Iterator[Metric | None]:
        for _ in self._metrics.look():
            yield None
        now_ns = self._clock.now_ms() * 1_000_000
        for family in self._metrics:
            yield metric_of(family, self._began_ns, now_ns)


def metric_of(family: Shown, began_ns: int, now_ns: int) -> Metric:
    """A family in the words of OpenTelemetry."""
    if isinstance(family, Collected):
        return _numbers(family.name, family.help, family.samples, began_ns, now_ns, grows=family.grows)
    if isinstance(family, Gauge):
        read = [(dict(zip(family.labels, values, strict=True)), value) for values, value in family.read()]
        return _numbers(family.name, family.help, read, began_ns, now_ns, grows=family.grows)
    counted: list[tuple[Mapping[str, str], float]] = []
    points: list[HistogramDataPoint] = []
    for values, child in family.children.items():
        labels = dict(zip(family.labels, values, strict=True))
        if isinstance(child, Histogram):
            points.append(_histogram(family, labels, child, began_ns, now_ns))
        else:
            counted.append((labels, child.value))
    if family.made is Histogram:
        return Metric(family.name, family.help, "", OtlpHistogram(points, CUMULATIVE))
    return _numbers(family.name, family.help, counted, began_ns, now_ns, grows=True)


def _numbers(name: str, help: str, samples: Numbers, began_ns: int, now_ns: int, *, grows: bool) -> Metric:
    points = [NumberDataPoint(dict(labels), began_ns, now_ns, float(value)) for labels, value in samples]
    return Metric(name, help, "", Sum(points, CUMULATIVE, is_monotonic=True) if grows else OtlpGauge(points))


def _histogram(
    family: Family[Counter] | Family[Histogram],
    labels: Mapping[str, str],
    histogram: Histogram,
    began_ns: int,
    now_ns: int,
) -> HistogramDataPoint:
    highest = max((bits for bits, count in enumerate(histogram.counts) if count), default=0)
    shown = family.bits or range(highest + 1)
    bounds = [((1 << bits) - 1) * family.scale for bits in shown]
    lowest = sum(histogram.counts[: shown.start + 1])  # with what is smaller than the buckets that are shown
    counts = [lowest, *histogram.counts[shown.start + 1 : shown.stop], sum(histogram.counts[shown.stop :])]
    total = histogram.total * family.scale
    return HistogramDataPoint(
        dict(labels),
        began_ns,
        now_ns,
        sum(counts),
        total,
        counts,
        bounds,
        None,  # type: ignore[arg-type]  # the smallest and the largest are not kept; the protocol can do without
        None,  # type: ignore[arg-type]
    )


class SentSpans:
    """Sends spans; which requests have one is for others to choose."""

    def __init__(self, endpoint: str, about: Mapping[str, str]) -> None:
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=TIMEOUT_SECONDS)
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=Resource.create(dict(about)), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("kavka")

    def add(
        self,
        name: str,
        began_ns: int,
        ended_ns: int,
        attributes: Mapping[str, str | int],
        sent_in: Sequence[tuple[int, int]] = (),
    ) -> None:
        """A request that was served: linked with the spans that its records were sent in, a child of a single one."""
        sent = [SpanContext(trace, span, is_remote=True, trace_flags=SAMPLED) for trace, span in sent_in]
        parent = set_span_in_context(NonRecordingSpan(sent[0]), Context()) if len(sent) == 1 else Context()
        links = [Link(each) for each in sent]
        span = self._tracer.start_span(
            name, parent, kind=SpanKind.SERVER, start_time=began_ns, attributes=attributes, links=links
        )
        span.end(ended_ns)

    def close(self) -> None:
        """Send what is left; waits for the collector a while."""
        self._provider.shutdown()
