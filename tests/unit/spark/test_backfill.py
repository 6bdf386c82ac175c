"""Which offsets a backfill writes, and what a table remembers of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.model.types import TopicPartition
from kavka.spark.lake import LakeError, LakeTable, TableSpec, open_table
from kavka.spark.lake.parquet import Parquet
from kavka.spark.lake.ranges import (
    BatchOffsets,
    Origin,
    backfill_marks,
    backfill_query,
    backfilled,
    began,
    check_added,
    reached,
    resumed,
    stream_marks,
    topic_marks,
    without,
)
from kavka.spark.lake.table import Marks
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
        table.commit(backfill_query("f"), number, table.staging("q", number), SCHEMA, Marks(marks))
    assert backfilled(open_table(spec), "f", [A, B], IDS) == {A: [(0, 5), (7, 9)], B: [(1, 2)]}
    assert backfilled(open_table(spec), "another", [A, B], IDS) == {}
    assert backfilled(open_table(spec), "f", [A, B], {"a": "created anew"}) == {}

    begins = {0: {A: 9, B: 2}, 2: {A: 12}, 3: {A: 8}}
    origin = Origin("f", lambda batch: BatchOffsets(begins.get(batch, {}), {}, begins.get(batch, {}), IDS))
    table.commit("query", 0, table.staging("query", 0), SCHEMA, stream_marks(table, origin, 0))
    assert began(open_table(spec), "f", [A, B], IDS) == {A: 9, B: 2}
    assert stream_marks(table, origin, 1).set == {}
    assert list(stream_marks(table, origin, 2).set.values()) == [9], "lost data is no new beginning"
    with pytest.raises(LakeError, match="flow f begins a-0 at offset 8, and a backfill has written 7 to 8 already"):
        stream_marks(table, origin, 3)


def stream(ends: list[dict[TopicPartition, int]]) -> Origin:
    """A stream whose batches end so; the first one begins where it says."""

    def offsets(batch: int) -> BatchOffsets:
        begins = ends[0] if batch == 0 else {}
        return BatchOffsets(ends[batch], ends[batch + 1], begins, IDS)

    return Origin("f", offsets)


def run(table: LakeTable, origin: Origin, batch: int, query: str = "query") -> int:
    check_added(table, origin, query, batch)
    return table.commit(query, batch, table.staging(query, batch), SCHEMA, stream_marks(table, origin, batch))


@pytest.mark.parametrize("form", ["delta", "iceberg", "parquet"])
def test_a_stream_without_its_checkpoint_goes_on_where_the_table_ends(form: Any, tmp_path: Path) -> None:
    table = open_table(TableSpec(str(tmp_path), form))
    earliest = {A: 0, B: 0, TopicPartition("a", 7): 3}
    assert resumed(table, "f", earliest, IDS) is None
    first = stream([{A: 5, B: 2}, {A: 9, B: 2}, {A: 12, B: 2}])
    run(table, first, 0)
    run(table, first, 1)
    assert resumed(open_table(TableSpec(str(tmp_path), form)), "f", earliest, IDS) == {
        A: 12,
        B: 2,  # nothing of it was ever read
        TopicPartition("a", 7): 3,  # it came later
    }
    assert resumed(table, "f", earliest, {"a": "created anew"}) is None
    again = stream([{A: 12, B: 2}, {A: 20, B: 3}])
    run(table, again, 0, "another")
    assert began(table, "f", [A, B], IDS) == {A: 5, B: 2}, "it is the same stream"
    assert reached(table, "f", [A, B], IDS) == {A: 20, B: 3}


@pytest.mark.parametrize("form", ["delta", "iceberg", "parquet"])
def test_a_stream_that_would_write_again_what_the_table_has_is_stopped(form: Any, tmp_path: Path) -> None:
    table = open_table(TableSpec(str(tmp_path), form))
    first = stream([{A: 5}, {A: 9}, {A: 12}])
    run(table, first, 0)
    held = stream_marks(table, first, 1)  # a second process has the same in hand
    run(table, first, 1)
    with pytest.raises(LakeError, match="goes on with a-0 at offset 5, and the table has up to 11 of it already"):
        run(table, stream([{A: 5}, {A: 9}]), 0, "a new checkpoint")
    with pytest.raises(LakeError, match="another process runs the same flow"):
        table.commit("another", 0, table.staging("another", 0), SCHEMA, held)
    # A checkpoint that was brought back from a backup counts on, and its batches have other ends.
    with pytest.raises(LakeError, match="the checkpoint is older than the table, which has batch 1"):
        run(table, stream([{A: 5}, {A: 9}, {A: 15}]), 1)


def test_a_parquet_commit_that_was_killed_after_its_list_has_its_marks(tmp_path: Path) -> None:
    class Killed(Parquet):
        def _write_marks(self, marks: Any) -> None:
            if marks:
                raise KeyboardInterrupt

    spec = TableSpec(str(tmp_path), "parquet")
    with pytest.raises(KeyboardInterrupt):
        Killed(spec).commit("query", 0, Parquet(spec).staging("query", 0), SCHEMA, Marks({"a": 1, "b": 2}))
    assert Parquet(spec).marks(["a", "b"]) == {"a": 1, "b": 2}
    Parquet(spec).commit("query", 1, Parquet(spec).staging("query", 1), SCHEMA, Marks({"b": 3}))
    assert Parquet(spec).marks(["a", "b"]) == {"a": 1, "b": 3}


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_rows_that_are_merged_by_offsets_are_of_one_topic_that_was_not_created_anew(form: Any, tmp_path: Path) -> None:
    table = open_table(TableSpec(str(tmp_path), form))
    marks = topic_marks(table, "f", {"a": "one", "b": "two"})
    assert len(marks) == 2
    table.commit("query", 0, table.staging("query", 0), SCHEMA, Marks(marks))
    assert len(topic_marks(table, "f", {"a": "one", "b": "two", "c": "three"})) == 1
    assert len(topic_marks(table, "another", {"a": "created anew"})) == 1
    with pytest.raises(LakeError, match="flow f: topic 'b' was deleted and created anew"):
        topic_marks(table, "f", {"a": "one", "b": "created anew"})
