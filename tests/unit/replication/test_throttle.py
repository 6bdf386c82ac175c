"""Replication limits: how fast is too fast, and whose replicas are meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.replication.throttle import Throttle, throttled


def test_without_a_limit_nothing_is_too_much():
    throttle = Throttle()
    throttle.record(1 << 60, 0)
    assert not throttle.exceeded(0)


def test_more_than_the_rate_has_to_be_waited_for():
    throttle = Throttle(rate=1_000)
    assert not throttle.exceeded(0)
    throttle.record(3_000, 0)
    assert throttle.exceeded(0)
    assert throttle.exceeded(2_999)
    assert not throttle.exceeded(3_000)


def test_what_was_long_ago_is_forgotten():
    throttle = Throttle(rate=1)
    throttle.record(1_000_000, 0)
    assert throttle.exceeded(10_999)
    assert not throttle.exceeded(11_000)


def test_a_rate_can_be_changed():
    throttle = Throttle(rate=10)
    throttle.record(1_000, 0)
    throttle.rate = 10_000
    assert not throttle.exceeded(1)


@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 2_000)), max_size=50))
def test_whoever_waits_for_the_limit_keeps_it_but_for_its_last_step(steps):
    throttle = Throttle(rate=1_000)
    now_ms = moved = largest = 0
    for pause_ms, size in steps:
        now_ms += pause_ms
        if not throttle.exceeded(now_ms):
            throttle.record(size, now_ms)
            moved += size
            largest = max(largest, size)
    assert moved <= (now_ms + 1_000) + 2 * largest + 11_000


@pytest.mark.parametrize(
    ("names", "expected"),
    [((), False), (("*",), True), (("0:1",), True), (("0:2", "1:1"), False), (("0:2", "0:1"), True)],
)
def test_replicas_are_named_by_partition_and_broker(names, expected):
    assert throttled(names, 0, 1) is expected
