"""Iceberg tables by pyiceberg: a batch is one snapshot, and the table's properties say which batches it has.

The properties change in the same commit as the data, so they outlive the snapshots that maintenance expires.
"""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kavka.spark.lake.deletions import compact_deletions, not_deleted
from kavka.spark.lake.files import Files, bins
from kavka.spark.lake.history import FROM, key_of, of_keys, rewritten, together
from kavka.spark.lake.table import (
    ATTEMPTS,
    NO_MARKS,
    Compacted,
    DataFile,
    Freshness,
    LakeError,
    Marks,
    TableSpec,
    Vacuumed,
    evolution,
)
from kavka.spark.lake.upsert import Upsert, key_filter, replacement

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

BATCH: Final = "kavka.batch."
MARK: Final = "kavka.mark."
OWN_NAME: Final = "default.events"
"""The table's name in the catalog beside it, where there is no other."""


class Iceberg:
    """One Iceberg table."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._files = Files(spec.path)
        self._catalog_: Catalog | None = None
        if spec.catalog and not spec.name:
            raise LakeError(f"the Iceberg table at {spec.path} needs a name in its catalog: `name: NAMESPACE.TABLE`")
        self._name = spec.name or OWN_NAME

    def last_batch(self, query: str) -> int | None:
        """The last batch of a query that is in the table."""
        table = self._open()
        mark = None if table is None else table.properties.get(BATCH + query)
        return None if mark is None else int(mark)

    def marks(self, names: Iterable[str]) -> dict[str, int]:
        """The marks of these names that commits have set."""
        table = self._open()
        known = {} if table is None else table.properties
        return {name: int(known[MARK + name]) for name in names if MARK + name in known}

    def check(self, schema: Any) -> Any:
        """The schema that files with such rows must have to be part of the table; LakeError if there is none."""
        table = self._open()
        return schema if table is None else evolution(self._name, table.schema().as_arrow(), schema).files

    def staging(self, query: str, batch: int) -> str:
        """Where Spark is to write the files of a batch."""
        return self._files.uri(f"data/{batch}-{uuid.uuid4().hex[:12]}")

    def commit(self, query: str, batch: int, staged: str, schema: Any, marks: Marks = NO_MARKS) -> int:
        """Make what is staged part of the table, in one snapshot."""
        from pyiceberg.exceptions import CommitFailedException

        folder = staged.removeprefix(self._files.root).lstrip("/")
        written = self._files.data(folder, ())
        if not written and not marks.set:
            return 0
        failed: Exception | None = None
        for attempt in range(ATTEMPTS):
            table = self._open() or self._create(schema)
            last = table.properties.get(BATCH + query)
            if last is not None and int(last) >= batch:
                if failed is None:  # a commit that failed may have gone through, and the table have these files
                    self.discard(staged)
                return 0
            known = table.properties
            marks.check(self._name, {name: int(known[MARK + name]) for name in marks.expected if MARK + name in known})
            # The library would try again on a newer snapshot without a look at its marks.
            table.metadata.properties["commit.retry.num-retries"] = "0"
            try:
                self._write(table, written, schema, query, batch, marks)
            except CommitFailedException as error:
                failed = error
                time.sleep(random.uniform(0, 0.05 * (attempt + 1)))
            else:
                if self._spec.upsert is not None:
                    self.discard(staged)  # the rows are in other files by now
                return sum(file.rows for file in written)
        raise LakeError(f"Iceberg table {self._name} at {self._spec.path}: the commit failed: {failed}")

    def _write(
        self, table: Table, written: Sequence[DataFile], schema: Any, query: str, batch: int, marks: Marks
    ) -> None:
        """Commit to the snapshot that the table was opened at, and to no other."""
        changed = evolution(self._name, table.schema().as_arrow(), schema).changed
        rows = sum(file.rows for file in written)
        with table.transaction() as change:
            if changed:
                with change.update_schema() as update:
                    update.union_by_name(pa.schema(changed))
            named = {MARK + name: str(value) for name, value in marks.set.items()}
            change.set_properties({BATCH + query: str(batch), **named})
            told = {"kavka.query": query, "kavka.batch": str(batch), "kavka.rows": str(rows)}
            if written and self._spec.upsert is not None:
                self._merge(table, change, self._spec.upsert, written, told)
            elif written:
                change.add_files(
                    [self._files.uri(file.path) for file in written],
                    snapshot_properties=told,
                    check_duplicate_files=False,  # their names are new; the check reads every manifest
                )

    def _merge(
        self, table: Table, change: Any, upsert: Upsert, written: Sequence[DataFile], told: dict[str, str]
    ) -> None:
        """Let the staged rows take the place of those with the same keys, in the same commit as all the rest."""
        given = pa.concat_tables(
            [pq.read_table(self._files.at(file.path), filesystem=self._files.system) for file in written],
            promote_options="default",
        )
        keys = given.select(list(upsert.key))
        if upsert.history:
            there = table.scan(row_filter=key_filter(keys)).to_arrow()
            rows = of_keys(upsert, there, given)
            found = rewritten(upsert, rows, given.to_pylist())
            old = {(*key_of(upsert, row), row[FROM]) for row in (*found.rows, *found.gone)}
            kept = [row for row in rows if (*key_of(upsert, row), row[FROM]) not in old]
            if rows:
                change.delete(key_filter(keys), snapshot_properties=told)
            versions = pa.Table.from_pylist([*kept, *found.rows], together(there.schema, given.schema))
            change.append(versions, snapshot_properties=told)
            return
        given = not_deleted(self._files.root, upsert, given)
        keys, order = given.select(list(upsert.key)), [*upsert.key, upsert.order_by]
        existing = table.scan(row_filter=key_filter(keys), selected_fields=tuple(order)).to_arrow()
        known = pa.schema([given.schema.field(name) for name in order])
        won = replacement(upsert, existing.select(order).cast(known), given)
        if len(won.keys):
            change.delete(key_filter(won.keys), snapshot_properties=told)
        if len(won.rows):
            change.append(won.rows, snapshot_properties=told)

    def discard(self, staged: str) -> None:
        """Delete what is staged."""
        self._files.remove(staged.removeprefix(self._files.root).lstrip("/"))

    def compact(self, target_bytes: int) -> Compacted:
        """Make few large files of many small ones; one snapshot replaces the old files by the new.

        Batches may be added meanwhile. A group of files of which one is gone by then is left as it is.
        """
        from pyiceberg.exceptions import CommitFailedException

        table = self._table()
        if self._spec.upsert is not None:
            compact_deletions(self._files.root)
        old = {file.file_path: file for file in _data_files(table)}
        merged = self._merged(table, list(old.values()), target_bytes)
        failed: Exception | None = None
        for attempt in range(ATTEMPTS):
            if not merged:
                return Compacted(len(old), len(old))
            # The library would try again, and refuse whatever was added meanwhile.
            table.metadata.properties["commit.retry.num-retries"] = "0"
            try:
                self._replace(table, merged, old)
            except CommitFailedException as error:
                failed = error
                time.sleep(random.uniform(0, 0.05 * (attempt + 1)))
            else:
                return Compacted(len(old), len(old) - sum(map(len, merged.values())) + len(merged))
            table = self._table()
            old = {file.file_path: file for file in _data_files(table)}
            merged = {path: group for path, group in merged.items() if old.keys() >= set(group)}
        raise LakeError(f"Iceberg table {self._name} at {self._spec.path}: the commit failed: {failed}")

    def _merged(self, table: Table, files: Sequence[Any], target_bytes: int) -> dict[str, list[str]]:
        """Write large files, and say which small ones each of them is made of."""
        schema = _without_ids(table.schema().as_arrow())
        merged = {}
        for partition in sorted({str(file.partition) for file in files}):
            here = [(file.file_path, file.file_size_in_bytes) for file in files if str(file.partition) == partition]
            for group in bins(sorted(here), target_bytes):
                self._refuse_renamed(table, group)
                path = f"data/compact-{uuid.uuid4().hex[:12]}.parquet"
                self._files.merge([self._relative(each) for each in group], path, schema)
                merged[self._files.uri(path)] = group
        return merged

    def _replace(self, table: Table, merged: Mapping[str, list[str]], old: Mapping[str, Any]) -> None:
        """Put large files in the place of small ones, in the snapshot that the table was opened at, and no other."""
        from pyiceberg.io.pyarrow import parquet_files_to_data_files
        from pyiceberg.table import TableProperties

        with table.transaction() as change:
            if table.name_mapping() is None:  # rows that were merged have ids in their files, and these have none
                names = table.schema().name_mapping.model_dump_json()
                change.set_properties({TableProperties.DEFAULT_NAME_MAPPING: names})
            with change.update_snapshot().overwrite() as snapshot:
                for file in parquet_files_to_data_files(table.io, table.metadata, iter(merged)):
                    snapshot.append_data_file(file)
                for group in merged.values():
                    for path in group:
                        snapshot.delete_data_file(old[path])

    def _table(self) -> Table:
        """The table as it is now, if it can be compacted."""
        table = self._open()
        if table is None:
            raise LakeError(f"there is no Iceberg table {self._name} at {self._spec.path}")
        self._refuse_deletes(table)
        return table

    def _refuse_deletes(self, table: Table) -> None:
        """A file that is written anew would bring back the rows that other engines have deleted beside it."""
        if _deletes(table):
            raise LakeError(
                f"Iceberg table {self._name} at {self._spec.path} has delete files of another engine: compact it there "
                "first (in Spark: CALL system.rewrite_data_files), and then here"
            )

    def _refuse_renamed(self, table: Table, group: Sequence[str]) -> None:
        """Files are merged by the names of columns: one of before another engine changed these would lose values."""
        for path in group:
            schema = pq.read_schema(self._files.at(self._relative(path)), filesystem=self._files.system)
            if found := renamed(table, schema):
                raise LakeError(
                    f"Iceberg table {self._name} at {self._spec.path}: column {found} has another name now, or "
                    "its name is another column's: compact it with the engine that did that (in Spark: CALL "
                    "system.rewrite_data_files), and then here"
                )

    def vacuum(self, older_than_ms: int, *, dry: bool) -> Vacuumed:
        """Expire snapshots that are older, and delete files that no snapshot has and that are older, too."""
        table = self._open()
        if table is None:
            return Vacuumed(0, 0)
        current = table.current_snapshot()
        kept = {ref.snapshot_id for ref in table.refs().values()}
        old = [
            snapshot.snapshot_id
            for snapshot in table.snapshots()
            if snapshot.timestamp_ms < older_than_ms and snapshot != current and snapshot.snapshot_id not in kept
        ]
        if old and not dry:
            table.maintenance.expire_snapshots().by_ids(old).commit()
            table = table.refresh()
        used = self._used(table, set(old))
        found = [
            (path, size)
            for folder, suffix in (("data", ".parquet"), ("metadata", ".avro"), ("metadata", ".metadata.json"))
            for path, size in self._files.listed(folder, suffix, older_than_ms)
            if path not in used
        ]
        if not dry:
            for path, _ in found:
                self._files.remove(path)
        return Vacuumed(len(found), sum(size for _, size in found), len(old))

    def _used(self, table: Table, without: set[int]) -> set[str]:
        """The files, below the table's folder, that the other snapshots have, and the table's own."""
        paths = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
        seen: set[str] = set()
        for snapshot in table.snapshots():
            if snapshot.snapshot_id in without:
                continue
            paths.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                if manifest.manifest_path not in seen:
                    seen.add(manifest.manifest_path)
                    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                    paths.update(entry.data_file.file_path for entry in entries)
        root = _bare(self._files.root)
        return {_bare(path).removeprefix(root).lstrip("/") for path in paths | seen}

    def freshness(self) -> Freshness:
        """How much there is and how old it is; rows that delete files hide are counted."""
        table = self._open()
        if table is None:
            return Freshness(0, 0, 0, None, None)
        files = _data_files(table)
        times = [
            snapshot.timestamp_ms
            for snapshot in table.snapshots()
            if snapshot.summary and snapshot.summary["kavka.batch"]
        ]
        snapshot = table.current_snapshot()
        return Freshness(
            rows=sum(file.record_count for file in files),
            files=len(files),
            bytes=sum(file.file_size_in_bytes for file in files),
            last_commit_ms=max(times, default=None),
            version=None if snapshot is None else snapshot.sequence_number,
        )

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._files.root).lstrip("/")

    def _catalog(self) -> Catalog:
        if self._catalog_ is None:
            from pyiceberg.catalog import load_catalog

            properties = dict(self._spec.catalog)
            if not properties:
                self._files.system.create_dir(self._files.at(""), recursive=True)
                properties = {"type": "sql", "uri": f"sqlite:///{self._files.at('catalog.db')}"}
                properties["warehouse"] = self._files.uri("")
            self._catalog_ = load_catalog("kavka", **properties)
        return self._catalog_

    def _open(self) -> Table | None:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            table = self._catalog().load_table(self._name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        if _bare(table.location()) != _bare(self._files.root):
            raise LakeError(
                f"Iceberg table {self._name} is at {table.location()}, not at {self._spec.path}: two tables of one "
                "catalog need two names"
            )
        return table

    def _create(self, schema: Any) -> Table:
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
        from pyiceberg.transforms import IdentityTransform

        catalog = self._catalog()
        namespace = self._name.rpartition(".")[0]
        if namespace:
            try:
                catalog.create_namespace_if_not_exists(namespace)
            except Exception:  # each kind of catalog has its own for one that came into being meanwhile
                if not catalog.namespace_exists(namespace):
                    raise
        nullable = pa.schema([field.with_nullable(True) for field in schema])
        with contextlib.suppress(TableAlreadyExistsError, CommitFailedException):  # another one was faster
            change = catalog.create_table_transaction(self._name, nullable, location=self._files.uri(""))
            with change, change.update_spec() as update:
                for name in self._spec.partition_by:
                    update.add_field(name, IdentityTransform(), name)
        table = self._open()
        assert table is not None
        return table


def _bare(location: str) -> str:
    return location.removeprefix("file:").replace("///", "/", 1).rstrip("/")


def _deletes(table: Table) -> bool:
    from pyiceberg.manifest import ManifestContent

    snapshot = table.current_snapshot()
    manifests = () if snapshot is None else snapshot.manifests(table.io)
    return any(manifest.content == ManifestContent.DELETES and _live(manifest) for manifest in manifests)


def _live(manifest: Any) -> bool:
    counts = (manifest.added_files_count, manifest.existing_files_count)
    return None in counts or sum(counts) > 0


def _data_files(table: Table) -> list[Any]:
    from pyiceberg.manifest import ManifestContent

    snapshot = table.current_snapshot()
    return [
        entry.data_file
        for manifest in (() if snapshot is None else snapshot.manifests(table.io))
        if manifest.content == ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    ]


def renamed(table: Table, schema: Any) -> str | None:
    """The first column of a file that the table has under another name, by the ids of columns."""
    mapped = dict(_mapped(table.name_mapping() or ()))
    now = table.schema()
    names = set(now.column_names)
    for path, column in _columns(schema):
        told = (column.metadata or {}).get(b"PARQUET:field_id")
        id_ = mapped.get(path) if told is None else int(told)
        called = None if id_ is None else now.find_column_name(id_)
        if id_ is not None and called != path and (called is not None or path in names):
            return path
    return None


def _mapped(mapping: Iterable[Any], above: str = "") -> Iterator[tuple[str, int]]:
    """The ids that a table gives to columns of files without ids, by their paths."""
    for each in mapping:
        for name in each.names:
            if each.field_id is not None:
                yield above + name, each.field_id
            yield from _mapped(each.fields, f"{above}{name}.")


def _columns(fields: Iterable[Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Columns and what is in them, by their paths as Iceberg names them."""
    for column in fields:
        path, kind = above + column.name, column.type
        yield path, column
        if pa.types.is_struct(kind):
            yield from _columns(kind, f"{path}.")
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            yield from _columns([kind.value_field.with_name("element")], f"{path}.")
        elif pa.types.is_map(kind):
            yield from _columns([kind.key_field.with_name("key"), kind.item_field.with_name("value")], f"{path}.")


def _without_ids(schema: Any) -> Any:
    """The columns without the ids of fields: files that are added must not have them."""
    return pa.schema([_without_id(field) for field in schema])


def _without_id(column: Any) -> Any:
    kind = column.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_without_id(field) for field in kind])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = pa.list_(_without_id(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(_without_id(kind.key_field), _without_id(kind.item_field))
    return pa.field(column.name, kind, column.nullable)
