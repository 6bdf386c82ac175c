"""Metrics in the words of OpenTelemetry; and that nobody imports it who does not ask for it."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from opentelemetry.sdk.metrics.export import Gauge, Histogram, Metric, Sum

from kavka.model.clock import ManualClock
from kavka.telemetry.metrics import Collected, Metrics
from kavka.telemetry.otel import SentMetrics, metric_of


def told(metrics: Metrics) -> dict[str, Metric]:
    return {metric.name: metric for metric in (metric_of(family, 1, 2) for family in metrics)}


def test_counters_grow_and_gauges_do_not() -> None:
    metrics = Metrics()
    metrics.counters("kavka_requests", "Requests.", "api").of("Fetch").value = 3
    metrics.gauges("kavka_lag", "Lag.", ("group",), lambda: [(("g",), 5)])
    metrics.count("kavka_evictions", "Evictions.", lambda: 7)
    found = told(metrics)
    requests, lag, evictions = found["kavka_requests"].data, found["kavka_lag"].data, found["kavka_evictions"].data
    assert isinstance(requests, Sum)
    assert requests.is_monotonic
    assert (requests.data_points[0].attributes, requests.data_points[0].value) == ({"api": "Fetch"}, 3)
    assert isinstance(lag, Gauge)
    assert (lag.data_points[0].attributes, lag.data_points[0].value) == ({"group": "g"}, 5)
    assert isinstance(evictions, Sum)
    assert evictions.data_points[0].value == 7


def test_a_histogram_keeps_its_bounds_and_its_sum() -> None:
    metrics = Metrics()
    histogram = metrics.histogram("kavka_seconds", "Seconds.", scale=0.001)
    for number in (0, 1, 3, 900):
        histogram.observe(number)
    data = told(metrics)["kavka_seconds"].data
    assert isinstance(data, Histogram)
    (point,) = data.data_points
    assert point.count == 4
    assert point.sum == pytest.approx(0.904)
    assert list(point.bucket_counts) == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0]
    assert point.explicit_bounds[:3] == pytest.approx([0, 0.001, 0.003])


def test_buckets_that_are_always_the_same_have_everything() -> None:
    metrics = Metrics()
    histogram = metrics.histograms("kavka_seconds", "Seconds.", scale=0.5, bits=range(2, 5)).of()
    for number in (0, 1, 3, 4, 15, 16, 1000):
        histogram.observe(number)
    data = told(metrics)["kavka_seconds"].data
    assert isinstance(data, Histogram)
    (point,) = data.data_points
    assert point.explicit_bounds == [1.5, 3.5, 7.5]
    assert list(point.bucket_counts) == [3, 1, 1, 2]
    assert point.count == 7


def test_what_clients_pushed_is_sent_on() -> None:
    metrics = Metrics()
    metrics.collect(lambda: [Collected("kavka_client_rate", "Rate.", False, [({"client_id": "a"}, 1.5)])])
    data = told(metrics)["kavka_client_rate"].data
    assert isinstance(data, Gauge)
    assert data.data_points[0].value == 1.5


def test_a_metric_that_cannot_be_read_does_not_end_the_node(caplog: pytest.LogCaptureFixture) -> None:
    metrics, again, read = Metrics(), asyncio.Event(), list[int]()

    def broken() -> float:
        read.append(1)
        if len(read) == 2:
            again.set()
        raise ZeroDivisionError

    metrics.gauge("broken", "Nobody knows.", broken)
    sent = SentMetrics(metrics, "http://127.0.0.1:1", {}, ManualClock(), 1)

    async def tried_twice() -> None:
        task = asyncio.create_task(sent.run())
        await asyncio.wait({task, asyncio.create_task(again.wait())}, return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(tried_twice())
    assert again.is_set()
    assert "metrics cannot be sent" in caplog.text


def test_a_node_and_a_client_that_do_not_ask_for_it_do_not_import_it() -> None:
    code = (
        "import sys, kavka.client, kavka.broker.wiring, kavka.broker.main; "
        "sys.exit(any(name.startswith(('opentelemetry', 'kavka.broker.auditing')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
