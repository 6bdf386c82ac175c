"""What pipelines report: written and read again, and nothing else taken for it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from kavka.model.pipelines import (
    MOST_BATCHES,
    BatchReport,
    FlowReport,
    SourcePosition,
    TableReport,
)

REPORT = FlowReport(
    pipeline="shop",
    flow="orders",
    state="running",
    at_ms=1_700_000_000_000,
    every_ms=30_000,
    host="worker-1",
    source="orders",
    dead_letter_topic="orders-dead",
    batches=(BatchReport(7, 1200, 3, 2.5, 1_700_000_000_000),),
    positions=(SourcePosition("orders", 0, 5, 9),),
    table=TableReport("delta", "s3://lake/orders", 3, 1, 900, 4, None),
)


def test_what_is_written_is_read() -> None:
    assert FlowReport.decode(REPORT.encode()) == REPORT
    bare = replace(REPORT, table=None, batches=(), positions=(), sink_topic="clean", error="no space")
    assert FlowReport.decode(bare.encode()) == bare
    assert REPORT.key == b"shop/orders"


@pytest.mark.parametrize(
    "change",
    [
        {"state": "dancing"},
        {"at_ms": "today"},
        {"at_ms": True},
        {"at_ms": -1},
        {"at_ms": 1 << 63},
        {"pipeline": None},
        {"batches": {}},
        {"batches": [1]},
        {"batches": [{"number": 1, "rows": 1, "dead_letters": 0, "seconds": "long", "at_ms": 1}]},
        {"batches": [{"number": 1, "rows": 1, "dead_letters": 0, "seconds": float("nan"), "at_ms": 1}]},
        {"positions": [{"topic": "t"}]},
        {"table": []},
        {"error": 7},
    ],
)
def test_what_is_no_report_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\bno\b"):
        FlowReport.decode(json.dumps({**asdict(REPORT), **change}).encode())


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b"{}", b"[" * 100_000])
def test_other_records_are_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"\bno\b"):
        FlowReport.decode(value)


def test_texts_and_lists_are_cut_to_a_size() -> None:
    long = {**asdict(REPORT), "host": "h" * 100_000, "batches": [asdict(REPORT.batches[0])] * 1000}
    read = FlowReport.decode(json.dumps(long).encode())
    assert (len(read.host), len(read.batches)) == (1000, MOST_BATCHES)
