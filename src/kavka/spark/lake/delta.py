"""Delta tables by delta-rs: a batch is one commit with Delta's own mark of who wrote it (the `txn` action)."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow.dataset import dataset

from kavka.spark.lake.deletions import compact_deletions, not_deleted
from kavka.spark.lake.files import Files
from kavka.spark.lake.history import FROM, of_keys, rewritten, together
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
    new_columns,
)
from kavka.spark.lake.upsert import DELETED, OFFSET, Upsert, delta_clauses, first_key_filter

DATA: Final = "data"


class Delta:
    """One Delta table."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._files = Files(spec.path)

    def last_batch(self, query: str) -> int | None:
        """The last batch of a query that is in the table."""
        table = self._open()
        return None if table is None else table.transaction_version(query)

    def marks(self, names: Iterable[str]) -> dict[str, int]:
        """The marks of these names that commits have set."""
        table = self._open()
        found = {} if table is None else {name: table.transaction_version(name) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def check(self, schema: Any) -> Any:
        """The schema that files with such rows must have to be part of the table; LakeError if there is none."""
        table = self._open()
        if table is None:
            return schema
        return new_columns(self._spec.path, pa.schema(table.schema().to_arrow()), schema).files

    def staging(self, query: str, batch: int) -> str:
        """Where Spark is to write the files of a batch."""
        return self._files.uri(f"{DATA}/{batch}-{uuid.uuid4().hex[:12]}")

    def commit(self, query: str, batch: int, staged: str, schema: Any, marks: Marks = NO_MARKS) -> int:
        """Make what is staged part of the table."""
        folder = staged.removeprefix(self._files.root).lstrip("/")
        written = self._files.data(folder, () if self._spec.upsert is not None else self._spec.partition_by)
        if not written and not marks.set:
            return 0
        failed: Exception | None = None
        for _ in range(ATTEMPTS):
            try:
                table = self._ready(schema)
                # Asked of the version that the commit goes on from: the same mark after it is a conflict.
                last = table.transaction_version(query)
                if last is not None and last >= batch:
                    if failed is None:  # a commit that failed may have gone through, and the table have these files
                        self.discard(staged)
                    return 0
                marks.check(self._spec.path, {name: table.transaction_version(name) for name in marks.expected})
                self._write(table, written, {query: batch, **marks.set})
            except CommitFailedError as error:
                failed = error
            else:
                if self._spec.upsert is not None:
                    self.discard(staged)  # the rows are in other files by now
                return sum(file.rows for file in written)
        raise LakeError(f"Delta table {self._spec.path}: the commit failed: {failed}")

    def _write(self, table: DeltaTable, written: Sequence[DataFile], marks: Mapping[str, int]) -> None:
        now = int(time.time() * 1000)
        query, batch = next(iter(marks.items()))
        rows = sum(file.rows for file in written)
        properties = CommitProperties(
            custom_metadata={"kavka.query": query, "kavka.batch": str(batch), "kavka.rows": str(rows)},
            app_transactions=[Transaction(name, value, now) for name, value in marks.items()],
        )
        if self._spec.upsert is not None and written:
            self._merge(table, self._spec.upsert, written, properties)
            return
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                file.path,
                file.size_bytes,
                dict(file.partition),
                now,
                True,
                json.dumps({"numRecords": file.rows, **file.statistics}),
            )
            for file in written
        ]
        table.create_write_transaction(
            actions,
            mode="append",
            schema=table.schema(),
            partition_by=list(self._spec.partition_by),
            commit_properties=properties,
        )

    def _merge(
        self, table: DeltaTable, upsert: Upsert, written: Sequence[DataFile], properties: CommitProperties
    ) -> None:
        """One commit in which the staged rows take the place of those with the same keys."""
        paths = [self._files.at(file.path) for file in written]
        batch = dataset(paths, filesystem=self._files.system, format="parquet")
        if upsert.history:
            batch = _versions(table, upsert, batch.to_table())
            upsert = Upsert((*upsert.key, FROM), upsert.order_by)  # a version is found by where it begins
        elif upsert.order_by != OFFSET:
            batch = dataset(not_deleted(self._files.root, upsert, batch.to_table()))
        deletes = DELETED in batch.schema.names
        columns = [name for name in batch.schema.names if name != DELETED]
        matches, newer, gone, values = delta_clauses(upsert, columns, deletes=deletes)
        # A row takes the place of one with the same key: what it does not have it does not leave as it was.
        lacking = [field.name for field in table.schema().fields if field.name not in columns]
        values = {**values, **{f"`{name}`": "NULL" for name in lacking}}
        merger = table.merge(
            _fitted(table, batch),
            matches,
            source_alias="source",
            target_alias="target",
            commit_properties=properties,
        )
        if deletes:
            merger = merger.when_matched_delete(f"{gone} AND {newer}")
        merger = merger.when_matched_update(values, newer if not deletes else f"NOT {gone} AND {newer}")
        merger.when_not_matched_insert(values, f"NOT {gone}").execute()

    def discard(self, staged: str) -> None:
        """Delete what is staged."""
        self._files.remove(staged.removeprefix(self._files.root).lstrip("/"))

    def compact(self, target_bytes: int) -> Compacted:
        """Make few large files of many small ones; the old files stay for readers of old versions."""
        failed: Exception | None = None
        for _ in range(ATTEMPTS):
            table = self._open()
            if table is None:
                raise LakeError(f"there is no Delta table at {self._spec.path}")
            before = len(table.file_uris())
            try:
                table.optimize.compact(target_size=target_bytes)
            except CommitFailedError as error:
                failed = error  # a batch has rewritten what was to be compacted
                continue
            table.update_incremental()
            table.create_checkpoint()
            if self._spec.upsert is not None:
                compact_deletions(self._files.root)
            return Compacted(before, len(table.file_uris()))
        raise LakeError(f"Delta table {self._spec.path}: the commit failed: {failed}")

    def vacuum(self, older_than_ms: int, *, dry: bool) -> Vacuumed:
        """Delete files that no version younger than this has, and files that never were in any."""
        table = self._open()
        if table is None:
            return Vacuumed(0, 0)
        hours = max(0, int(time.time() * 1000) - older_than_ms) // 3_600_000
        found = table.vacuum(hours, dry_run=True, enforce_retention_duration=False, full=True)
        size = sum(self._files.size(path) for path in found)
        if not dry:
            table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
            table.cleanup_metadata()
        return Vacuumed(len(found), size)

    def freshness(self) -> Freshness:
        """How much there is and how old it is."""
        table = self._open()
        if table is None:
            return Freshness(0, 0, 0, None, None)
        added = pa.table(table.get_add_actions(flatten=True))
        last = next((commit for commit in table.history(50) if commit.get("operation") in ("WRITE", "write")), None)
        return Freshness(
            rows=sum(added.column("num_records").to_pylist()) if added.num_rows else 0,
            files=added.num_rows,
            bytes=sum(added.column("size_bytes").to_pylist()) if added.num_rows else 0,
            last_commit_ms=None if last is None else int(last["timestamp"]),
            version=table.version(),
        )

    def _open(self) -> DeltaTable | None:
        try:
            return DeltaTable(self._files.root)
        except TableNotFoundError:
            return None

    def _ready(self, schema: Any) -> DeltaTable:
        """The table with all the columns of a schema."""
        table = self._open()
        if table is None:
            try:
                table = self._create(schema)
            except DeltaError:
                table = self._open()  # another one may have been faster
                if table is None:
                    raise
        self._evolve(table, schema)
        return table

    def _create(self, schema: Any) -> DeltaTable:
        nullable = pa.schema([field.with_nullable(True) for field in schema])
        return DeltaTable.create(
            self._files.root, schema=Schema.from_arrow(nullable), partition_by=list(self._spec.partition_by)
        )

    def _evolve(self, table: DeltaTable, schema: Any) -> None:
        before = pa.schema(table.schema().to_arrow())
        changed = new_columns(self._spec.path, before, schema).changed
        if changed:
            fields = Schema.from_arrow(pa.schema(changed)).fields
            table.alter.add_columns([Field(field.name, field.type, nullable=True) for field in fields])


def _fitted(table: DeltaTable, batch: Any) -> Any:
    """The rows of a batch, its structs with all the fields that the table's have: a merge takes no others."""
    there = {field.name: field.type for field in pa.schema(table.schema().to_arrow())}
    types = [there.get(each.name, each.type) if pa.types.is_nested(each.type) else each.type for each in batch.schema]
    wanted = pa.schema([each.with_type(kind) for each, kind in zip(batch.schema, types, strict=True)])
    rows = (
        pa.RecordBatch.from_arrays([rows.column(each.name).cast(each.type) for each in wanted], schema=wanted)
        for rows in batch.scanner().to_batches()
    )
    return pa.RecordBatchReader.from_batches(wanted, rows)


def _versions(table: DeltaTable, upsert: Upsert, batch: Any) -> Any:
    """The versions that a batch writes, marked where one is to go."""
    there = table.to_pyarrow_dataset().to_table(filter=first_key_filter(upsert, batch))
    found = rewritten(upsert, of_keys(upsert, there, batch), batch.to_pylist())
    rows = [*found.rows, *({**row, DELETED: True} for row in found.gone)]
    schema = together(pa.schema(table.schema().to_arrow()), batch.schema)
    return dataset(pa.Table.from_pylist(rows, schema.append(pa.field(DELETED, pa.bool_()))))
