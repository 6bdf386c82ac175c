"""Writing topics from Spark: Arrow writers with an idempotent producer for each task.

At least once: a task that Spark runs again writes its rows again. Within one attempt nothing is written twice, whatever
the network does. With `delivery` exactly-once, tasks write in transactions that `exactly_once` ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType, TimestampType

from kavka.client import Codec, Pool, Producer
from kavka.spark import exactly_once, reading
from kavka.spark.connecting import OptionError
from kavka.spark.options import SinkOptions
from kavka.spark.workers import settle

Messages = list[WriterCommitMessage | None]


@dataclass
class WrittenTask(WriterCommitMessage):
    """What one task wrote."""

    rows: int


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """The columns must be those of Spark's Kafka sink, with its types."""
    allowed: dict[str, tuple[type[DataType], ...]] = {
        "key": (StringType, BinaryType),
        "value": (StringType, BinaryType) if options.written is None else (StructType,),
        "topic": (StringType,),
        "partition": (IntegerType,),
        "headers": (ArrayType,),
    }
    if options.use_timestamp:
        allowed["timestamp"] = (TimestampType,)
    found = {field.name: field.dataType for field in schema.fields}
    if "value" not in found:
        wanted = (
            "a string or binary" if options.written is None else f"a struct of the fields of {options.written.form}"
        )
        raise OptionError(f"the sink needs a column value, {wanted}; other columns are key, headers, topic")
    for name, kinds in allowed.items():
        if name in found and not isinstance(found[name], kinds):
            wanted = " or ".join(kind.typeName() for kind in kinds)
            raise OptionError(f"column {name} must be {wanted}, not {found[name].simpleString()}")
    if options.topic is None and "topic" not in found:
        raise OptionError('say where to write: option("topic", "NAME") or a column topic')


def write(options: SinkOptions, batches: Iterator[Any]) -> WriterCommitMessage:
    """Write a task's rows and wait until all are acknowledged."""
    written: WriterCommitMessage
    try:
        if options.exactly_once:
            written = exactly_once.write(options, batches, partial(_producer, options), partial(_send, options))
        else:
            written = reading.run(_write(options, batches))
    finally:
        if options.traces is not None:
            from kavka.spark.tracing import flush

            flush(options.traces)
    settle()
    return written


async def _write(options: SinkOptions, batches: Iterator[Any]) -> WrittenTask:
    rows = 0
    pool = await reading.connected(options.bootstrap, options.timeout_ms, options.client_id)
    try:
        async with _producer(options, pool) as producer:
            for batch in batches:
                await _send(options, producer, batch)
                rows += batch.num_rows
    finally:
        await pool.close()
    return WrittenTask(rows)


def _producer(options: SinkOptions, pool: Pool, transactional_id: str | None = None) -> Producer:
    make: Callable[..., Producer] = Producer
    if options.traces is not None:
        from kavka.spark.tracing import TracingProducer

        make = partial(TracingProducer, endpoint=options.traces)
    return make(
        pool,
        codec=cast("Codec", options.compression),
        batch_bytes=options.batch_bytes,
        linger_ms=options.linger_ms,
        delivery_timeout_ms=options.timeout_ms,
        transactional_id=transactional_id,
        two_phase_commit=transactional_id is not None,
    )


async def _send(options: SinkOptions, producer: Producer, batch: Any) -> None:
    names = batch.schema.names
    count = batch.num_rows
    nothing: Sequence[Any] = (None,) * count
    values = _values(options, batch.column("value"))
    keys = _bytes(batch.column("key")) if "key" in names else nothing
    # The option wins over the column, as in Spark's sink.
    topics = (options.topic,) * count if options.topic is not None else batch.column("topic").to_pylist()
    partitions = batch.column("partition").to_pylist() if "partition" in names else nothing
    headers = batch.column("headers").to_pylist() if "headers" in names and options.include_headers else nothing
    times = nothing
    if options.use_timestamp and "timestamp" in names:
        import pyarrow as pa

        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    for topic, key, value, partition, head, micros in zip(
        topics, keys, values, partitions, headers, times, strict=True
    ):
        if topic is None:
            raise OptionError("a row's topic is null: every row needs one")
        await producer.send(
            topic,
            value,
            key=key,
            partition=partition,
            headers=[(header["key"], header["value"]) for header in head] if head else (),
            timestamp=None if micros is None else micros // 1000,
        )


def _values(options: SinkOptions, column: Any) -> list[bytes | None]:
    if options.written is None:
        return _bytes(column)
    from kavka.spark.registry.writing import encoder

    return encoder(options.written)(column)


def _bytes(column: Any) -> list[bytes | None]:
    import pyarrow as pa

    values: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return values


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write one task's rows."""
        return write(self._options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write one task's rows of a micro-batch."""
        return write(self._options, iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803  (Spark's name)
        """All tasks have written: only transactions are left to end."""
        if self._options.exactly_once:
            exactly_once.commit(self._options, messages, batchId)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        """Some task failed: the batch will be written again, and what the others wrote stays, or is aborted."""
        if self._options.exactly_once:
            exactly_once.abort(self._options, messages)
