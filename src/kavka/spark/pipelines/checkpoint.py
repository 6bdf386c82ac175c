"""What a query's checkpoint says, wherever Spark can read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kavka.model.types import TopicPartition
from kavka.spark.offsets import BEGIN, from_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Checkpoint:
    """The checkpoint of a query with one source."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self._location = location.rstrip("/")

    def exists(self) -> bool:
        """Whether the query ever began."""
        return self._read("metadata") is not None

    def begins(self, batch: int) -> tuple[dict[TopicPartition, int], dict[str, str]]:
        """Where a batch begins, where that is not the end of the last one, and the topics' ids; empty if not known."""
        text = self._read(f"offsets/{batch}")
        if text is None:
            return {}, {}
        document = json.loads(text.splitlines()[2])
        if BEGIN not in document:
            return {}, {}
        return from_json(document[BEGIN])[0], from_json(document)[1]

    def _read(self, name: str) -> str | None:
        context: Any = self._spark.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(f"{self._location}/{name}")
        system = path.getFileSystem(context._jsc.hadoopConfiguration())
        if not system.exists(path):
            return None
        stream = system.open(path)
        try:
            text: str = context._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return text
