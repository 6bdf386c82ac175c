"""How a flow stands by what it has reported and by what is known besides."""

from __future__ import annotations

import pytest

from kavka.client import TopicPartition
from kavka.console.pipelines import lag_of, state_of
from kavka.model.pipelines import FlowReport, SourcePosition


def report(state: str = "running", at_ms: int = 1_000_000, every_ms: int = 30_000) -> FlowReport:
    positions = (SourcePosition("orders", 0, 5, 9), SourcePosition("orders", 1, 7, 7))
    return FlowReport("shop", "orders", state, at_ms, every_ms, "h", "orders", positions=positions)


@pytest.mark.parametrize(
    ("state", "later_ms", "every_ms", "shown"),
    [
        ("running", 59_000, 30_000, "running"),
        ("running", 61_000, 30_000, "silent"),
        ("running", 19_000, 0, "running"),
        ("running", 8_000_000, 1 << 60, "silent"),
        ("stopped", 10**12, 30_000, "stopped"),
        ("failed", 10**12, 30_000, "failed"),
    ],
)
def test_a_flow_that_says_nothing_more_is_silent(state: str, later_ms: int, every_ms: int, shown: str) -> None:
    assert state_of(report(state, every_ms=every_ms), 1_000_000 + later_ms) == shown


def test_the_lag_is_by_where_partitions_end_now() -> None:
    assert lag_of(report(), {}) == 4
    assert lag_of(report(), {TopicPartition("orders", 1): 10, TopicPartition("other", 0): 99}) == 7
    assert lag_of(report(), {TopicPartition("orders", 0): 1}) == 0, "a topic that was created anew"
    assert lag_of(FlowReport("p", "f", "running", 0, 0, "", "t"), {}) is None
