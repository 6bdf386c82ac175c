"""`format("kavka")`: the class that Spark finds by name and asks for readers and writers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kavka.spark.columns import TYPES
from kavka.spark.connecting import OptionError
from kavka.spark.options import SourceOptions, sink_options, source_options
from kavka.spark.sink import BatchWriter, StreamWriter, check_schema
from kavka.spark.source import BatchReader, StreamReader
from kavka.spark.values import decoder, loaded


class KavkaDataSource(DataSource):
    """Topics of a Kavka or Kafka cluster, with the schema and the options of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        """What `format` is called with."""
        return "kavka"

    def schema(self) -> StructType:
        """The columns that the options ask for."""
        return spark_schema(self._source())

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        return BatchReader(source_options(self._given(), streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        """For `spark.readStream`."""
        return StreamReader(source_options(self._given(), streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`; a topic only grows, so `mode` must be append."""
        options = sink_options(self._given())
        check_schema(schema, options)
        if overwrite:
            raise ValueError('a topic cannot be overwritten: use mode("append")')
        if options.exactly_once:
            raise OptionError("delivery exactly-once is for streams: use writeStream")
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """For `df.writeStream`."""
        options = sink_options(self._given())
        check_schema(schema, options)
        return StreamWriter(options)

    def _given(self) -> Mapping[str, str]:
        # Spark asks for the schema first, then keeps this object and sends it about: only here is the file needed.
        schema = loaded(self.options.get("value.format", "").lower(), self.options.get("value.schema"))
        if schema is not None:
            self.options["value.schema"] = schema
        return dict(self.options)

    def _source(self) -> SourceOptions:
        # The schema is asked for before it is known whether a batch or a stream will be read; it is the same for both.
        try:
            return source_options(self._given(), streaming=False)
        except ValueError as error:
            try:
                return source_options(self._given(), streaming=True)
            except ValueError:
                raise error from None


def spark_schema(options: SourceOptions) -> StructType:
    """The schema of a source."""
    return from_arrow_schema(pa.schema(list(_fields(options))))


def _fields(options: SourceOptions) -> Iterator[Any]:
    made = decoder(options)
    for name in options.columns:
        yield pa.field(name, made.kind if name == "value" and made is not None else TYPES[name])
