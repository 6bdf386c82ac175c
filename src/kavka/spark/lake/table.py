"""What every lake table can do, whatever its format, and the words for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import pyarrow as pa

from kavka.spark.lake.upsert import Upsert

Format = Literal["delta", "iceberg", "parquet"]
FORMATS: Final = ("delta", "iceberg", "parquet")
ATTEMPTS: Final = 10
"""How often a commit is tried that others come before."""
_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATS: Final = (pa.float32(), pa.float64())


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
    upsert: Upsert | None = None
    """How rows are kept by key; without it they are added."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that Spark wrote: its path below the table's, its partition, its size."""

    path: str
    partition: Mapping[str, str | None]
    size_bytes: int
    rows: int
    statistics: Mapping[str, Any] = field(default_factory=dict)
    """What Delta's log says of a file's columns: `minValues`, `maxValues`, `nullCount`."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Numbers that a commit sets beside its rows, and what some must be in the version that it goes on from."""

    set: Mapping[str, int] = field(default_factory=dict)
    expected: Mapping[str, int | None] = field(default_factory=dict)

    def check(self, table: str, found: Mapping[str, int | None]) -> None:
        """Raise LakeError if somebody else has set what was expected to stay."""
        changed = sorted(name for name, value in self.expected.items() if found.get(name) != value)
        if changed:
            raise LakeError(
                f"table {table}: {changed[0]} was set to {found.get(changed[0])} meanwhile: another process runs the "
                "same flow. Stop one of them, and start the other again"
            )


NO_MARKS: Final = Marks()


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What a vacuum deleted, or would."""

    files: int
    bytes: int
    snapshots: int = 0


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

    def check(self, schema: Any) -> Any:
        """The schema that files with such rows must have to be part of the table; LakeError if there is none."""

    def staging(self, query: str, batch: int) -> str:
        """Where Spark is to write the files of a batch; a new place for each attempt."""

    def commit(self, query: str, batch: int, staged: str, schema: Any, marks: Marks = ...) -> int:
        """Make what is staged part of the table, new columns included; how many rows were added.

        A batch that the table has already is not added, whoever added it and whenever. Marks are set with the rows.
        """

    def discard(self, staged: str) -> None:
        """Delete what is staged and will not be committed."""

    def compact(self, target_bytes: int) -> Compacted:
        """Make few large files of many small ones; the rows stay the same."""

    def vacuum(self, older_than_ms: int, *, dry: bool) -> Vacuumed:
        """Delete what no version needs that is younger than this, and files that never became part of the table."""

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


@dataclass(frozen=True, slots=True)
class Evolution:
    """How a table changes for a batch."""

    files: Any
    """The schema of the batch's files: its columns, as wide as the table's."""
    changed: list[Any]
    """The table's columns that are new, or have new fields or wider types."""
    widened: list[str]
    """Which of them have wider types, in words."""


def evolution(table: str, before: Any, after: Any) -> Evolution:
    """What a batch's schema means for a table; LakeError for a type that neither becomes the other by widening."""
    known = {field.name: field for field in before}
    files, changed, widened, clash = [], [], [], []
    for each in after:
        if each.name not in known:
            files.append(each)
            changed.append(each.with_nullable(True))
            continue
        old = known[each.name].type
        both = union(old, each.type)
        if both is None:
            clash.append(f"{each.name} is {old} in the table and {each.type} in the batch")
            continue
        files.append(pa.field(each.name, narrowed(both, each.type), each.nullable))
        if not same_type(old, both):
            changed.append(pa.field(each.name, both, True))
        if not same_type(narrowed(both, old), old):
            widened.append(f"{each.name} from {old} to {both}")
    if clash:
        raise LakeError(
            f"table {table}: {'; '.join(clash)}. Columns can be added and become wider (int to bigint, float to "
            "double, more digits), no more: cast the column, write it under another name, or start a new table"
        )
    return Evolution(pa.schema(files), changed, widened)


def new_columns(table: str, before: Any, after: Any) -> Evolution:
    """The evolution of a table whose format cannot make columns wider."""
    found = evolution(table, before, after)
    if found.widened:
        raise LakeError(
            f"table {table}: {'; '.join(found.widened)}: columns of this format cannot become wider. Cast the column, "
            "write it under another name, or start a new table"
        )
    return found


def union(left: Any, right: Any) -> Any | None:
    """The type that holds the values of both without loss, the fields of structs together; None if there is none."""
    left, right = _plain(left), _plain(right)
    if left == right:
        return left
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        mine = {each.name: each.type for each in left}
        fields = []
        for each in [*left, *(each for each in right if each.name not in mine)]:
            both = each.type
            if each.name in mine and right.get_field_index(each.name) >= 0:
                both = union(mine[each.name], right.field(each.name).type)
            if both is None:
                return None
            fields.append(pa.field(each.name, both))
        return pa.struct(fields)
    if pa.types.is_list(left) and pa.types.is_list(right):
        both = union(left.value_type, right.value_type)
        return None if both is None else pa.list_(pa.field("element", both))
    if pa.types.is_map(left) and pa.types.is_map(right) and union(left.key_type, right.key_type) == left.key_type:
        both = union(left.item_type, right.item_type)
        return None if both is None else pa.map_(left.key_type, both)
    return _wider(left, right)


def _wider(left: Any, right: Any) -> Any | None:
    for kinds in (_INTEGERS, _FLOATS):
        if left in kinds and right in kinds:
            return kinds[max(kinds.index(left), kinds.index(right))]
    if pa.types.is_decimal(left) and pa.types.is_decimal(right) and left.scale == right.scale:
        return pa.decimal128(max(left.precision, right.precision), left.scale)
    return None


def narrowed(both: Any, given: Any) -> Any:
    """A union's type without the fields that one side does not have."""
    if pa.types.is_struct(both):
        return pa.struct([pa.field(each.name, narrowed(both.field(each.name).type, each.type)) for each in given])
    if pa.types.is_list(both):
        return pa.list_(pa.field("element", narrowed(both.value_type, given.value_type)))
    if pa.types.is_map(both):
        return pa.map_(both.key_type, narrowed(both.item_type, given.item_type))
    return both


def same_type(left: Any, right: Any) -> bool:
    """Whether two Arrow types hold the same values, whatever a format calls them."""
    return bool(_plain(left) == _plain(right))


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
        return pa.struct([pa.field(field.name, _plain(field.type)) for field in kind])
    return kind


def partition_of(path: str, names: Sequence[str]) -> dict[str, str | None]:
    """The partition that a path like `day=2026-01-01/part-0.parquet` names, as text."""
    from urllib.parse import unquote

    found = dict(part.partition("=")[::2] for part in path.split("/")[:-1] if "=" in part)
    return {name: None if found[name] == "__HIVE_DEFAULT_PARTITION__" else unquote(found[name]) for name in names}
