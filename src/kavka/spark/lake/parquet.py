"""Plain Parquet folders: no commits, so a batch's files carry its name and a list of them says that they are whole.

A reader that lists the folder may see a batch appear file by file. One that reads the lists in `_kavka` does not.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

import pyarrow.parquet as pq

from kavka.spark.lake.files import Files, bins
from kavka.spark.lake.table import NO_MARKS, Compacted, Freshness, Marks, TableSpec, Vacuumed, new_columns

LISTS: Final = "_kavka"
MARKS: Final = "_marks"
STAGING: Final = "_staging"
REPLACED: Final = "_replaced"
_OF_BATCH: Final = re.compile(r"(.+)-(\d{12})-\d{5}\.parquet")


class Parquet:
    """One folder of Parquet files."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._files = Files(spec.path)

    def last_batch(self, query: str) -> int | None:
        """The last batch of a query whose files are all there."""
        done = [int(path.rpartition("/")[2].removesuffix(".json")) for path, _ in self._lists(query)]
        return max(done, default=None)

    def marks(self, names: Iterable[str]) -> dict[str, int]:
        """The marks of these names that commits have set."""
        paths = {name: _mark(name) for name in names}
        found = {name: int(self._files.read(path)) for name, path in paths.items() if self._files.exists(path)}
        unwritten = self._unwritten()
        return {**found, **{name: unwritten[name] for name in paths if name in unwritten}}

    def check(self, schema: Any) -> Any:
        """The schema that files with such rows must have beside the newest ones; LakeError if there is none."""
        files = self._files.listed("")
        if not files:
            return schema
        before = pq.read_schema(self._files.at(files[-1][0]), filesystem=self._files.system)
        return new_columns(
            self._spec.path, [each for each in before if each.name not in self._spec.partition_by], schema
        ).files

    def staging(self, query: str, batch: int) -> str:
        """Where Spark is to write the files of a batch; readers do not look there."""
        return self._files.uri(f"{STAGING}/{query}-{batch}-{uuid.uuid4().hex[:12]}")

    def commit(self, query: str, batch: int, staged: str, schema: Any, marks: Marks = NO_MARKS) -> int:
        """Move the files to where readers find them, then say that they are all there."""
        listing = f"{LISTS}/{query}/{batch:012}.json"
        if self._files.exists(listing):
            self.discard(staged)
            return 0
        marks.check(self._spec.path, self.marks(marks.expected))
        self._write_marks(self._unwritten())
        name = f"{query}-{batch:012}"
        for path, _ in self._files.listed(""):
            if path.rpartition("/")[2].startswith(name + "-"):
                self._files.remove(path)  # an attempt at this batch that came to no end
        folder = staged.removeprefix(self._files.root).lstrip("/")
        moved = []
        rows = 0
        for number, file in enumerate(self._files.data(folder, ())):
            below = file.path.removeprefix(folder).lstrip("/")
            to = "/".join([*below.split("/")[:-1], f"{name}-{number:05}.parquet"])
            self._files.move(file.path, to)
            moved.append(to)
            rows += file.rows
        document = {"files": moved, "rows": rows, "committed_ms": int(time.time() * 1000), "marks": dict(marks.set)}
        self._files.write(listing, json.dumps(document).encode())
        self._write_marks(marks.set)
        self._files.write(_done(query), f"{batch:012}".encode())
        self._files.remove(folder)
        return rows

    def discard(self, staged: str) -> None:
        """Delete what is staged."""
        self._files.remove(staged.removeprefix(self._files.root).lstrip("/"))

    def compact(self, target_bytes: int) -> Compacted:
        """Make few large files of many small ones, partition by partition."""
        self._finish()
        before = [(path, size) for path, size in self._files.listed("") if self._whole(path)]
        for folder in sorted({path.rpartition("/")[0] for path, _ in before}):
            here = [(path, size) for path, size in before if path.rpartition("/")[0] == folder]
            for group in bins(here, target_bytes):
                self._replace(folder, group)
        return Compacted(len(before), sum(self._whole(path) for path, _ in self._files.listed("")))

    def vacuum(self, older_than_ms: int, *, dry: bool) -> Vacuumed:
        """Delete files that are older and belong to no batch that is all there."""
        found = [
            (path, size) for path, size in self._files.listed("", ".parquet", older_than_ms) if not self._whole(path)
        ]
        found += self._files.listed(STAGING, ".parquet", older_than_ms)
        if not dry:
            for path, _ in found:
                self._files.remove(path)
        return Vacuumed(len(found), sum(size for _, size in found))

    def freshness(self) -> Freshness:
        """How much there is and how old it is."""
        files = self._files.listed("")
        rows = sum(pq.read_metadata(self._files.at(path), filesystem=self._files.system).num_rows for path, _ in files)
        times = [json.loads(self._files.read(path))["committed_ms"] for path, _ in self._lists("")]
        return Freshness(rows, len(files), sum(size for _, size in files), max(times, default=None), None)

    def _replace(self, folder: str, group: list[str]) -> None:
        name = f"compact-{uuid.uuid4().hex[:12]}.parquet"
        staged, target = f"{STAGING}/{name}", f"{folder}/{name}".lstrip("/")
        self._files.merge(group, staged)
        self._files.write(f"{REPLACED}/{name}.json", json.dumps({"target": target, "replaces": group}).encode())
        self._files.move(staged, target)
        self._finish()

    def _finish(self) -> None:
        """Delete what compacted files replace, those of a compaction that was killed included."""
        for path, _ in self._files.listed(REPLACED, ".json"):
            document = json.loads(self._files.read(path))
            if self._files.exists(document["target"]):
                for replaced in document["replaces"]:
                    self._files.remove(replaced)
            self._files.remove(path)

    def _unwritten(self) -> dict[str, int]:
        """The marks of commits that were killed between their list, with which they count, and the marks' files."""
        found: dict[str, int] = {}
        last: dict[str, str] = {}
        for path, _ in self._lists(""):
            last[path.rpartition("/")[0].removeprefix(f"{LISTS}/")] = path
        for query, path in last.items():
            batch = path.rpartition("/")[2].removesuffix(".json")
            done = _done(query)
            if not self._files.exists(done) or self._files.read(done).decode() != batch:
                found.update(json.loads(self._files.read(path)).get("marks", {}))
        return found

    def _write_marks(self, marks: Mapping[str, int]) -> None:
        for mark, value in marks.items():
            self._files.write(_mark(mark), str(value).encode())

    def _whole(self, path: str) -> bool:
        """Whether a file belongs to a batch that is all there: one that is not will be written anew."""
        batch = _OF_BATCH.fullmatch(path.rpartition("/")[2])
        return batch is None or self._files.exists(f"{LISTS}/{batch[1]}/{batch[2]}.json")

    def _lists(self, query: str) -> list[tuple[str, int]]:
        return self._files.listed(f"{LISTS}/{query}" if query else LISTS, ".json")


def _mark(name: str) -> str:
    return f"{MARKS}/{quote(name, safe='')}"


def _done(query: str) -> str:
    return f"{MARKS}/@written/{query}"
