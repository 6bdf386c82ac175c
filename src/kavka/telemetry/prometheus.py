"""Metrics as Prometheus reads them.

The library is loaded at the first scrape, so that a node that is not scraped does not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kavka.telemetry.metrics import Counter, Family, Gauge, Histogram, Metrics

if TYPE_CHECKING:
    from prometheus_client import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def render(metrics: Metrics) -> bytes:
    """All metrics in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(metrics))
    return generate_latest(registry)


class _Collector:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for family in self._metrics:
            yield _gauge(family) if isinstance(family, Gauge) else _counted(family)


def _gauge(gauge: Gauge) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    kind = CounterMetricFamily if gauge.grows else GaugeMetricFamily
    shown = kind(gauge.name, gauge.help, labels=gauge.labels)
    for labels, value in gauge.read():
        shown.add_metric(labels, value)
    return shown


def _counted(family: Family[Counter] | Family[Histogram]) -> Metric:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    counters = CounterMetricFamily(family.name, family.help, labels=family.labels)
    histograms = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    shown: Metric = counters
    for labels, child in family.children.items():
        if isinstance(child, Counter):
            counters.add_metric(labels, child.value)
        else:
            shown = histograms
            histograms.add_metric(labels, _buckets(child, family.scale), child.total * family.scale)
    return shown


def _buckets(histogram: Histogram, scale: float) -> list[tuple[str, float]]:
    """Cumulative counts up to each power of two that is in use."""
    highest = max((bits for bits, count in enumerate(histogram.counts) if count), default=0)
    shown, seen = [], 0
    for bits in range(highest + 1):
        seen += histogram.counts[bits]
        shown.append((repr(float(((1 << bits) - 1) * scale)), float(seen)))
    return [*shown, ("+Inf", float(seen))]
