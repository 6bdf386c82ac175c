"""What a node says of itself when it has started."""

from __future__ import annotations

import pytest

from kavka.broker.main import all_served
from kavka.broker.wiring import ReadyReport


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (ReadyReport(1, "c", "a:1", None, None, None, None), "a:1"),
        (ReadyReport(1, "c", None, "a:2", None, None, "a:3"), "a:2, metrics at a:3"),
        (
            ReadyReport(1, "c", "a:1", "a:2", "a:8", "a:9", None),
            "a:1, the console at a:8, the registry at a:9",
        ),
    ],
)
def test_all_that_is_served_is_named(report: ReadyReport, said: str) -> None:
    assert all_served(report) == said
