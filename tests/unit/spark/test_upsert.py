"""Upserts without Spark: the latest row of each key, deletions, what comes late, and once each whatever happens."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kavka.spark.lake import TableSpec, open_table
from kavka.spark.lake.deletions import not_deleted
from kavka.spark.lake.history import CURRENT, FROM, TO
from kavka.spark.lake.iceberg import Iceberg
from kavka.spark.lake.table import LakeTable
from kavka.spark.lake.upsert import DELETED, Upsert, key_filter
from kavka.spark.pipelines.declarative import write_project
from kavka.spark.pipelines.flows import enveloped
from kavka.spark.pipelines.spec import SpecError, parse

FORMATS = ("delta", "iceberg")
NAMES = ("id", "part", "text", "_offset")
SCHEMA = pa.schema([*zip(NAMES, (pa.int64(), pa.string(), pa.string(), pa.int64()), strict=True), ("at", pa.int64())])
Row = tuple[int, str, str | None, int]
"""id, part, text (None: deleted), and the place in the order"""


def spec_of(form: Any, folder: Path, *key: str, order_by: str = "_offset") -> TableSpec:
    return TableSpec(str(folder), form, upsert=Upsert(key or ("id",), order_by))


def put(table: LakeTable, batch: int, *rows: Row, schema: Any = SCHEMA, **more: Any) -> int:
    folder = table.staging("query", batch)
    Path(folder).mkdir(parents=True)
    given = [dict(zip(NAMES, row, strict=True)) | {"at": row[3], DELETED: row[2] is None, **more} for row in rows]
    pq.write_table(pa.Table.from_pylist(given, schema.append(pa.field(DELETED, pa.bool_()))), f"{folder}/0.parquet")
    done = table.commit("query", batch, folder, table.check(schema))
    assert not list(Path(folder).glob("*.parquet")), "what was staged is not left behind"
    return done


def rows_of(spec: TableSpec) -> Any:
    if spec.format == "delta":
        from deltalake import DeltaTable

        return DeltaTable(spec.path).to_pyarrow_table()
    opened = Iceberg(spec)._open()
    assert opened is not None
    return opened.scan().to_arrow()


def content(spec: TableSpec) -> list[Row]:
    found = rows_of(spec)
    assert DELETED not in found.column_names
    return sorted(tuple(row[name] for name in NAMES) for row in found.to_pylist())


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
def test_a_row_of_before_its_keys_deletion_does_not_come_back(form: Any, tmp_path: Path) -> None:
    spec = spec_of(form, tmp_path, order_by="at")
    put(open_table(spec), 0, (1, "a", "one", 5), (3, "a", None, 5))
    put(open_table(spec), 1, (1, "a", None, 10), (2, "a", "two", 10))
    put(open_table(spec), 2, (1, "a", "late", 8), (3, "a", "late", 4))
    assert content(spec) == [(2, "a", "two", 10)]
    open_table(spec).compact(1 << 20)
    open_table(spec).vacuum(int(time.time() * 1000) + 1000, dry=False)
    put(open_table(spec), 3, (1, "a", "late", 9), (2, "a", None, 9), (3, "a", "at once", 5), (4, "a", None, 1))
    assert content(spec) == [(2, "a", "two", 10), (3, "a", "at once", 5)]
    put(open_table(spec), 4, (1, "a", "new", 11), (4, "a", "new", 2))
    put(open_table(spec), 5, (1, "a", None, 10), (4, "a", None, 1))
    assert content(spec) == [(1, "a", "new", 11), (2, "a", "two", 10), (3, "a", "at once", 5), (4, "a", "new", 2)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_deletion_is_remembered_though_the_writer_dies_before_its_commit(
    form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(form, tmp_path, order_by="at")
    put(open_table(spec), 0, (1, "a", "one", 5))
    with monkeypatch.context() as dying:
        dying.setattr(f"kavka.spark.lake.{form}.not_deleted", dies_after(not_deleted))
        with pytest.raises(KeyboardInterrupt):
            put(open_table(spec), 1, (1, "a", None, 10), (2, "a", "two", 10))
    assert content(spec) == [(1, "a", "one", 5)]
    put(open_table(spec), 1, (1, "a", None, 10), (2, "a", "two", 10))
    put(open_table(spec), 2, (1, "a", "late", 8))
    assert content(spec) == [(2, "a", "two", 10)]


def dies_after(call: Callable[..., Any]) -> Callable[..., Any]:
    def die(*given: Any) -> None:
        call(*given)
        raise KeyboardInterrupt

    return die


def test_deletions_are_found_by_keys_that_have_become_wider(tmp_path: Path) -> None:
    spec = spec_of("iceberg", tmp_path, order_by="at")
    narrow = SCHEMA.set(0, pa.field("id", pa.int32()))
    put(open_table(spec), 0, (1, "a", None, 10), schema=narrow)
    put(open_table(spec), 1, (1, "a", "late", 9), (1 << 40, "a", "large", 9))
    put(open_table(spec), 2, (1 << 40, "a", None, 10))
    put(open_table(spec), 3, (1, "a", "late", 9), (1 << 40, "a", "late", 9))
    assert content(spec) == []


@pytest.mark.parametrize("form", FORMATS)
def test_keys_that_are_texts_are_remembered_too(form: Any, tmp_path: Path) -> None:
    spec = spec_of(form, tmp_path, "part", order_by="at")
    put(open_table(spec), 0, (1, "a", "one", 5), (2, "b", None, 5), (3, "c", None, 5))
    put(open_table(spec), 1, (1, "a", None, 10), (3, "c", None, 7))  # one deletion more, and one that is later now
    put(open_table(spec), 2, (1, "a", "late", 8), (2, "b", "late", 4), (3, "c", "new", 9))
    assert content(spec) == [(3, "c", "new", 9)]


def test_of_rows_that_were_added_with_one_key_the_latest_takes_the_place(tmp_path: Path) -> None:
    added = TableSpec(str(tmp_path), "iceberg")
    table = open_table(added)
    folder = table.staging("before", 0)
    Path(folder).mkdir(parents=True)
    rows = [dict(zip(NAMES, (1, "a", "one", at), strict=True)) | {"at": at} for at in (0, 1)]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), f"{folder}/0.parquet")
    table.commit("before", 0, folder, SCHEMA)
    spec = spec_of("iceberg", tmp_path)
    put(open_table(spec), 0, (1, "a", "two", 2))
    assert content(spec) == [(1, "a", "two", 2)]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("order_by", ["_offset", "at"])
def test_random_changes_by_two_keys_leave_what_a_dictionary_has(order_by: str, form: Any, tmp_path: Path) -> None:
    draw = random.Random(5)
    spec = spec_of(form, tmp_path, "id", "part", order_by=order_by)
    truth: dict[tuple[int, str], Row] = {}
    places = list(range(200))
    if order_by == "at":
        draw.shuffle(places)  # much comes late
    for batch in range(6):
        latest: dict[tuple[int, str], Row] = {}
        for _ in range(draw.randrange(1, 30)):
            key = (draw.randrange(8), draw.choice("ab"))
            at = places.pop(0)
            row = (*key, None if draw.random() < 0.3 else f"text {at}", at)
            latest[key] = max(latest.get(key, row), row, key=lambda row: row[3])
        put(open_table(spec), batch, *latest.values())
        for key, row in latest.items():
            truth[key] = max(truth.get(key, row), row, key=lambda row: row[3])
        assert content(spec) == sorted(row for row in truth.values() if row[2] is not None)


@pytest.mark.parametrize("form", FORMATS)
def test_new_columns_come_with_upserts_too(form: Any, tmp_path: Path) -> None:
    spec = spec_of(form, tmp_path)
    put(open_table(spec), 0, (1, "a", "one", 0), (2, "a", "two", 1))
    more = SCHEMA.append(pa.field("more", pa.int64()))
    put(open_table(spec), 1, (1, "a", "uno", 2), (3, "a", "three", 3), schema=more, more=7)
    assert content(spec) == [(1, "a", "uno", 2), (2, "a", "two", 1), (3, "a", "three", 3)]
    put(open_table(spec), 2, (1, "a", "eins", 4))
    assert {row["id"]: row["more"] for row in rows_of(spec).to_pylist()} == {1: None, 2: None, 3: 7}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("history", [False, True])
def test_fields_of_structs_come_and_are_missing_with_upserts_too(history: bool, form: Any, tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), form, upsert=Upsert(("id",), history=history))
    told = [(FROM, pa.int64()), (TO, pa.int64()), (CURRENT, pa.bool_())] if history else []

    def puts(batch: int, at: int, fields: dict[str, Any], **more: Any) -> None:
        kinds = [(name, pa.string() if name == "b" else pa.int32()) for name in fields]
        schema = pa.schema([("id", pa.int64()), ("_offset", pa.int64()), ("s", pa.struct(kinds)), *told])
        table = open_table(spec)
        folder = table.staging("query", batch)
        Path(folder).mkdir(parents=True)
        fitted = table.check(schema)
        row = {"id": 1, "_offset": at, "s": fields, FROM: at, CURRENT: True}
        pq.write_table(pa.Table.from_pylist([row], fitted), f"{folder}/0.parquet")
        table.commit("query", batch, folder, fitted)

    puts(0, 0, {"a": 0})
    puts(1, 1, {"a": 1, "b": "more"})
    puts(2, 2, {"a": 2})
    found = rows_of(spec)
    assert [row["s"] for row in sorted(found.to_pylist(), key=lambda row: row["_offset"])] == [
        *([{"a": 0, "b": None}, {"a": 1, "b": "more"}] if history else []),
        {"a": 2, "b": None},
    ]


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


def test_a_declarative_pipeline_is_not_made_of_upserts(tmp_path: Path) -> None:
    table = {"path": "p", "upsert": {"key": ["id"]}}
    pipeline = parse({"flows": [{"name": "f", "source": {"topic": "t"}, "sink": {"table": table}}]}, tmp_path)
    with pytest.raises(SpecError, match="flow f has upserts: a Spark Declarative Pipeline would add its rows"):
        write_project(pipeline)
