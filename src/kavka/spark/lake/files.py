"""The Parquet files of a table, on whatever file system its path names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow.fs as pafs
import pyarrow.parquet as pq

from kavka.spark.lake.statistics import statistics
from kavka.spark.lake.table import DataFile, LakeError, partition_of

ROW_GROUP_BYTES: Final = 64 << 20
"""How much a row group holds before it is compressed: enough to read in one go, little enough to hold in memory."""


class Files:
    """A folder and what is in it; paths are relative to it."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        try:
            if "://" in root or root.startswith("file:"):
                self.system, self._base = pafs.FileSystem.from_uri(self.root)
            else:
                import os

                self.system, self._base = pafs.LocalFileSystem(), os.path.abspath(self.root)
                self.root = self._base
        except (ValueError, OSError) as error:
            raise LakeError(f"table path {root!r}: {error}") from None

    def at(self, path: str) -> str:
        """A path as its file system wants it."""
        return f"{self._base}/{path}" if path else self._base

    def uri(self, path: str) -> str:
        """A path as other programs want it."""
        return f"{self.root}/{path}" if path else self.root

    def data(self, folder: str, partition_by: tuple[str, ...]) -> list[DataFile]:
        """The Parquet files below a folder that hold any row."""
        found = []
        for info in self.listed(folder):
            footer = pq.read_metadata(self.at(info[0]), filesystem=self.system)
            if footer.num_rows:
                partition = partition_of(info[0], partition_by)
                found.append(DataFile(info[0], partition, info[1], footer.num_rows, statistics(footer)))
        return found

    def listed(self, folder: str, suffix: str = ".parquet", older_than_ms: int | None = None) -> list[tuple[str, int]]:
        """The files below a folder that end so, with their sizes, without hidden ones; only older ones if asked."""
        return sorted(self._walk(folder, suffix, older_than_ms))

    def size(self, path: str) -> int:
        """A file's size, 0 if it is not there."""
        return int(self.system.get_file_info(self.at(path)).size or 0)

    def _walk(self, folder: str, suffix: str, older_than_ms: int | None) -> Iterator[tuple[str, int]]:
        selector = pafs.FileSelector(self.at(folder), recursive=True, allow_not_found=True)
        for info in self.system.get_file_info(selector):
            path = info.path.removeprefix(self._base).lstrip("/")
            below = path.removeprefix(folder).lstrip("/")
            hidden = any(map(_hidden, below.split("/")))
            young = older_than_ms is not None and (info.mtime_ns or 0) >= older_than_ms * 1_000_000
            if info.type == pafs.FileType.File and path.endswith(suffix) and not hidden and not young:
                yield path, info.size

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return bool(self.system.get_file_info(self.at(path)).type != pafs.FileType.NotFound)

    def read(self, path: str) -> bytes:
        """A small file's content."""
        with self.system.open_input_stream(self.at(path)) as stream:
            content: bytes = stream.read()
            return content

    def write(self, path: str, content: bytes) -> None:
        """Write a small file whole: under another name first, so that nobody sees half of it."""
        folder = path.rpartition("/")[0]
        self.system.create_dir(self.at(folder), recursive=True)
        hidden = f"{folder}/.{path.rpartition('/')[2]}"
        with self.system.open_output_stream(self.at(hidden)) as stream:
            stream.write(content)
        self.system.move(self.at(hidden), self.at(path))

    def move(self, path: str, to: str) -> None:
        """Give a file another name."""
        self.system.create_dir(self.at(to.rpartition("/")[0]), recursive=True)
        self.system.move(self.at(path), self.at(to))

    def remove(self, path: str) -> None:
        """Delete a file or a folder, if it is there."""
        kind = self.system.get_file_info(self.at(path)).type
        if kind == pafs.FileType.Directory:
            self.system.delete_dir(self.at(path))
        elif kind == pafs.FileType.File:
            self.system.delete_file(self.at(path))

    def merge(self, paths: list[str], to: str, schema: Any | None = None) -> None:
        """Write the rows of some files into one, file by file, so that memory holds one row group at a time."""
        schemas = [pq.read_schema(self.at(path), filesystem=self.system) for path in paths]
        import pyarrow as pa

        whole = schema or pa.unify_schemas([known.remove_metadata() for known in schemas])
        whole = pa.schema([field.with_nullable(True) for field in whole])
        self.system.create_dir(self.at(to.rpartition("/")[0]), recursive=True)
        with pq.ParquetWriter(self.at(to), whole, filesystem=self.system, compression="snappy") as writer:
            group: list[Any] = []
            for path in paths:
                with self.system.open_input_file(self.at(path)) as stream:
                    for batch in pq.ParquetFile(stream).iter_batches():
                        group.append(_fitted(pa.Table.from_batches([batch]), whole))
                        if sum(table.nbytes for table in group) >= ROW_GROUP_BYTES:
                            writer.write_table(pa.concat_tables(group))
                            group = []
            if group:
                writer.write_table(pa.concat_tables(group))


def _hidden(name: str) -> bool:
    """Whether readers pass over a file or folder, as Spark does: not over the partitions of a column `_day`."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _fitted(table: Any, schema: Any) -> Any:
    """A table with exactly these columns; those that it lacks are null."""
    import pyarrow as pa

    arrays = [
        table.column(field.name).cast(field.type)
        if field.name in table.schema.names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def bins(files: list[tuple[str, int]], target: int) -> list[list[str]]:
    """Groups of small files that together come near a target size; a file of its own is left as it is."""
    groups: list[list[str]] = []
    group: list[str] = []
    size = 0
    for path, length in files:
        if length >= target * 3 // 4:
            continue
        if group and size + length > target:
            groups.append(group)
            group, size = [], 0
        group.append(path)
        size += length
    groups.append(group)
    return [group for group in groups if len(group) > 1]
