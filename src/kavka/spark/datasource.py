"""`format("kavka")`: the class that Spark finds by name and asks for readers and writers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from kavka.spark.columns import TYPES
from kavka.spark.connecting import OptionError
from kavka.spark.options import BY_REGISTRY, SinkOptions, SourceOptions, reader_subject, sink_options, source_options
from kavka.spark.registry.access import access_of
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
        return BatchReader(source_options(self._read_options(), streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        """For `spark.readStream`."""
        return StreamReader(source_options(self._read_options(), streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`; a topic only grows, so `mode` must be append."""
        options = self._sink(schema)
        if overwrite:
            raise ValueError('a topic cannot be overwritten: use mode("append")')
        if options.exactly_once:
            raise OptionError("delivery exactly-once is for streams: use writeStream")
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """For `df.writeStream`."""
        return StreamWriter(self._sink(schema))

    def _given(self) -> Mapping[str, str]:
        # Spark asks for the schema first, then keeps this object and sends it about: only here is the file needed.
        schema = loaded(self.options.get("value.format", "").lower(), self.options.get("value.schema"))
        if schema is not None:
            self.options["value.schema"] = schema
        return dict(self.options)

    def _read_options(self) -> Mapping[str, str]:
        """Those of a source, with the schema that a registry has for its columns, the same for a query's whole life."""
        given = dict(self._given())
        access = access_of(given)
        form = given.get("value.format", "").lower()
        if access is not None and form in BY_REGISTRY and "value.schema" not in given:
            from kavka.spark.registry.access import connected
            from kavka.spark.registry.languages import readable, registered

            with connected(access) as registry:
                found = registered(registry, form, *reader_subject(given))
                self.options["value.schema"] = given["value.schema"] = readable(registry, form, found)
        return given

    def _sink(self, schema: StructType) -> SinkOptions:
        options = sink_options(self._given())
        check_schema(schema, options)
        if options.written is None:
            return options
        from kavka.spark.registry.writing import prepared

        kind = to_arrow_schema(schema, timezone="UTC").field("value").type
        return replace(options, written=prepared(options.written, kind))

    def _source(self) -> SourceOptions:
        # The schema is asked for before it is known whether a batch or a stream will be read; it is the same for both.
        try:
            return source_options(self._read_options(), streaming=False)
        except ValueError as error:
            try:
                return source_options(self._read_options(), streaming=True)
            except ValueError:
                raise error from None


def spark_schema(options: SourceOptions) -> StructType:
    """The schema of a source."""
    return from_arrow_schema(pa.schema(list(_fields(options))))


def _fields(options: SourceOptions) -> Iterator[Any]:
    made = decoder(options)
    for name in options.columns:
        yield pa.field(name, made.kind if name == "value" and made is not None else TYPES[name])
