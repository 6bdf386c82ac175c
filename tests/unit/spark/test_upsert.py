"""Upserts without Spark: the latest row of each key, deletions, what comes late, and once each whatever happens."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kavka.spark.lake import TableSpec, open_table
from kavka.spark.lake.iceberg import Iceberg
from kavka.spark.lake.table import LakeTable
from kavka.spark.lake.upsert import DELETED, Upsert, key_filter
from kavka.spark.pipelines.flows import enveloped
from kavka.spark.pipelines.spec import SpecError, parse

FORMATS = ("delta", "iceberg")
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("text", pa.string()), ("_offset", pa.int64())])
Row = tuple[int, str, str | None, int]
"""id, part, text (None: deleted), offset"""


def spec_of(form: Any, folder: Path, *key: str, order_by: str = "_offset") -> TableSpec:
    return TableSpec(str(folder), form, upsert=Upsert(key or ("id",), order_by))


def put(table: LakeTable, batch: int, *rows: Row, schema: Any = SCHEMA) -> int:
    folder = table.staging("query", batch)
    Path(folder).mkdir(parents=True)
    given = [dict(zip(SCHEMA.names, row, strict=True)) | {DELETED: row[2] is None} for row in rows]
    pq.write_table(pa.Table.from_pylist(given, schema.append(pa.field(DELETED, pa.bool_()))), f"{folder}/0.parquet")
    done = table.commit("query", batch, folder, table.check(schema))
    assert not list(Path(folder).glob("*.parquet")), "what was staged is not left behind"
    return done


def content(spec: TableSpec) -> list[Row]:
    if spec.format == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(spec.path).to_pyarrow_table()
    else:
        opened = Iceberg(spec)._open()
        assert opened is not None
        found = opened.scan().to_arrow()
    assert DELETED not in found.column_names
    return sorted(tuple(row[name] for name in SCHEMA.names) for row in found.to_pylist())


@pytest.mark.parametrize("form", FORMATS)
def test_the_latest_row_of_a_key_wins_and_a_deleted_one_is_gone(form: Any, tmp_path: Path) -> None:
    spec = spec_of(form, tmp_path)
    put(open_table(spec), 0, (1, "a", "one", 0), (2, "a", "two", 1), (3, "a", "three", 2))
    put(open_table(spec), 1, (1, "b", "uno", 3), (2, "", None, 4), (4, "a", None, 5), (5, "a", "five", 6))
    assert content(spec) == [(1, "b", "uno", 3), (3, "a", "three", 2), (5, "a", "five", 6)]


@pytest.mark.parametrize("form", FORMATS)
def test_what_comes_late_changes_nothing(form: Any, tmp_path: Path) -> None:
    spec = spec_of(form, tmp_path)
    put(open_table(spec), 0, (1, "a", "new", 10), (2, "a", "new", 10))
    put(open_table(spec), 1, (1, "a", "old", 3), (2, "a", None, 4), (3, "a", "old", 5))
    assert content(spec) == [(1, "a", "new", 10), (2, "a", "new", 10), (3, "a", "old", 5)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_batch_that_comes_again_is_not_merged_again(form: Any, tmp_path: Path) -> None:
    spec = spec_of(form, tmp_path)
    late = open_table(spec)
    put(open_table(spec), 0, (1, "a", "one", 0))
    put(open_table(spec), 1, (1, "", None, 1))
    assert put(late, 0, (1, "a", "one", 0)) == 0
    assert content(spec) == []


@pytest.mark.parametrize("form", FORMATS)
def test_random_changes_by_two_keys_leave_what_a_dictionary_has(form: Any, tmp_path: Path) -> None:
    draw = random.Random(5)
    spec = spec_of(form, tmp_path, "id", "part")
    truth: dict[tuple[int, str], Row] = {}
    offset = 0
    for batch in range(6):
        latest: dict[tuple[int, str], Row] = {}
        for _ in range(draw.randrange(1, 30)):
            key = (draw.randrange(8), draw.choice("ab"))
            latest[key] = (*key, None if draw.random() < 0.3 else f"text {offset}", offset)
            offset += 1
        put(open_table(spec), batch, *latest.values())
        truth.update(latest)
        truth = {key: row for key, row in truth.items() if row[2] is not None}
        assert content(spec) == sorted(truth.values())


@pytest.mark.parametrize("form", FORMATS)
def test_new_columns_come_with_upserts_too(form: Any, tmp_path: Path) -> None:
    spec = spec_of(form, tmp_path)
    put(open_table(spec), 0, (1, "a", "one", 0), (2, "a", "two", 1))
    put(open_table(spec), 1, (1, "a", "uno", 2), schema=SCHEMA.append(pa.field("more", pa.int64())))
    assert content(spec) == [(1, "a", "uno", 2), (2, "a", "two", 1)]


@pytest.mark.parametrize("form", FORMATS)
def test_rows_may_have_columns_of_lists(form: Any, tmp_path: Path) -> None:
    spec = spec_of(form, tmp_path)
    schema = SCHEMA.append(pa.field("tags", pa.list_(pa.field("element", pa.string()))))
    put(open_table(spec), 0, (1, "a", "one", 0), (2, "a", "two", 1), schema=schema)
    put(open_table(spec), 1, (1, "a", "uno", 2), (2, "a", None, 3), schema=schema)
    assert content(spec) == [(1, "a", "uno", 2)]


def test_many_keys_are_no_deep_expression() -> None:
    keys = pa.table({"a": list(range(5000)), "b": ["x"] * 5000})
    expression = key_filter(keys)
    assert repr(expression).count("EqualTo") == 10_000


def test_rows_without_their_key_or_order_are_refused() -> None:
    assert Upsert(("id",)).problem(["id", "_offset"]) is None
    assert Upsert(("id", "part"), "at").problem(["id"]) == "rows are merged by part, at, which the batch does not have"


def test_a_spec_says_how_rows_are_merged(tmp_path: Path) -> None:
    def flow(table: Any, **source: Any) -> dict[str, Any]:
        return {"flows": [{"name": "f", "source": {"topic": "t", **source}, "sink": {"table": {"path": "p", **table}}}]}

    pipeline = parse(flow({"upsert": {"key": ["id"], "order_by": "at"}}), tmp_path)
    table = pipeline.flows[0].sink.table
    assert table is not None
    assert table.upsert == Upsert(("id",), "at")
    for wrong, message in (
        (flow({"upsert": {}}), "upsert.key names the columns"),
        (flow({"upsert": {"key": ["id"]}, "format": "parquet"}), "is delta or iceberg to have upserts"),
        (flow({}, envelope="xml"), "envelope is debezium"),
        (flow({}, envelope="debezium"), "say their format and schema"),
    ):
        with pytest.raises(SpecError, match=message):
            parse(wrong, tmp_path)


def test_debeziums_envelope_may_hold_rows_that_are_not_whole() -> None:
    assert enveloped("id BIGINT NOT NULL").startswith("before STRUCT<id BIGINT>, after STRUCT<id BIGINT>, op STRING")
