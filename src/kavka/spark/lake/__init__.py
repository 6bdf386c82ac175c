"""Lake tables that topics are kept in: Delta, Iceberg or plain Parquet, behind one interface.

Spark writes Parquet files; what makes them part of the table is a commit here, on the driver. A commit is keyed by
(query, batch), so a batch that runs again after a crash is not added again.
"""

from kavka.spark.lake.table import Compacted, DataFile, Freshness, LakeError, LakeTable, TableSpec, open_table

__all__ = ["Compacted", "DataFile", "Freshness", "LakeError", "LakeTable", "TableSpec", "open_table"]
