from __future__ import annotations

import pytest

from kavka.telemetry.metrics import Counter, Histogram, Metrics, StallWatch
from kavka.telemetry.prometheus import render


def test_a_counter_is_a_plain_number() -> None:
    counter = Metrics().counter("c", "help")
    counter.value += 2
    assert counter.value == 2


def test_the_same_labels_are_the_same_metric() -> None:
    family = Metrics().counters("c", "help", "api")
    family.of("Produce").value += 1
    assert family.of("Produce").value == 1
    assert family.of("Fetch").value == 0
    with pytest.raises(ValueError, match="has the labels"):
        family.of("Produce", "extra")


def test_two_metrics_cannot_have_one_name() -> None:
    metrics = Metrics()
    metrics.counter("c", "help")
    with pytest.raises(ValueError, match="two metrics named c"):
        metrics.gauge("c", "help", lambda: 1)


def test_a_histogram_counts_by_powers_of_two() -> None:
    histogram = Histogram()
    for value in (0, 1, 2, 3, 1000, 2**63):
        histogram.observe(value)
    assert histogram.count == 6
    assert histogram.total == 1006 + 2**63
    assert [bits for bits, count in enumerate(histogram.counts) if count] == [0, 1, 2, 10, 64]
    assert histogram.counts[2] == 2


def test_a_quantile_is_a_bound_of_its_share() -> None:
    histogram = Histogram()
    assert histogram.quantile(0.5) == 0
    for value in range(1, 101):
        histogram.observe(value)
    assert histogram.quantile(0.5) == 63
    assert histogram.quantile(1.0) == 127


def test_gauges_are_asked_when_they_are_read() -> None:
    metrics, level = Metrics(), [1.0]
    metrics.gauge("g", "help", lambda: level[0])
    (gauge,) = metrics
    level[0] = 7.0
    assert list(gauge.read()) == [((), 7.0)]  # type: ignore[union-attr]


def test_a_held_loop_is_seen_by_its_late_ticks() -> None:
    watch = StallWatch(Histogram(), Counter(), interval_us=1000, threshold_us=500)
    assert [watch.tick(now) for now in (0, 1000, 2100, 4000, 5000)] == [0, 0, 100, 900, 0]
    assert (watch.stalls.value, watch.worst_us, watch.late.count) == (1, 900, 5)


def test_a_clock_that_steps_back_is_not_a_stall() -> None:
    watch = StallWatch(Histogram(), Counter(), interval_us=1000)
    watch.tick(5000)
    assert watch.tick(0) == 0


def test_a_growing_number_kept_elsewhere_is_shown_as_a_counter() -> None:
    metrics = Metrics()
    metrics.count("kavka_x", "X.", lambda: 3)
    metrics.counts("kavka_y", "Y.", ("kind",), lambda: [(("a",), 1), (("b",), 2)])
    text = render(metrics).decode()
    assert "# TYPE kavka_x_total counter" in text
    assert "kavka_x_total 3.0" in text
    assert 'kavka_y_total{kind="b"} 2.0' in text
