"""What a query's checkpoint says, wherever Spark can read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kavka.spark.lake.ranges import BatchOffsets
from kavka.spark.offsets import BEGIN, from_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Checkpoint:
    """The checkpoint of a query with one source."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self._location = location.rstrip("/")

    def exists(self) -> bool:
        """Whether the query ever began a batch."""
        system, path = self._located("offsets")
        return bool(system.exists(path)) and any(each.getPath().getName().isdigit() for each in system.listStatus(path))

    def offsets(self, batch: int) -> BatchOffsets:
        """What a batch reads."""
        document = self._offsets(batch)
        if document is None:
            return BatchOffsets({}, {}, {}, {})
        ends, ids = from_json(document)
        begins = from_json(document.get(BEGIN, {}))[0]
        before = self._offsets(batch - 1) if batch else None
        starts, ids_before = from_json(before or {})
        kept = {tp: start for tp, start in starts.items() if ids_before.get(tp.topic) == ids.get(tp.topic)}
        return BatchOffsets({**kept, **begins}, ends, begins, ids)

    def _offsets(self, batch: int) -> dict[str, Any] | None:
        text = self._read(f"offsets/{batch}")
        document: dict[str, Any] | None = None if text is None else json.loads(text.splitlines()[2])
        return document

    def _read(self, name: str) -> str | None:
        system, path = self._located(name)
        if not system.exists(path):
            return None
        stream = system.open(path)
        context: Any = self._spark.sparkContext
        try:
            text: str = context._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return text

    def _located(self, name: str) -> tuple[Any, Any]:
        """A file of it, and the file system that has it."""
        context: Any = self._spark.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(f"{self._location}/{name}")
        return path.getFileSystem(context._jsc.hadoopConfiguration()), path
