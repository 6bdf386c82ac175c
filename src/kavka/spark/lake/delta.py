"""Delta tables by delta-rs: a batch is one commit with Delta's own mark of who wrote it (the `txn` action)."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from kavka.spark.lake.files import Files
from kavka.spark.lake.table import ATTEMPTS, Compacted, DataFile, Freshness, LakeError, TableSpec, new_columns

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

    def check(self, schema: Any) -> None:
        """Raise LakeError if the table cannot take rows of this schema."""
        table = self._open()
        if table is not None:
            new_columns(self._spec.path, pa.schema(table.schema().to_arrow()), schema)

    def staging(self, query: str, batch: int) -> str:
        """Where Spark is to write the files of a batch."""
        return self._files.uri(f"{DATA}/{batch}-{uuid.uuid4().hex[:12]}")

    def commit(
        self, query: str, batch: int, staged: str, schema: Any, marks: Mapping[str, int] = MappingProxyType({})
    ) -> int:
        """Make what is staged part of the table."""
        folder = staged.removeprefix(self._files.root).lstrip("/")
        written = self._files.data(folder, self._spec.partition_by)
        if not written and not marks:
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
                self._write(table, written, {query: batch, **marks})
            except CommitFailedError as error:
                failed = error
            else:
                return sum(each.rows for each in written)
        raise LakeError(f"Delta table {self._spec.path}: the commit failed: {failed}")

    def _write(self, table: DeltaTable, written: Sequence[DataFile], marks: Mapping[str, int]) -> None:
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                each.path, each.size_bytes, dict(each.partition), now, True, json.dumps({"numRecords": each.rows})
            )
            for each in written
        ]
        query, batch = next(iter(marks.items()))
        rows = sum(each.rows for each in written)
        table.create_write_transaction(
            actions,
            mode="append",
            schema=table.schema(),
            partition_by=list(self._spec.partition_by),
            commit_properties=CommitProperties(
                custom_metadata={"kavka.query": query, "kavka.batch": str(batch), "kavka.rows": str(rows)},
                app_transactions=[Transaction(name, value, now) for name, value in marks.items()],
            ),
        )

    def discard(self, staged: str) -> None:
        """Delete what is staged."""
        self._files.remove(staged.removeprefix(self._files.root).lstrip("/"))

    def compact(self, target_bytes: int) -> Compacted:
        """Make few large files of many small ones; the old files stay for readers of old versions."""
        table = self._open()
        if table is None:
            raise LakeError(f"there is no Delta table at {self._spec.path}")
        before = len(table.file_uris())
        table.optimize.compact(target_size=target_bytes)
        table.update_incremental()
        table.create_checkpoint()
        return Compacted(before, len(table.file_uris()))

    def freshness(self) -> Freshness:
        """How much there is and how old it is."""
        table = self._open()
        if table is None:
            return Freshness(0, 0, 0, None, None)
        added = pa.table(table.get_add_actions(flatten=True))
        last = next((each for each in table.history(50) if each.get("operation") in ("WRITE", "write")), None)
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
        nullable = pa.schema([each.with_nullable(True) for each in schema])
        return DeltaTable.create(
            self._files.root, schema=Schema.from_arrow(nullable), partition_by=list(self._spec.partition_by)
        )

    def _evolve(self, table: DeltaTable, schema: Any) -> None:
        before = pa.schema(table.schema().to_arrow())
        added = new_columns(self._spec.path, before, schema)
        if added:
            fields = Schema.from_arrow(pa.schema(added)).fields
            table.alter.add_columns([Field(each.name, each.type, nullable=True) for each in fields])
