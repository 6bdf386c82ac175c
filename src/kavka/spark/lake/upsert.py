"""Rows by key: the latest of each key is the table's row, a deleted one is none.

A batch is first made one row for each key, the latest; then each of them meets the row that the table has. What comes
late, by the column that orders, changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELETED: Final = "_deleted"
"""The column that says of a row that its key is gone; no column of a table."""
OFFSET: Final = "_offset"
_KNOWN: Final = "_kavka_known"
_THERE: Final = "_kavka_there"
_ROW: Final = "_kavka_row"


@dataclass(frozen=True, slots=True)
class Upsert:
    """How the rows of a table are kept by key."""

    key: tuple[str, ...]
    order_by: str = OFFSET
    history: bool = False
    """Whether every version of a row is kept, with from when to when it holds."""

    def problem(self, columns: Sequence[str]) -> str | None:
        """Why rows of these columns cannot be merged."""
        missing = [name for name in (*self.key, self.order_by) if name not in columns]
        if missing:
            return f"rows are merged by {', '.join(missing)}, which the batch does not have"
        return None


def with_keys(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """A batch whose query fails if one of these columns is null."""
    from pyspark.sql import functions as f

    for name in names:
        null = f.raise_error(f.lit(f"column {name} is null in a row that is to be merged by it"))
        checked = f.when(f.col(name).isNull(), null.cast(frame.schema[name].dataType)).otherwise(f.col(name))
        frame = frame.withColumn(name, checked)
    return frame


def latest(frame: DataFrame, upsert: Upsert) -> DataFrame:
    """One row for each key of a batch, the last by order.

    A key that is null fails the query, and a deletion without a place in the order, which would delete nothing.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    frame = with_keys(frame, upsert.key)
    if DELETED in frame.columns:
        lost = f.raise_error(f.lit(f"column {upsert.order_by} is null in a row that deletes: order by another column"))
        bad = f.col(DELETED) & f.col(upsert.order_by).isNull()
        frame = frame.withColumn(DELETED, f.when(bad, lost.cast("boolean")).otherwise(f.col(DELETED)))
    order = [f.col(upsert.order_by).desc_nulls_last()]
    if OFFSET in frame.columns and upsert.order_by != OFFSET:
        order.append(f.col(OFFSET).desc_nulls_last())
    window = Window.partitionBy(*upsert.key).orderBy(*order)
    return frame.withColumn(_ROW, f.row_number().over(window)).where(f.col(_ROW) == 1).drop(_ROW)


def delta_clauses(upsert: Upsert, columns: Sequence[str], *, deletes: bool) -> tuple[str, str, str, Mapping[str, str]]:
    """For a Delta merge of `source` into `target`: what matches, what is newer, what is gone, and what is set."""
    matches = " AND ".join(f"target.`{name}` = source.`{name}`" for name in upsert.key)
    order = f"`{upsert.order_by}`"
    newer = f"(target.{order} IS NULL OR source.{order} >= target.{order})"
    gone = f"coalesce(source.`{DELETED}`, false)" if deletes else "false"
    return matches, newer, gone, {f"`{name}`": f"source.`{name}`" for name in columns}


@dataclass(frozen=True, slots=True)
class Replacement:
    """What a batch makes of a table: the keys whose rows go, and the rows that come."""

    keys: Any
    rows: Any


def replacement(upsert: Upsert, existing: Any, batch: Any) -> Replacement:
    """What a batch with one row for each key changes, by the keys and orders of the rows that the table has of them."""
    won = _not_older(upsert, existing, batch)
    rows = batch.take(pc.unique(won.column(_ROW)))  # a table of before its upserts may have several rows of a key
    if DELETED in rows.column_names:
        rows = rows.filter(pc.invert(pc.fill_null(rows.column(DELETED), False))).drop_columns([DELETED])
    return Replacement(won.filter(pc.fill_null(won.column(_THERE), False)).select(list(upsert.key)), rows)


def not_older(upsert: Upsert, known: Any, batch: Any) -> Any:
    """The rows of a batch that do not come before what is known of their keys."""
    return batch.take(_not_older(upsert, known, batch).column(_ROW))


def _not_older(upsert: Upsert, known: Any, batch: Any) -> Any:
    keys, order = list(upsert.key), upsert.order_by
    known = known.select([*keys, order]).rename_columns([*keys, _KNOWN])
    known = known.append_column(_THERE, pc.is_valid(known.column(keys[0])))
    # Rows are joined by their numbers: a join takes no columns of structs, lists or maps.
    numbered = batch.select([*keys, order]).append_column(_ROW, pa.array(range(len(batch)), pa.int64()))
    both = numbered.join(known, keys, join_type="left outer")
    given, there = both.column(order), both.column(_KNOWN)
    return both.filter(pc.fill_null(pc.or_kleene(pc.is_null(there), pc.greater_equal(given, there)), False))


def first_key_filter(upsert: Upsert, batch: Any) -> Any:
    """For a dataset of Delta's files: the rows that may have keys of a batch, by the first column of the key."""
    column, values = pc.field(upsert.key[0]), pc.unique(batch.column(upsert.key[0]))
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
        # No file is left out by its bounds. Those that delta-rs has merged say that their texts are views, which Arrow
        # compares with nothing, and know fewer digits of large decimals than these have.
        column = column.cast(kind)
    return column.isin(values)


def key_filter(keys: Any) -> Any:
    """Iceberg's expression for the rows of some keys."""
    from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, EqualTo, In, Or

    names = keys.column_names
    if len(names) == 1:
        return In(term=names[0], values=keys.column(0).to_pylist())
    rows: list[BooleanExpression] = [
        And(*(EqualTo(term=name, value=row[name]) for name in names)) for row in keys.to_pylist()
    ]
    while len(rows) > 1:  # a tree, not a chain: these are visited recursively
        rows = [Or(*rows[at : at + 2]) if at + 1 < len(rows) else rows[at] for at in range(0, len(rows), 2)]
    return rows[0] if rows else AlwaysFalse()
