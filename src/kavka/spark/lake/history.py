"""Every version of a row by key (slowly changing dimensions, type 2): from when to when it holds, and whether it does.

A batch brings changes of some keys, in any order. What the table has of these keys is a line in time: each version
begins at its own place in the order and ends at that of the next change, which may be a deletion. The changes take
their places in that line, and the versions that are new or end elsewhere are written. A deletion that ends no version
is told by none, and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kavka.spark.lake.upsert import DELETED, OFFSET, Upsert, with_keys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FROM: Final = "_valid_from"
TO: Final = "_valid_to"
CURRENT: Final = "_current"
_GONE: Final[Mapping[str, Any]] = {}

Row = dict[str, Any]
Key = tuple[Any, ...]


def dated(frame: DataFrame, upsert: Upsert) -> DataFrame:
    """A batch with the columns that tell when a row holds; a key or an order that is null fails the query."""
    from pyspark.sql import functions as f

    frame = with_keys(frame, (*upsert.key, upsert.order_by))
    order = f.col(upsert.order_by)
    ends = f.lit(None).cast(frame.schema[upsert.order_by].dataType)
    return frame.withColumn(FROM, order).withColumn(TO, ends).withColumn(CURRENT, f.lit(True))


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What a batch changes: versions that are new or end elsewhere, and those whose place a deletion has taken."""

    rows: list[Row]
    gone: list[Row]


def rewritten(upsert: Upsert, existing: Iterable[Row], batch: Iterable[Row]) -> Rewritten:
    """The versions of the keys of a batch, by all that the table has of those keys."""
    known: dict[Key, dict[Any, Row]] = {}
    for row in existing:
        known.setdefault(key_of(upsert, row), {})[row[FROM]] = row
    changes: dict[Key, list[Row]] = {}
    for row in batch:
        changes.setdefault(key_of(upsert, row), []).append(row)
    made = Rewritten([], [])
    for key, given in changes.items():
        before = known.get(key, {})
        line = _line(upsert, before, given)
        places = sorted(line)
        for place, after in zip(places, [*places[1:], None], strict=True):
            content = line[place]
            if content is _GONE:
                if place in before:
                    made.gone.append(before[place])
                continue
            version = {**content, FROM: place, TO: after, CURRENT: after is None}
            version.pop(DELETED, None)
            if before.get(place) != version:
                made.rows.append(version)
    return made


def _line(upsert: Upsert, before: Mapping[Any, Row], given: list[Row]) -> dict[Any, Mapping[str, Any]]:
    """What happened to a key, by its place in the order; of two at one place the later one counts."""
    line: dict[Any, Mapping[str, Any]] = dict(before)
    for row in before.values():
        if row[TO] is not None:
            line.setdefault(row[TO], _GONE)
    for row in sorted(given, key=lambda row: (row[upsert.order_by], row.get(OFFSET) or 0)):
        line[row[upsert.order_by]] = _GONE if row.get(DELETED) else row
    return line


def key_of(upsert: Upsert, row: Row) -> Key:
    """The values by which rows are the same."""
    return tuple(row[name] for name in upsert.key)


def of_keys(upsert: Upsert, rows: Any, batch: Any) -> list[Row]:
    """The rows of a table that have keys of a batch."""
    wanted = set(zip(*(batch.column(name).to_pylist() for name in upsert.key), strict=True))
    return [row for row in rows.to_pylist() if key_of(upsert, row) in wanted]


def together(table: Any, batch: Any) -> Any:
    """The columns of a table and those that a batch adds, without the one that tells of deletions."""
    names = set(table.names)
    return pa.schema([*table, *(field for field in batch if field.name not in names and field.name != DELETED)])
