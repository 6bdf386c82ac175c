"""The Parquet files of a table, on whatever file system its path names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow.fs as pafs
import pyarrow.parquet as pq

from kavka.spark.lake.table import DataFile, LakeError, partition_of


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
            rows = pq.read_metadata(self.at(info[0]), filesystem=self.system).num_rows
            if rows:
                found.append(DataFile(info[0], partition_of(info[0], partition_by), info[1], rows))
        return found

    def listed(self, folder: str, suffix: str = ".parquet") -> list[tuple[str, int]]:
        """The files below a folder that end so, with their sizes; hidden ones are left out."""
        return sorted(self._walk(folder, suffix))

    def _walk(self, folder: str, suffix: str) -> Iterator[tuple[str, int]]:
        selector = pafs.FileSelector(self.at(folder), recursive=True, allow_not_found=True)
        for info in self.system.get_file_info(selector):
            path = info.path.removeprefix(self._base).lstrip("/")
            below = path.removeprefix(folder).lstrip("/")
            hidden = any(part.startswith(("_", ".")) for part in below.split("/"))
            if info.type == pafs.FileType.File and path.endswith(suffix) and not hidden:
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

        whole = schema or pa.unify_schemas([each.remove_metadata() for each in schemas])
        whole = pa.schema([each.with_nullable(True) for each in whole])
        self.system.create_dir(self.at(to.rpartition("/")[0]), recursive=True)
        with pq.ParquetWriter(self.at(to), whole, filesystem=self.system, compression="snappy") as writer:
            for path in paths:
                with self.system.open_input_file(self.at(path)) as stream:
                    for batch in pq.ParquetFile(stream).iter_batches():
                        writer.write_table(_fitted(pa.Table.from_batches([batch]), whole))


def _fitted(table: Any, schema: Any) -> Any:
    """A table with exactly these columns; those that it lacks are null."""
    import pyarrow as pa

    arrays = [
        table.column(each.name).cast(each.type) if each.name in table.schema.names else pa.nulls(len(table), each.type)
        for each in schema
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
    return [each for each in groups if len(each) > 1]
