"""What every lake table can do, whatever its format, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import pyarrow as pa

Format = Literal["delta", "iceberg", "parquet"]
FORMATS: Final = ("delta", "iceberg", "parquet")
ATTEMPTS: Final = 10
"""How often a commit is tried that others come before."""


class LakeError(RuntimeError):
    """A table that cannot take what it was given; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """Which table: its format, where it is, and how it is partitioned."""

    path: str
    format: Format = "delta"
    partition_by: tuple[str, ...] = ()
    name: str = ""
    """Iceberg's name of the table; one is needed where a catalog is named, which others may use too."""
    catalog: Mapping[str, str] = field(default_factory=dict)
    """Iceberg's catalog; without one, a SQLite file beside the table."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that Spark wrote: its path below the table's, its partition, its size."""

    path: str
    partition: Mapping[str, str | None]
    size_bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    files_before: int
    files_after: int


@dataclass(frozen=True, slots=True)
class Freshness:
    """How much a table holds and when it was last added to (milliseconds since 1970, None: never)."""

    rows: int
    files: int
    bytes: int
    last_commit_ms: int | None
    version: int | None


class LakeTable(Protocol):
    """A table that batches are added to."""

    def last_batch(self, query: str) -> int | None:
        """The last batch of a query that is in the table."""

    def marks(self, names: Iterable[str]) -> dict[str, int]:
        """The marks of these names that commits have set."""

    def check(self, schema: Any) -> None:
        """Raise LakeError if the table cannot take rows of this schema."""

    def staging(self, query: str, batch: int) -> str:
        """Where Spark is to write the files of a batch; a new place for each attempt."""

    def commit(self, query: str, batch: int, staged: str, schema: Any, marks: Mapping[str, int] = ...) -> int:
        """Make what is staged part of the table, new columns included; how many rows were added.

        A batch that the table has already is not added, whoever added it and whenever. Marks are set with the rows.
        """

    def discard(self, staged: str) -> None:
        """Delete what is staged and will not be committed."""

    def compact(self, target_bytes: int) -> Compacted:
        """Make few large files of many small ones; the rows stay the same."""

    def freshness(self) -> Freshness:
        """How much there is and how old it is."""


def open_table(spec: TableSpec) -> LakeTable:
    """The table; it is created when the first batch is committed."""
    match spec.format:
        case "delta":
            from kavka.spark.lake.delta import Delta

            return Delta(spec)
        case "iceberg":
            from kavka.spark.lake.iceberg import Iceberg

            return Iceberg(spec)
        case "parquet":
            from kavka.spark.lake.parquet import Parquet

            return Parquet(spec)
    raise LakeError(f"a table's format is one of {', '.join(FORMATS)}, not {spec.format!r}")


def new_columns(table: str, before: Any, after: Any) -> list[Any]:
    """The columns that a batch adds; a column that changed its type is an error, one that is missing is null."""
    known = {each.name: each for each in before}
    clash = [
        f"{each.name} is {known[each.name].type} in the table and {each.type} in the batch"
        for each in after
        if each.name in known and not same_type(known[each.name].type, each.type)
    ]
    if clash:
        raise LakeError(
            f"table {table}: {'; '.join(clash)}. Columns can be added but not change their type: "
            "cast the column, write it under another name, or start a new table"
        )
    return [each.with_nullable(True) for each in after if each.name not in known]


def same_type(one: Any, other: Any) -> bool:
    """Whether two Arrow types hold the same values, whatever a format calls them."""
    return bool(_plain(one) == _plain(other))


def _plain(kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", _plain(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _plain(each.type)) for each in kind])
    if pa.types.is_int8(kind) or pa.types.is_int16(kind):
        return pa.int32()  # Iceberg has no smaller one
    return kind


def partition_of(path: str, names: Sequence[str]) -> dict[str, str | None]:
    """The partition that a path like `day=2026-01-01/part-0.parquet` names, as text."""
    from urllib.parse import unquote

    found = dict(part.partition("=")[::2] for part in path.split("/")[:-1] if "=" in part)
    return {name: None if found[name] == "__HIVE_DEFAULT_PARTITION__" else unquote(found[name]) for name in names}
