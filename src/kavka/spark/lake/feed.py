"""Keeping a table fed: the function that Structured Streaming calls with each micro-batch, and the backfill's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kavka.spark.advice import FULL, is_full_disk
from kavka.spark.lake.history import dated
from kavka.spark.lake.ranges import Origin, check_added, stream_marks, topic_marks
from kavka.spark.lake.table import NO_MARKS, LakeError, LakeTable, Marks, TableSpec, open_table, same_type
from kavka.spark.lake.upsert import DELETED, OFFSET, latest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Marking = Callable[[LakeTable], Marks]


def feed(spec: TableSpec, origin: Origin | None = None) -> Callable[[Any, int], None]:
    """What `foreachBatch` is given: adds each micro-batch to a table once, however often it is called with it.

    The query's id is that of its checkpoint: it stays the same over restarts, and a new checkpoint has a new one. With
    an origin, the table remembers where the stream began and how far it is.
    """

    def add(frame: DataFrame, batch: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query is None:
            raise LakeError("a table is fed by a streaming query: its micro-batch has no query id")
        if origin is None:
            add_batch(spec, query, frame, batch)
            return
        check_added(open_table(spec), origin, query, batch)
        add_batch(spec, query, frame, batch, lambda table: _marks(spec, table, origin, batch))

    return add


def _marks(spec: TableSpec, table: LakeTable, origin: Origin, batch: int) -> Marks:
    marks = stream_marks(table, origin, batch)
    if spec.upsert is None or spec.upsert.order_by != OFFSET:
        return marks
    topics = topic_marks(table, origin.flow, origin.offsets(batch).ids)
    return Marks({**marks.set, **topics}, marks.expected)


def add_batch(spec: TableSpec, query: str, frame: DataFrame, batch: int, marks: Marking = lambda _: NO_MARKS) -> int:
    """Add a micro-batch and its marks, unless it is in the table already; how many rows were added."""
    from pyspark.sql.pandas.types import to_arrow_schema

    table = open_table(spec)
    last = table.last_batch(query)
    if last is not None and last >= batch:
        return 0
    marked = marks(table)
    missing = [name for name in spec.partition_by if name not in frame.columns]
    if missing:
        raise LakeError(f"table {spec.path} is partitioned by {', '.join(missing)}, which the batch does not have")
    if spec.upsert is not None:
        problem = spec.upsert.problem(frame.columns)
        if problem is not None:
            raise LakeError(f"table {spec.path}: {problem}")
        frame = dated(frame, spec.upsert) if spec.upsert.history else latest(frame, spec.upsert)
    kept = frame if spec.upsert is None else frame.drop(DELETED)
    schema = to_arrow_schema(kept.schema, timezone="UTC")
    fitted = table.check(schema)
    frame = _cast(frame, schema, fitted)
    # Spark's default, INT96, is a timestamp that Iceberg refuses and nobody has statistics for.
    frame.sparkSession.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    staged = table.staging(query, batch)
    partition_by = [] if spec.upsert is not None else list(spec.partition_by)
    if spec.upsert is None and spec.format == "iceberg":
        # Spark leaves what it partitions by out of its files, and Iceberg wants it in: so twins are left out.
        partition_by = twins(frame.columns, spec.partition_by)
        for name, twin in zip(spec.partition_by, partition_by, strict=True):
            frame = frame.withColumn(twin, frame[name])
    writer = frame.write.mode("error")
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    try:
        writer.parquet(staged)
        return table.commit(query, batch, staged, fitted, marked)
    except Exception as error:
        if not is_full_disk(error):
            raise
        if table.last_batch(query) != batch:
            table.discard(staged)  # it would only take more of what there is too little of
        raise LakeError(f"table {spec.path}: no space is left for batch {batch}: {FULL}") from error


def _cast(frame: DataFrame, schema: Any, fitted: Any) -> DataFrame:
    """The frame with the types that the table has, where those are wider."""
    from pyspark.sql.pandas.types import from_arrow_type

    for before, after in zip(schema, fitted, strict=True):
        if not same_type(before.type, after.type):
            frame = frame.withColumn(before.name, frame[before.name].cast(from_arrow_type(after.type)))
    return frame


def twins(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Names for copies of some columns that no column has, in whatever case."""
    taken = {column.lower() for column in columns}
    found = []
    for name in names:
        twin = f"by_{name}"
        while twin.lower() in taken:
            twin = f"by_{twin}"
        taken.add(twin.lower())
        found.append(twin)
    return found
