from __future__ import annotations

import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families

from kavka.telemetry.metrics import Metrics
from kavka.telemetry.prometheus import render


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(render(metrics).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value for one in families for sample in one.samples
    }


def test_counters_and_gauges_are_rendered_with_their_labels() -> None:
    metrics = Metrics()
    metrics.counters("kavka_requests", "Requests.", "api").of('Pro"duce').value += 3
    metrics.gauge("kavka_up", "Up.", lambda: 1)
    metrics.gauges("kavka_size", "Size.", ("topic",), lambda: [(("a",), 5), (("b",), 6)])
    assert samples(metrics) == {
        ("kavka_requests_total", (("api", 'Pro"duce'),)): 3,
        ("kavka_up", ()): 1,
        ("kavka_size", (("topic", "a"),)): 5,
        ("kavka_size", (("topic", "b"),)): 6,
    }


def test_histograms_are_cumulative_and_scaled() -> None:
    metrics = Metrics()
    times = metrics.histogram("kavka_request_seconds", "Times.", scale=1e-6)
    for microseconds in (1, 3, 1_000_000):
        times.observe(microseconds)
    found = samples(metrics)
    buckets = {dict(labels)["le"]: value for (name, labels), value in found.items() if name.endswith("_bucket")}
    assert buckets["3e-06"] == 2
    assert buckets["1.048575"] == buckets["+Inf"] == 3
    assert found["kavka_request_seconds_count", ()] == 3
    assert found["kavka_request_seconds_sum", ()] == 1.000004


def test_a_family_nobody_has_counted_in_is_still_announced() -> None:
    metrics = Metrics()
    metrics.counters("kavka_errors", "Errors so far.", "code")
    assert b"# HELP kavka_errors_total Errors so far." in render(metrics)


def test_the_library_is_loaded_only_by_a_scrape() -> None:
    script = (
        "import sys; from kavka.telemetry.metrics import Metrics; from kavka.telemetry.prometheus import render\n"
        "assert 'prometheus_client' not in sys.modules; render(Metrics()); assert 'prometheus_client' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
