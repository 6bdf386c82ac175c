"""What clients push is read as OTLP says, and nonsense is a ValueError."""

from __future__ import annotations

import pushed_metrics as pushed
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.telemetry.otlp import Point, points


def read(data: bytes) -> list[Point]:
    return list(points(memoryview(data)))


def test_gauges_and_sums_are_read_with_their_labels() -> None:
    data = pushed.push(
        pushed.gauge("a.gauge", 1.5, topic="t"),
        pushed.gauge("a.whole", -3),
        pushed.counter("a.sum", 7),
        pushed.counter("all.of.it", 9.0, pushed.CUMULATIVE),
        group_id="g",
    )
    assert read(data) == [
        Point("a.gauge", 1.5, False, False, (("group_id", "g"), ("topic", "t"))),
        Point("a.whole", -3.0, False, False, (("group_id", "g"),)),
        Point("a.sum", 7.0, True, True, (("group_id", "g"),)),
        Point("all.of.it", 9.0, True, False, (("group_id", "g"),)),
    ]


@pytest.mark.parametrize(
    ("kind", "delta"), [(pushed.HISTOGRAM, True), (pushed.EXPONENTIAL, True), (pushed.SUMMARY, False)]
)
def test_of_distributions_count_and_sum_are_read(kind: int, delta: bool) -> None:
    data = pushed.push(pushed.distribution(kind, "took", 4, 2.5, api="Fetch"))
    assert read(data) == [
        Point("took.count", 4.0, True, delta, (("api", "Fetch"),)),
        Point("took.sum", 2.5, True, delta, (("api", "Fetch"),)),
    ]


def test_fields_that_nobody_knows_are_passed_over() -> None:
    strange = pushed.nested(900, b"x") + pushed.number(901, 5) + pushed.fixed(902, 1.0) + b"\xad\x38\0\0\0\0"
    metric = pushed.gauge("known", 1.0)
    assert [point.name for point in read(strange + pushed.push(metric + strange) + strange)] == ["known"]


def test_long_names_and_many_labels_are_cut() -> None:
    labels = {f"label{number}": "v" * 5000 for number in range(100)}
    (point,) = read(pushed.push(pushed.gauge("n" * 5000, 1.0, **labels)))
    assert len(point.name) == 256
    assert len(point.attributes) == 16
    assert {len(value) for _, value in point.attributes} == {256}


def test_a_push_that_breaks_off_anywhere_is_refused() -> None:
    data = pushed.push(pushed.gauge("a", 1.0, topic="t"), pushed.counter("b", 2))
    for end in range(1, len(data)):
        with pytest.raises(ValueError, match="breaks off"):
            read(data[:end])


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = read(data)
    except ValueError:
        return
    assert all(isinstance(point.value, float) for point in found)
