"""Which offsets a backfill writes, and what a table remembers of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.model.types import TopicPartition
from kavka.spark.lake import LakeError, TableSpec, open_table
from kavka.spark.lake.ranges import (
    Origin,
    backfill_marks,
    backfill_query,
    backfilled,
    began,
    stream_marks,
    without,
)
from kavka.spark.pipelines.backfill import plan
from kavka.spark.pipelines.spec import SpecError

A, B = TopicPartition("a", 0), TopicPartition("a", 1)
IDS = {"a": "id-of-a"}
SCHEMA = pa.schema([pa.field("number", pa.int64())])


def test_it_ends_where_the_stream_began() -> None:
    made = plan("f", {A: 0, B: 3}, None, {A: 10, B: 3}, {})
    assert made.rounds == ({A: (0, 10)},)
    assert made.said == ()


def test_nothing_is_said_aloud() -> None:
    assert plan("f", {A: 0}, None, {A: 0}, {}).said == ("nothing to do: the flow's stream writes all of it",)
    assert plan("f", {A: 0}, {A: 0}, {}, {}).said == ("nothing to do: there are no records",)
    done = plan("f", {A: 0}, {A: 9}, {}, {A: [(0, 9)]})
    assert done.rounds == ()
    assert done.said[-1] == "nothing to do: nothing is left"


def test_a_partition_that_the_stream_has_not_met_yet_is_the_streams() -> None:
    assert plan("f", {A: 0, B: 0}, None, {A: 10}, {}).rounds == ({A: (0, 10)},)


def test_an_end_behind_the_streams_beginning_is_refused() -> None:
    with pytest.raises(SpecError, match="the stream of flow f writes a-0 from offset 10 on, too"):
        plan("f", {A: 0, B: 0}, {A: 11, B: 5}, {A: 10, B: 5}, {})
    assert plan("f", {A: 0, B: 0}, {A: 10, B: 5}, {A: 10, B: 5}, {}).rounds == ({A: (0, 10), B: (0, 5)},)


def test_a_stream_whose_beginning_nobody_knows_needs_an_end() -> None:
    with pytest.raises(SpecError, match="say where to end with --to"):
        plan("f", {A: 0}, None, None, {})
    assert plan("f", {A: 0}, {A: 5}, None, {}).rounds == ({A: (0, 5)},)


def test_what_is_done_is_left_out_and_what_is_left_may_take_several_rounds() -> None:
    made = plan("f", {A: 0, B: 0}, {A: 20, B: 4}, {}, {A: [(5, 8), (8, 10)]})
    assert made.rounds == ({A: (0, 5), B: (0, 4)}, {A: (10, 20)})
    assert made.said == ("a-0: an earlier backfill wrote offsets of 0 to 19 already",)


SPAN = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: (min(pair), max(pair)))


@given(SPAN, st.lists(SPAN, max_size=5))
def test_what_is_left_is_what_nobody_has(span: tuple[int, int], done: list[tuple[int, int]]) -> None:
    left = without(span, done)
    assert all(first < after for first, after in left)
    assert [offset for first, after in left for offset in range(first, after)] == [
        offset for offset in range(*span) if not any(first <= offset < after for first, after in done)
    ]


@pytest.mark.parametrize("form", ["delta", "iceberg", "parquet"])
def test_a_table_remembers_what_streams_and_backfills_have_written(form: Any, tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), form)
    table = open_table(spec)
    assert backfilled(table, "f", [A, B], IDS) == {}
    for number, spans in enumerate([{A: (0, 5), B: (1, 2)}, {A: (7, 9)}]):
        marks = backfill_marks("f", number, spans, IDS)
        table.commit(backfill_query("f"), number, table.staging("q", number), SCHEMA, marks)
    assert backfilled(open_table(spec), "f", [A, B], IDS) == {A: [(0, 5), (7, 9)], B: [(1, 2)]}
    assert backfilled(open_table(spec), "another", [A, B], IDS) == {}
    assert backfilled(open_table(spec), "f", [A, B], {"a": "created anew"}) == {}

    begins = {0: {A: 9, B: 2}, 2: {A: 12}, 3: {A: 8}}
    origin = Origin("f", lambda batch: (begins.get(batch, {}), IDS))
    marks = stream_marks(table, origin, 0)
    table.commit("query", 0, table.staging("query", 0), SCHEMA, marks)
    assert began(open_table(spec), "f", [A, B], IDS) == {A: 9, B: 2}
    assert stream_marks(table, origin, 1) == {}
    assert list(stream_marks(table, origin, 2).values()) == [9], "lost data is no new beginning"
    with pytest.raises(LakeError, match="flow f begins a-0 at offset 8, and a backfill has written 7 to 8 already"):
        stream_marks(table, origin, 3)
