"""What Delta's log says of a file's columns, from the footer of the Parquet file: readers leave out files by it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any, Final

COLUMNS: Final = 32
"""Delta's own default (`delta.dataSkippingNumIndexedCols`)."""
TEXT: Final = 32
"""Delta's own default for how much of a text is kept."""


def statistics(footer: Any) -> dict[str, Any]:
    """`minValues`, `maxValues` and `nullCount` of the first columns; what is not known for sure is left out."""
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, chunks in _columns(footer):
        if all(chunk is not None and chunk.has_null_count for chunk in chunks):
            nulls[name] = sum(chunk.null_count for chunk in chunks)
        valued = [chunk for chunk in chunks if chunk is None or chunk.has_min_max or not _only_nulls(chunk)]
        if valued and all(chunk is not None and chunk.has_min_max for chunk in valued):
            low, high = _bounds(valued)
            if low is not None and high is not None:
                least[name], most[name] = low, high
    return {"minValues": least, "maxValues": most, "nullCount": nulls}


def _columns(footer: Any) -> Iterator[tuple[str, list[Any]]]:
    """The columns that are not nested, with the statistics of each row group."""
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    for index in range(min(footer.num_columns, COLUMNS)):
        column = footer.schema.column(index)
        if column.path == column.name:
            yield column.name, [group.column(index).statistics for group in groups]


def _only_nulls(chunk: Any) -> bool:
    return bool(chunk.has_null_count and chunk.num_values == 0)


def _bounds(chunks: list[Any]) -> tuple[Any, Any]:
    try:
        low, high = min(chunk.min for chunk in chunks), max(chunk.max for chunk in chunks)
        return _json(low, up=False), _json(high, up=True)
    except (OverflowError, ValueError):  # a time that Python cannot say
        return None, None


def _json(value: Any, *, up: bool) -> Any:
    """A bound as Delta writes it, None for one that cannot be said there."""
    match value:
        case bool() | bytes() | float():  # footers do not tell of NaN, which Spark takes for the largest number
            return None
        case int():
            return value
        case str():
            # A prefix is a lower bound, and never an upper one.
            return value if len(value) <= TEXT else None if up else value[:TEXT]
        case datetime.datetime():
            part = datetime.timedelta(microseconds=value.microsecond % 1000)
            whole = value - part + (datetime.timedelta(milliseconds=1) if up and part else datetime.timedelta())
            text = whole.replace(tzinfo=None).isoformat(timespec="milliseconds")
            return f"{text}Z" if value.tzinfo is not None else text
        case datetime.date():
            return value.isoformat()
    return None
