"""Which keys a table of rows by key has lost, and where in its order: a row of before that place does not come back.

It is a Delta table in a hidden folder of the table, whatever the format of that, so that no reader sees it. It is
written before the commit that takes the rows out: a deletion that is told twice, or by a writer that dies before that
commit, says no more than one that is told once.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from kavka.spark.lake.table import ATTEMPTS, LakeError
from kavka.spark.lake.upsert import DELETED, OFFSET, Upsert, first_key_filter, not_older

FOLDER: Final = "_kavka/deleted"


def not_deleted(root: str, upsert: Upsert, batch: Any) -> Any:
    """Remember what a batch with one row for each key deletes; its rows but for those that a deletion comes after."""
    if upsert.order_by == OFFSET:
        return batch  # in which a key comes in order
    path = f"{root}/{FOLDER}"
    if DELETED in batch.column_names:
        gone = batch.filter(pc.fill_null(batch.column(DELETED), False)).select([*upsert.key, upsert.order_by])
        _remember(path, upsert, gone.filter(pc.is_valid(gone.column(upsert.order_by))))
    table = _open(path)
    if table is None:
        return batch
    names = [*upsert.key, upsert.order_by]
    there = table.to_pyarrow_dataset().to_table(columns=names, filter=first_key_filter(upsert, batch))
    return not_older(upsert, there.cast(batch.select(names).schema), batch)


def compact_deletions(root: str) -> None:
    """Make few files of what is remembered, and delete those that no version of the last week has."""
    table = _open(f"{root}/{FOLDER}")
    if table is not None:
        with contextlib.suppress(CommitFailedError):  # a batch was faster: the next compaction does it
            table.optimize.compact()
        table.vacuum(dry_run=False)


def _remember(path: str, upsert: Upsert, gone: Any) -> None:
    if not len(gone):
        return
    failed: Exception | None = None
    for _ in range(ATTEMPTS):
        table = _open(path)
        try:
            if table is None:
                write_deltalake(path, gone, mode="error")
            else:
                _merge(table, upsert, gone)
        except DeltaError as error:  # somebody else has written meanwhile
            failed = error
        else:
            return
    raise LakeError(f"table {path}: the commit failed: {failed}")


def _merge(table: DeltaTable, upsert: Upsert, gone: Any) -> None:
    there = pa.schema(table.schema().to_arrow())
    if there.types != gone.schema.types:  # columns of the table have become wider
        wider = table.to_pyarrow_dataset().to_table().cast(gone.schema)
        write_deltalake(table, wider, mode="overwrite", schema_mode="overwrite")
    matches = " AND ".join(f"target.`{name}` = source.`{name}`" for name in upsert.key)
    order = f"`{upsert.order_by}`"
    merger = table.merge(gone, matches, source_alias="source", target_alias="target")
    later = merger.when_matched_update({order: f"source.{order}"}, f"source.{order} > target.{order}")
    later.when_not_matched_insert_all().execute()


def _open(path: str) -> DeltaTable | None:
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None
