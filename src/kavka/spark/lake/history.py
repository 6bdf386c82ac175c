"""Every version of a row by key (slowly changing dimensions, type 2): from when to when it holds, and whether it does.

A batch brings changes of some keys, in any order. What the table has of these keys is a line in time: each version
begins at its own place in the order and ends at that of the next change, which may be a deletion. The changes take
their places in that line, and the versions that are new or end elsewhere are written. A deletion that ends no version
is a version that never holds: it ends where it begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kavka.spark.lake.table import union
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
        versions = _versions(upsert, key, _line(upsert, before, given))
        made.rows.extend(row for place, row in versions.items() if not _same(row, before.get(place, _GONE)))
        made.gone.extend(row for place, row in before.items() if place not in versions)
    return made


def _same(row: Row, known: Mapping[str, Any]) -> bool:
    return all(row.get(name) == known.get(name) for name in row.keys() | known.keys())


def _versions(upsert: Upsert, key: Key, line: Mapping[Any, Mapping[str, Any]]) -> dict[Any, Row]:
    """The rows that tell of a line, by where they begin."""
    found: dict[Any, Row] = {}
    places = sorted(line)
    held = False
    for place, after in zip(places, [*places[1:], None], strict=True):
        content = line[place]
        if content is not _GONE:
            found[place] = {**content, FROM: place, TO: after, CURRENT: after is None}
            found[place].pop(DELETED, None)
        elif not held:
            named = dict(zip(upsert.key, key, strict=True))
            found[place] = {**named, upsert.order_by: place, FROM: place, TO: place, CURRENT: False}
        held = content is not _GONE
    return found


def _line(upsert: Upsert, before: Mapping[Any, Row], given: list[Row]) -> dict[Any, Mapping[str, Any]]:
    """What happened to a key, by its place in the order; of two at one place the later one counts."""
    line: dict[Any, Mapping[str, Any]] = {at: row if row[TO] != at else _GONE for at, row in before.items()}
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
    """The columns of both, as wide as the wider, with the fields of both; without the one that tells of deletions."""
    given = {field.name: field for field in batch if field.name != DELETED}
    known = [field.with_type(_both(field.type, given.pop(field.name, field).type)) for field in table]
    return pa.schema([*known, *given.values()])


def _both(table: Any, batch: Any) -> Any:
    """The type of a column that a table and a batch have."""
    if table == batch:
        return table
    both = union(table, batch)
    assert both is not None, "the batch was checked"
    return both
