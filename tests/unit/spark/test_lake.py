"""Commits to lake tables, without Spark: a batch is added once, whoever tries, and nothing of others is undone."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from kavka.spark.lake import LakeError, TableSpec, open_table
from kavka.spark.lake.delta import Delta
from kavka.spark.lake.feed import twins
from kavka.spark.lake.iceberg import Iceberg
from kavka.spark.lake.table import LakeTable, Marks, evolution, new_columns

SCHEMA = pa.schema([pa.field("number", pa.int64())])
FORMATS = ("delta", "iceberg", "parquet")


def staged(table: LakeTable, query: str, batch: int, *numbers: int, schema: Any = SCHEMA) -> str:
    """Files as Spark would have written them."""
    folder = table.staging(query, batch)
    Path(folder).mkdir(parents=True)
    columns = [pa.array(list(numbers), field.type) for field in schema]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), f"{folder}/part-0.parquet")
    return folder


def add(table: LakeTable, batch: int, *numbers: int, query: str = "query") -> int:
    return table.commit(query, batch, staged(table, query, batch, *numbers), SCHEMA)


def content(spec: TableSpec) -> list[int]:
    if spec.format == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(spec.path).to_pyarrow_table()
    elif spec.format == "iceberg":
        opened = Iceberg(spec)._open()
        assert opened is not None
        found = opened.scan().to_arrow()
    else:
        found = pa.concat_tables([pq.read_table(path) for path in sorted(Path(spec.path).glob("*.parquet"))])
    return sorted(found.column("number").to_pylist())


@pytest.mark.parametrize("form", FORMATS)
def test_a_writer_that_comes_late_does_not_add_its_batch_again(form: Any, tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), form)
    add(open_table(spec), 0, 1, 2)
    late = open_table(spec)
    assert late.last_batch("query") == 0  # it looks, and then writes its files for a long time
    files = staged(late, "query", 1, 3)
    assert add(open_table(spec), 1, 3) == 1
    assert add(open_table(spec), 2, 4) == 1
    assert late.commit("query", 1, files, SCHEMA) == 0
    assert content(spec) == [1, 2, 3, 4]
    assert open_table(spec).last_batch("query") == 2
    assert not list(Path(files).glob("*.parquet")), "what is not committed is not left behind"


def test_delta_commits_to_the_version_whose_marks_it_has_seen(tmp_path: Path) -> None:
    class Slow(Delta):
        def _write(self, *given: Any) -> None:
            if meanwhile:
                meanwhile.pop()()
            super()._write(*given)

    spec = TableSpec(str(tmp_path), "delta")
    add(open_table(spec), 0, 1)
    meanwhile: list[Callable[[], int]] = [lambda: add(open_table(spec), 1, 2)]
    assert add(Slow(spec), 1, 2) == 0
    assert content(spec) == [1, 2]
    meanwhile.append(lambda: add(open_table(spec), 7, 9, query="another"))
    assert add(Slow(spec), 2, 3) == 1
    wider = pa.schema([*SCHEMA, pa.field("more", pa.int64())])
    other = open_table(spec)
    meanwhile.append(lambda: other.commit("another", 8, staged(other, "another", 8, 5, schema=wider), wider))
    assert add(Slow(spec), 3, 4) == 1, "another one's new column is no reason to fail"
    assert content(spec) == [1, 2, 3, 4, 5, 9]


@pytest.mark.parametrize("base", [Delta, Iceberg])
def test_a_commit_that_went_through_and_was_told_to_have_failed_is_not_undone(base: Any, tmp_path: Path) -> None:
    from deltalake.exceptions import CommitFailedError
    from pyiceberg.exceptions import CommitFailedException

    class Unsure(base):  # type: ignore[misc]
        def _write(self, *given: Any) -> None:
            super()._write(*given)
            raise CommitFailedError("no answer") if base is Delta else CommitFailedException("no answer")

    spec = TableSpec(str(tmp_path), "delta" if base is Delta else "iceberg")
    add(Unsure(spec), 0, 1, 2)
    assert content(spec) == [1, 2]
    assert add(open_table(spec), 0, 1, 2) == 0
    assert content(spec) == [1, 2]


MEANWHILE: list[Callable[[], int]] = []


class SlowCatalog(SqlCatalog):
    """A catalog in which others commit first."""

    def commit_table(self, *given: Any, **named: Any) -> Any:
        if MEANWHILE:
            MEANWHILE.pop()()
        return super().commit_table(*given, **named)


def test_iceberg_commits_to_the_snapshot_whose_marks_it_has_seen(tmp_path: Path) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)}
    quick = TableSpec(str(tmp_path / "t"), "iceberg", name="default.t", catalog=catalog)
    slow = Iceberg(quick)
    slow._catalog_ = SlowCatalog("kavka", **catalog)
    add(open_table(quick), 0, 1)
    MEANWHILE.append(lambda: add(open_table(quick), 1, 2))
    assert add(slow, 1, 2) == 0
    assert content(quick) == [1, 2]
    MEANWHILE.append(lambda: add(open_table(quick), 7, 9, query="another"))
    assert add(slow, 2, 3) == 1
    assert content(quick) == [1, 2, 3, 9]


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_rows_of_partitions_by_a_column_with_an_underscore_are_rows_too(form: Any, tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), form, partition_by=("_topic",))
    schema = pa.schema([*SCHEMA, ("_topic", pa.string())])
    for batch in range(2):
        table = open_table(spec)
        folder = Path(table.staging("query", batch))
        (folder / "_topic=orders").mkdir(parents=True)
        pq.write_table(pa.table({"number": [batch, 7]}), folder / "_topic=orders" / "part-0.parquet")
        assert table.commit("query", batch, str(folder), schema) == 2
    assert open_table(spec).freshness().rows == 4
    assert open_table(spec).compact(1 << 20).files_after == 1
    open_table(spec).vacuum(int(time.time() * 1000) + 1000, dry=False)
    assert open_table(spec).freshness().rows == 4


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_of_many_writers_of_one_batch_one_adds_it(form: Any, tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), form)
    tables = [open_table(spec) for _ in range(4)]
    assert [table.last_batch("query") for table in tables] == [None] * 4
    files = [staged(table, "query", 0, 1, 2, 3) for table in tables]
    added: list[int] = []
    ready = threading.Barrier(len(tables))

    def write(table: LakeTable, folder: str) -> None:
        ready.wait()
        added.append(table.commit("query", 0, folder, SCHEMA))

    threads = [threading.Thread(target=write, args=each) for each in zip(tables, files, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(added) == [0, 0, 0, 3]
    assert content(spec) == [1, 2, 3]


@pytest.mark.parametrize("form", FORMATS)
def test_marks_are_set_with_a_batch_and_only_with_it(form: Any, tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), form)
    assert open_table(spec).marks(["a"]) == {}
    table = open_table(spec)
    assert table.commit("query", 0, staged(table, "query", 0, 1), SCHEMA, Marks({"a/b c": 1 << 50, "d": 0})) == 1
    assert open_table(spec).marks(["a/b c", "d", "e"]) == {"a/b c": 1 << 50, "d": 0}
    assert table.commit("query", 0, staged(table, "query", 0, 1), SCHEMA, Marks({"d": 9})) == 0
    assert table.commit("query", 1, table.staging("query", 1), SCHEMA, Marks({"d": 5})) == 0, (
        "there are no rows, but a mark"
    )
    assert open_table(spec).marks(["d"]) == {"d": 5}
    assert content(spec) == [1]


def test_two_iceberg_tables_of_one_catalog_have_two_names(tmp_path: Path) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)}
    with pytest.raises(LakeError, match="needs a name in its catalog"):
        open_table(TableSpec(str(tmp_path / "a"), "iceberg", catalog=catalog))
    spec = TableSpec(str(tmp_path / "a"), "iceberg", name="default.t", catalog=catalog)
    add(open_table(spec), 0, 1)
    with pytest.raises(LakeError, match=r"default.t is at .*/a, not at .*/b: two tables of one catalog need two names"):
        add(open_table(TableSpec(str(tmp_path / "b"), "iceberg", name="default.t", catalog=catalog)), 0, 2)
    add(open_table(TableSpec(str(tmp_path / "b"), "iceberg", name="default.u", catalog=catalog)), 0, 2)
    assert content(spec) == [1]


def test_the_copies_that_iceberg_partitions_by_take_no_columns_name() -> None:
    assert twins(["day", "number"], ["day"]) == ["by_day"]
    assert twins(["day", "by_day", "BY_BY_DAY"], ["day"]) == ["by_by_by_day"]
    assert twins(["a", "by_a"], ["a", "by_a"]) == ["by_by_a", "by_by_by_a"]


def delete_first_row(spec: TableSpec, content_kind: Any) -> None:
    """What an engine does that writes delete files instead of data files."""
    from pyiceberg.manifest import DataFile, FileFormat, ManifestContent, ManifestEntry, ManifestEntryStatus
    from pyiceberg.manifest import ManifestWriterV2 as Writer
    from pyiceberg.table.update.snapshot import _FastAppendFiles
    from pyiceberg.typedef import Record

    class DeleteWriter(Writer):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    table = Iceberg(spec)._open()
    assert table is not None
    (task, *_) = table.scan().plan_files()
    path = f"{spec.path}/data/deletes.parquet"
    fields = [
        pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"}),
    ]
    rows = pa.Table.from_arrays([pa.array([task.file.file_path]), pa.array([0])], schema=pa.schema(fields))
    pq.write_table(rows, path)
    deleted = DataFile.from_args(
        content=content_kind,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=Path(path).stat().st_size,
        equality_ids=[1],
    )
    deleted.spec_id = 0

    class Append(_FastAppendFiles):
        def _manifests(self) -> list[Any]:
            meta = self._transaction.table_metadata
            output = self.new_manifest_output()
            with DeleteWriter(meta.spec(), meta.schema(), output, self._snapshot_id, "deflate") as writer:
                entry = ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=deleted
                )
                writer.add(entry)
            return [writer.to_manifest_file(), *self._existing_manifests()]

    with table.transaction() as change:
        from pyiceberg.table.snapshots import Operation

        with Append(Operation.APPEND, change, table.io):
            pass


@pytest.mark.parametrize("kind", ["POSITION_DELETES", "EQUALITY_DELETES"])
def test_an_iceberg_table_with_delete_files_is_not_compacted(kind: str, tmp_path: Path) -> None:
    from pyiceberg.manifest import DataFileContent

    spec = TableSpec(str(tmp_path), "iceberg")
    for batch in range(3):
        add(open_table(spec), batch, 10 * batch, 10 * batch + 1)
    delete_first_row(spec, DataFileContent[kind])
    if kind == "POSITION_DELETES":
        assert len(content(spec)) == 5
    with pytest.raises(LakeError, match="has delete files of another engine: compact it there first"):
        open_table(spec).compact(64 << 20)
    if kind == "POSITION_DELETES":
        assert len(content(spec)) == 5, "a deleted row stays deleted"
    assert open_table(spec).freshness().files == 3
    assert add(open_table(spec), 3, 99) == 1


def test_an_iceberg_table_without_delete_files_is_compacted(tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), "iceberg")
    for batch in range(3):
        add(open_table(spec), batch, batch)
    done = open_table(spec).compact(64 << 20)
    assert (done.files_before, done.files_after) == (3, 1)
    assert content(spec) == [0, 1, 2]
    assert pc.sum(pa.array(content(spec))).as_py() == 3


def fields(*each: Any) -> Any:
    return pa.schema([pa.field(name, kind) for name, kind in each])


def test_columns_become_wider_and_structs_get_fields() -> None:
    before = fields(
        ("i", pa.int32()), ("f", pa.float32()), ("d", pa.decimal128(5, 2)), ("s", pa.struct([("a", pa.int32())]))
    )
    after = fields(
        ("s", pa.struct([("b", pa.string()), ("a", pa.int64())])),
        ("i", pa.int64()),
        ("d", pa.decimal128(9, 2)),
        ("new", pa.list_(pa.int8())),
    )
    found = evolution("t", before, after)
    assert found.files == after
    assert [each.name for each in found.changed] == ["s", "i", "d", "new"]
    assert found.changed[0].type == pa.struct([("a", pa.int64()), ("b", pa.string())])
    assert len(found.widened) == 3
    with pytest.raises(LakeError, match="columns of this format cannot become wider"):
        new_columns("t", before, after)


def test_files_are_as_wide_as_the_table() -> None:
    before = fields(("i", pa.int64()), ("s", pa.struct([("a", pa.float64()), ("b", pa.string())])))
    found = new_columns("t", before, fields(("i", pa.int32()), ("s", pa.struct([("a", pa.float32())]))))
    assert found.files == fields(("i", pa.int64()), ("s", pa.struct([("a", pa.float64())])))
    assert found.changed == []


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.decimal128(9, 2), pa.timestamp("us")])
def test_a_type_that_is_no_wider_one_is_an_error(kind: Any) -> None:
    with pytest.raises(LakeError, match="i is int64 in the table"):
        evolution("t", fields(("i", pa.int64())), fields(("i", kind)))


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (pa.int8(), pa.int16()),
        (pa.int16(), pa.int32()),
        (pa.struct([("n", pa.int16())]), pa.struct([("n", pa.int64())])),
        (pa.map_(pa.string(), pa.int16()), pa.map_(pa.string(), pa.int32())),
    ],
)
def test_a_column_of_small_numbers_takes_no_larger_ones_unless_it_becomes_wider(small: Any, large: Any) -> None:
    with pytest.raises(LakeError, match="cannot become wider"):
        new_columns("t", fields(("x", small)), fields(("x", large)))
    found = new_columns("t", fields(("x", large)), fields(("x", small)))
    assert found.files == fields(("x", large))
    assert not found.changed


def test_numbers_of_a_map_with_small_keys_are_added_to_an_iceberg_table(tmp_path: Path) -> None:
    kind = pa.map_(pa.int16(), pa.int16())
    spec = TableSpec(str(tmp_path), "iceberg")
    for batch in range(2):
        table = open_table(spec)
        folder = table.staging("q", batch)
        Path(folder).mkdir(parents=True)
        schema = table.check(fields(("m", kind)))
        pq.write_table(pa.table({"m": pa.array([[(1, batch)]], schema.field("m").type)}), f"{folder}/0.parquet")
        assert table.commit("q", batch, folder, schema) == 1
    opened = Iceberg(spec)._open()
    assert opened is not None
    assert sorted(opened.scan().to_arrow().column("m").to_pylist()) == [[(1, 0)], [(1, 1)]]


def test_iceberg_columns_become_wider_in_the_commit_that_brings_the_rows(tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), "iceberg")
    narrow = fields(("number", pa.int32()), ("s", pa.struct([("a", pa.int32())])))
    wide = fields(("number", pa.int64()), ("s", pa.struct([("a", pa.int64()), ("b", pa.string())])))
    for batch, (schema, number) in enumerate([(narrow, 1), (wide, 1 << 40), (narrow, 3)]):
        table = open_table(spec)
        fitted = table.check(schema)
        folder = table.staging("query", batch)
        Path(folder).mkdir(parents=True)
        row = {"number": number, "s": {"a": number, "b": "x"}}
        pq.write_table(pa.Table.from_pylist([row], fitted), f"{folder}/part-0.parquet")
        assert table.commit("query", batch, folder, fitted) == 1
    assert content(spec) == [1, 3, 1 << 40]
    opened = Iceberg(spec)._open()
    assert opened is not None
    assert {row["s"]["b"] for row in opened.scan().to_arrow().to_pylist()} == {None, "x"}


def test_structs_of_a_delta_table_get_fields(tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), "delta")
    for batch, kind in enumerate([pa.struct([("a", pa.int64())]), pa.struct([("a", pa.int64()), ("b", pa.string())])]):
        table = open_table(spec)
        fitted = table.check(fields(("number", pa.int64()), ("s", kind)))
        folder = table.staging("query", batch)
        Path(folder).mkdir(parents=True)
        pq.write_table(
            pa.Table.from_pylist([{"number": batch, "s": {"a": 1, "b": "x"}}], fitted), f"{folder}/0.parquet"
        )
        assert table.commit("query", batch, folder, fitted) == 1
    assert content(spec) == [0, 1]


def test_delta_leaves_out_files_by_what_its_log_says_of_them(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    schema = fields(
        ("number", pa.int64()), ("text", pa.string()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32()),
        ("x", pa.float64()), ("none", pa.int64()),
    )  # fmt: skip
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, datetime.UTC)
    spec = TableSpec(str(tmp_path), "delta")
    table = open_table(spec)
    folder = table.staging("query", 0)
    Path(folder).mkdir(parents=True)
    rows = [
        {"number": 5, "text": "b" * 40, "at": at, "day": at.date(), "x": float("nan"), "none": None},
        {"number": 7, "text": "a", "at": None, "day": at.date(), "x": 1.0, "none": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema), f"{folder}/0.parquet")
    assert table.commit("query", 0, folder, schema) == 2
    added = pa.table(DeltaTable(spec.path).get_add_actions(flatten=True)).to_pylist()[0]
    assert (added["min.number"], added["max.number"]) == (5, 7)
    assert added["null_count.none"] == 2
    assert "max.text" not in added or added["max.text"] is None, "a prefix is no upper bound"
    assert "max.x" not in added or added["max.x"] is None, "NaN is larger than what the footer says"
    found = DeltaTable(spec.path)
    assert len(found.to_pyarrow_table(filters=[("at", "=", at)])) == 1
    assert len(found.to_pyarrow_table(filters=[("day", "=", at.date())])) == 2
    assert len(found.to_pyarrow_table(filters=[("number", ">", 7)])) == 0


@pytest.mark.parametrize("form", FORMATS)
def test_a_vacuum_deletes_what_no_version_needs_and_nothing_else(form: Any, tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path / "table"), form)
    table = open_table(spec)
    for batch in range(4):
        add(table, batch, batch)
    orphan = staged(table, "killed", 9, 99)
    table.compact(1 << 20)
    before = content(spec)
    assert open_table(spec).vacuum(0, dry=False).files == 0, "everything is younger"
    later = int(time.time() * 1000) + 1_000
    told = open_table(spec).vacuum(later, dry=True)
    assert told.files >= 1
    assert Path(orphan, "part-0.parquet").exists()
    assert open_table(spec).vacuum(later, dry=False).files >= told.files
    assert not Path(orphan, "part-0.parquet").exists()
    assert content(spec) == before == [0, 1, 2, 3]
    assert open_table(spec).last_batch("query") == 3
    add(open_table(spec), 4, 4)
    assert content(spec) == [0, 1, 2, 3, 4]
    left = [path for path in Path(spec.path).rglob("*.parquet") if "_delta_log" not in path.parts]
    assert len(left) == 2, "what was compacted, and the new one"
