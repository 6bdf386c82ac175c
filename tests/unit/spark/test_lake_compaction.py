"""Compaction of lake tables while batches are added: it takes place, and changes no row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.unit.spark.test_lake import content, staged

from kavka.spark.lake import LakeError, TableSpec, open_table
from kavka.spark.lake.iceberg import Iceberg
from kavka.spark.lake.upsert import Upsert

SCHEMA = pa.schema([("number", pa.int64()), ("_offset", pa.int64())])
LARGE = 64 << 20


class Overtaken(SqlCatalog):
    """A catalog in which others commit first."""

    meanwhile: Callable[[], Any] | None = None

    def commit_table(self, *given: Any, **named: Any) -> Any:
        if (first := self.meanwhile) is not None:
            self.meanwhile = None
            first()
        return super().commit_table(*given, **named)


def put(spec: TableSpec, batch: int, *numbers: int) -> int:
    table = open_table(spec)
    return table.commit("q", batch, staged(table, "q", batch, *numbers, schema=SCHEMA), SCHEMA)


def iceberg(folder: Path, upsert: Upsert | None = None) -> tuple[TableSpec, Iceberg, Overtaken]:
    """A table with three batches, and a writer of it that others overtake."""
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": str(folder)}
    spec = TableSpec(str(folder / "t"), "iceberg", name="default.t", catalog=catalog, upsert=upsert)
    for batch in range(3):
        put(spec, batch, batch, batch + 10)
    slow = Iceberg(spec)
    slow._catalog_ = overtaken = Overtaken("kavka", **catalog)
    return spec, slow, overtaken


def test_a_batch_that_comes_meanwhile_stays_beside_what_is_compacted(tmp_path: Path) -> None:
    spec, slow, overtaken = iceberg(tmp_path)
    overtaken.meanwhile = lambda: put(spec, 3, 7)
    done = slow.compact(LARGE)
    assert (done.files_before, done.files_after) == (4, 2)
    assert content(spec) == [0, 1, 2, 7, 10, 11, 12]


def test_files_that_an_upsert_has_rewritten_meanwhile_are_not_compacted(tmp_path: Path) -> None:
    spec, slow, overtaken = iceberg(tmp_path, Upsert(("number",)))
    overtaken.meanwhile = lambda: put(spec, 3, 1)
    done = slow.compact(LARGE)
    assert done.files_before == done.files_after
    assert content(spec) == [0, 1, 2, 10, 11, 12]
    assert open_table(spec).compact(LARGE).files_after == 1
    assert content(spec) == [0, 1, 2, 10, 11, 12]


def test_of_two_compactions_one_takes_place(tmp_path: Path) -> None:
    spec, slow, overtaken = iceberg(tmp_path)
    overtaken.meanwhile = lambda: open_table(spec).compact(LARGE)
    done = slow.compact(LARGE)
    assert (done.files_before, done.files_after) == (1, 1)
    assert content(spec) == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_compacted_table_with_upserts_is_merged_into(form: Any, tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), form, upsert=Upsert(("number",)))
    for batch in range(3):
        put(spec, batch, batch, batch + 10)
    open_table(spec).compact(LARGE)
    assert put(spec, 3, 1, 5) == 2
    assert content(spec) == [0, 1, 2, 5, 10, 11, 12]


def test_files_of_before_a_column_got_another_name_are_not_merged_by_names(tmp_path: Path) -> None:
    spec, table, _ = iceberg(tmp_path)
    opened = table._open()
    assert opened is not None
    with opened.update_schema() as change:
        change.rename_column("_offset", "place")
    with pytest.raises(LakeError, match="column _offset has another name now"):
        open_table(spec).compact(LARGE)
    opened = table._open()
    assert opened is not None
    assert sorted(opened.scan().to_arrow().column("place").to_pylist()) == [0, 1, 2, 10, 11, 12]
    with opened.update_schema() as change:
        change.delete_column("place")
    assert open_table(spec).compact(LARGE).files_after == 1, "what nobody reads any more is no reason"
    assert content(spec) == [0, 1, 2, 10, 11, 12]
