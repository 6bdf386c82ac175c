"""Iceberg tables by pyiceberg: a batch is one snapshot, and the table's properties say which batches it has.

The properties change in the same commit as the data, so they outlive the snapshots that maintenance expires.
"""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kavka.spark.lake.files import Files, bins
from kavka.spark.lake.table import ATTEMPTS, Compacted, DataFile, Freshness, LakeError, TableSpec, new_columns

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

    def check(self, schema: Any) -> None:
        """Raise LakeError if the table cannot take rows of this schema."""
        table = self._open()
        if table is not None:
            new_columns(self._name, table.schema().as_arrow(), schema)

    def staging(self, query: str, batch: int) -> str:
        """Where Spark is to write the files of a batch."""
        return self._files.uri(f"data/{batch}-{uuid.uuid4().hex[:12]}")

    def commit(
        self, query: str, batch: int, staged: str, schema: Any, marks: Mapping[str, int] = MappingProxyType({})
    ) -> int:
        """Make what is staged part of the table, in one snapshot."""
        from pyiceberg.exceptions import CommitFailedException

        folder = staged.removeprefix(self._files.root).lstrip("/")
        written = self._files.data(folder, ())
        if not written and not marks:
            return 0
        failed: Exception | None = None
        for attempt in range(ATTEMPTS):
            table = self._open() or self._create(schema)
            last = table.properties.get(BATCH + query)
            if last is not None and int(last) >= batch:
                if failed is None:  # a commit that failed may have gone through, and the table have these files
                    self.discard(staged)
                return 0
            # The library would try again on a newer snapshot without a look at its marks.
            table.metadata.properties["commit.retry.num-retries"] = "0"
            try:
                self._write(table, written, schema, query, batch, marks)
            except CommitFailedException as error:
                failed = error
                time.sleep(random.uniform(0, 0.05 * (attempt + 1)))
            else:
                return sum(each.rows for each in written)
        raise LakeError(f"Iceberg table {self._name} at {self._spec.path}: the commit failed: {failed}")

    def _write(
        self, table: Table, written: Sequence[DataFile], schema: Any, query: str, batch: int, marks: Mapping[str, int]
    ) -> None:
        """Commit to the snapshot that the table was opened at, and to no other."""
        before = table.schema().as_arrow()
        added = new_columns(self._name, before, schema)
        rows = sum(each.rows for each in written)
        with table.transaction() as change:
            if added:
                with change.update_schema() as update:
                    update.union_by_name(pa.schema([*before, *added]))
            named = {MARK + name: str(value) for name, value in marks.items()}
            change.set_properties({BATCH + query: str(batch), **named})
            if written:
                change.add_files(
                    [self._files.uri(each.path) for each in written],
                    snapshot_properties={"kavka.query": query, "kavka.batch": str(batch), "kavka.rows": str(rows)},
                    check_duplicate_files=False,  # their names are new; the check reads every manifest
                )

    def discard(self, staged: str) -> None:
        """Delete what is staged."""
        self._files.remove(staged.removeprefix(self._files.root).lstrip("/"))

    def compact(self, target_bytes: int) -> Compacted:
        """Make few large files of many small ones; one snapshot replaces the old files by the new."""
        from pyiceberg.io.pyarrow import parquet_files_to_data_files

        table = self._open()
        if table is None:
            raise LakeError(f"there is no Iceberg table {self._name} at {self._spec.path}")
        self._refuse_deletes(table)
        old = [task.file for task in table.scan().plan_files()]
        by_path = {each.file_path: each for each in old}
        schema = table.schema().as_arrow()
        groups = [
            group
            for partition in {str(each.partition) for each in old}
            for group in bins(
                sorted((each.file_path, each.file_size_in_bytes) for each in old if str(each.partition) == partition),
                target_bytes,
            )
        ]
        if not groups:
            return Compacted(len(old), len(old))
        merged = []
        for group in groups:
            path = f"data/compact-{uuid.uuid4().hex[:12]}.parquet"
            self._files.merge([self._relative(each) for each in group], path, _without_ids(schema))
            merged.append(self._files.uri(path))
        with table.transaction() as change, change.update_snapshot().overwrite() as snapshot:
            for each in parquet_files_to_data_files(table.io, table.metadata, iter(merged)):
                snapshot.append_data_file(each)
            for group in groups:
                for path in group:
                    snapshot.delete_data_file(by_path[path])
        return Compacted(len(old), len(old) - sum(map(len, groups)) + len(groups))

    def _refuse_deletes(self, table: Table) -> None:
        """A file that is written anew would bring back the rows that other engines have deleted beside it."""
        if _deletes(table):
            raise LakeError(
                f"Iceberg table {self._name} at {self._spec.path} has delete files of another engine: compact it there "
                "first (in Spark: CALL system.rewrite_data_files), and then here"
            )

    def freshness(self) -> Freshness:
        """How much there is and how old it is; rows that delete files hide are counted."""
        table = self._open()
        if table is None:
            return Freshness(0, 0, 0, None, None)
        files = _data_files(table)
        times = [each.timestamp_ms for each in table.snapshots() if each.summary and each.summary["kavka.batch"]]
        snapshot = table.current_snapshot()
        return Freshness(
            rows=sum(each.record_count for each in files),
            files=len(files),
            bytes=sum(each.file_size_in_bytes for each in files),
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
        nullable = pa.schema([each.with_nullable(True) for each in schema])
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
    return any(each.content == ManifestContent.DELETES and _live(each) for each in manifests)


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


def _without_ids(schema: Any) -> Any:
    """The columns without the ids of fields: files that are added must not have them."""
    return pa.schema([_without_id(each) for each in schema])


def _without_id(column: Any) -> Any:
    kind = column.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_without_id(each) for each in kind])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = pa.list_(_without_id(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(_without_id(kind.key_field), _without_id(kind.item_field))
    return pa.field(column.name, kind, column.nullable)
