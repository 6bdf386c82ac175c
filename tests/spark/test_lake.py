"""Lake tables: many micro-batches, compaction, and readers that are not the writer."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.scale import rounds
from tests.spark.conftest import fill

from kavka.client.blocking import Client
from kavka.spark.lake import LakeError, TableSpec, open_table
from kavka.spark.lake.feed import add_batch, feed

BATCHES = rounds(100, 5)
FORMATS = ("delta", "iceberg", "parquet")
Sums = tuple[int, int]


def foreign(spec: TableSpec, *, column: str = "number") -> Sums:
    """Rows and sum, as DuckDB sees them."""
    import duckdb

    connection = duckdb.connect()
    for name in ("avro", "delta", "iceberg"):
        module = importlib.import_module(f"duckdb_extension_{name}")
        assert module.__file__ is not None
        folder = Path(module.__file__).parent / "extensions" / f"v{duckdb.__version__}"
        connection.execute(f"LOAD '{folder / f'{name}.duckdb_extension'}'")
    source = {
        "delta": f"delta_scan('{spec.path}')",
        "iceberg": f"iceberg_scan('{max(Path(spec.path).glob('metadata/*.metadata.json'), default='')}')",
        "parquet": f"read_parquet('{spec.path}/**/*.parquet', union_by_name=true)",
    }[spec.format]
    found = connection.execute(f"SELECT count(*), coalesce(sum({column}), 0) FROM {source}").fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("form", FORMATS)
def test_another_reader_sees_the_same_rows_before_and_after_compaction(
    form: Any, client: Client, topic: Callable[..., str], stream: Callable[..., Any], tmp_path: Path
) -> None:
    name = topic()
    count = BATCHES * 20
    fill(client, name, count)
    spec = TableSpec(str(tmp_path / "table"), form, ("parity",))
    query = (
        stream(name, maxOffsetsPerTrigger=20)
        .selectExpr("cast(cast(value as string) as bigint) as number", "timestamp", "offset % 2 as parity")
        .writeStream.foreachBatch(feed(spec))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    expected = (count, sum(range(count)))
    assert foreign(spec) == expected
    table = open_table(spec)
    before = table.freshness()
    assert before.rows == count
    assert before.last_commit_ms is not None
    done = table.compact(64 << 20)
    assert (done.files_before, done.files_after) == (before.files, 2)
    assert before.files >= 2 * BATCHES
    assert foreign(spec) == expected
    assert table.freshness().rows == count
    assert table.compact(64 << 20).files_after == 2


@pytest.mark.parametrize("form", FORMATS)
def test_a_batch_that_comes_again_is_not_added_again(form: Any, spark: Any, tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), form)
    for batch in (0, 1):
        frame = spark.range(10).selectExpr(f"id + {10 * batch} as number")
        assert add_batch(spec, "query", frame, batch) == 10
        assert add_batch(spec, "query", frame, batch) == 0
    assert add_batch(spec, "another", spark.range(5).selectExpr("id as number"), 0) == 5
    assert open_table(spec).last_batch("query") == 1
    assert foreign(spec) == (25, sum(range(20)) + sum(range(5)))


@pytest.mark.parametrize("form", FORMATS)
def test_columns_can_be_added_but_not_change_their_type(form: Any, spark: Any, tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), form)
    add_batch(spec, "query", spark.range(10).selectExpr("id as number"), 0)
    add_batch(spec, "query", spark.range(10).selectExpr("id as number", "id * 2 as twice"), 1)
    add_batch(spec, "query", spark.range(10).selectExpr("id as number"), 2)
    assert foreign(spec) == (30, 3 * sum(range(10)))
    assert foreign(spec, column="twice") == (30, 2 * sum(range(10)))
    with pytest.raises(LakeError, match="number is int64 in the table and string in the batch"):
        add_batch(spec, "query", spark.range(1).selectExpr("cast(id as string) as number"), 3)
    assert foreign(spec)[0] == 30


def test_a_parquet_compaction_leaves_unfinished_batches_alone_and_finishes_one_that_was_killed(
    spark: Any, tmp_path: Path
) -> None:
    spec = TableSpec(str(tmp_path), "parquet")
    for batch in range(3):
        add_batch(spec, "query", spark.range(10).selectExpr("id as number"), batch)
    (tmp_path / "_kavka" / "query" / f"{2:012}.json").unlink()  # as if killed before the batch was all there
    table = open_table(spec)
    table.compact(64 << 20)
    assert add_batch(spec, "query", spark.range(10).selectExpr("id as number"), 2) == 10
    assert foreign(spec) == (30, 3 * sum(range(10)))
    (old,) = tmp_path.glob("compact-*.parquet")
    leftover = tmp_path / "left.parquet"
    shutil.copy(old, leftover)  # as if killed before what was replaced was deleted
    (tmp_path / "_replaced").mkdir(exist_ok=True)
    record = {"target": old.name, "replaces": [leftover.name]}
    (tmp_path / "_replaced" / "x.json").write_text(json.dumps(record))
    table.compact(64 << 20)
    assert foreign(spec) == (30, 3 * sum(range(10)))


def test_a_table_without_the_column_it_is_partitioned_by_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="partitioned by day, which the batch does not have"):
        add_batch(TableSpec(str(tmp_path), "delta", ("day",)), "query", spark.range(1), 0)


def test_a_column_named_like_the_copy_that_iceberg_is_partitioned_by_is_kept(spark: Any, tmp_path: Path) -> None:
    spec = TableSpec(str(tmp_path), "iceberg", ("day",))
    frame = spark.range(10).selectExpr("id as number", "id % 2 as day", "id * 3 as by_day")
    assert add_batch(spec, "query", frame, 0) == 10
    assert foreign(spec) == (10, sum(range(10)))
    assert foreign(spec, column="by_day") == (10, 3 * sum(range(10)))
