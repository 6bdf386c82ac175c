from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kavka.telemetry.metrics import Metrics
from kavka.telemetry.prometheus import PART_SAMPLES, parts, render


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    families = text_string_to_metric_families(render(metrics).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
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


def test_a_long_page_comes_in_parts_and_what_is_looked_at_before_in_steps() -> None:
    metrics, seen = Metrics(), list[int]()

    def look() -> Iterator[None]:
        for step in range(3):
            seen.append(step)
            yield

    metrics.survey(look)
    metrics.gauges("kavka_size", "Size.", ("n",), lambda: [((str(n),), sum(seen)) for n in range(2_000)])
    found = list(parts(metrics))
    assert found[:3] == [b"", b"", b""]
    assert max(part.count(b"\n") for part in found) <= PART_SAMPLES
    assert b"".join(found).count(b" 3.0\n") == 2_000


def test_buckets_can_be_always_the_same() -> None:
    metrics = Metrics()
    times = metrics.histograms("kavka_seconds", "Times.", "api", bits=range(4, 7)).of("Fetch")
    for number in (1, 2, 40, 100):
        times.observe(number)
    found = samples(metrics)
    buckets = {dict(labels)["le"]: value for (name, labels), value in found.items() if name.endswith("_bucket")}
    assert buckets == {"15": 2, "31": 2, "63": 3, "+Inf": 4}


@given(value=st.text(max_size=20), number=st.floats(allow_nan=False))
def test_any_label_and_any_number_come_back_as_they_were(value: str, number: float) -> None:
    metrics = Metrics()
    metrics.gauges("kavka_size", "Size.", ("topic",), lambda: [((value,), number)])
    assert samples(metrics) == {("kavka_size", (("topic", value),)): number}
