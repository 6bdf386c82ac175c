"""Record batches to Arrow record batches with Spark's Kafka schema: what an executor does with the bytes of a range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from kavka.client.fetched import Hidden
from kavka.client.ranges import Chunk
from kavka.kernels.arrow import BinaryColumn, HeaderColumn, RecordColumns
from kavka.model.types import TopicPartition
from kavka.records.batch import BatchInfo, Buffer, payload

HEADER_FIELDS: Final = (pa.field("key", pa.string()), pa.field("value", pa.binary()))
TYPES: Final[dict[str, Any]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", pa.struct(HEADER_FIELDS))),
    "error": pa.string(),
}
"""The columns of Spark's Kafka source, in its order, as Arrow types; the last is ours, where values are decoded."""

MAX_ROWS: Final = 65_536
MAX_BYTES: Final = 8 << 20


def decode_batch(columns: RecordColumns, data: Buffer, info: BatchInfo, first: int, after: int) -> int:
    """Add the records of a scanned batch that lie from offset `first` to before `after`; how many they were."""
    buffer, start, end = payload(data, info)
    return columns.append(buffer, info, first, after, start, end)


def to_arrays(columns: RecordColumns, names: Sequence[str]) -> list[Any]:
    """These columns as Arrow arrays over the kernel's memory: of use until the columns are cleared."""
    return [_MAKERS[name](columns) for name in names]


def record_batches(
    tp: TopicPartition,
    chunks: Iterable[Chunk],
    first: int,
    after: int,
    names: Sequence[str],
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
) -> Iterator[Any]:
    """The records of a range as Arrow record batches; one is of use until the one after the next is asked for.

    A record batch is handed out when it has reached one of the two limits, so it may go beyond by one batch of records.
    """
    keys, values, headers = "key" in names, "value" in names, "headers" in names
    # Spark has written a batch to its socket before it asks for the next one, so two sets of memory are enough.
    ready, other = (RecordColumns(keys, values, headers) for _ in range(2))
    schema = pa.schema([pa.field(name, TYPES[name]) for name in names])
    constants = _Constants(tp)
    for chunk in chunks:
        begin = max(first, chunk.position)
        for info in _visible(chunk, begin, after):
            decode_batch(ready, chunk.data, info, begin, after)
            if ready.rows >= max_rows or ready.size >= max_bytes:
                yield constants.record_batch(ready, names, schema)
                ready, other = other, ready
                ready.clear()
    if ready.rows:
        yield constants.record_batch(ready, names, schema)


def _visible(chunk: Chunk, first: int, after: int) -> Iterator[BatchInfo]:
    """The batches of a chunk that hold data a reader may see and that belong to the range."""
    hidden = Hidden(chunk.aborted) if chunk.aborted is not None else None
    for info in chunk.batches:
        if info.is_control:
            if hidden is not None:
                hidden.control(info, chunk.data)
        elif not (hidden is not None and hidden.batch(info)) and info.last_offset >= first and info.base_offset < after:
            yield info


class _Constants:
    """The columns that are the same in every row of a partition, kept from batch to batch."""

    def __init__(self, tp: TopicPartition) -> None:
        self._tp = tp
        self._kept: dict[str, Any] = {}

    def record_batch(self, columns: RecordColumns, names: Sequence[str], schema: Any) -> Any:
        arrays = [
            self._repeated(name, columns.rows) if name in ("topic", "partition") else _MAKERS[name](columns)
            for name in names
        ]
        if not arrays:  # a count needs rows, not columns
            return pa.RecordBatch.from_struct_array(pa.array([{}] * columns.rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _repeated(self, name: str, rows: int) -> Any:
        column = self._kept.get(name)
        if column is None or len(column) < rows:
            value = pa.scalar(self._tp.topic if name == "topic" else self._tp.partition, TYPES[name])
            column = self._kept[name] = pa.repeat(value, max(rows, MAX_ROWS))
        return column.slice(0, rows)


def _binary(column: BinaryColumn, kind: Any) -> Any:
    buffers = [pa.py_buffer(column.validity), pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
    if not column.nulls:
        buffers[0] = None
    return pa.Array.from_buffers(kind, column.rows, buffers, column.nulls)


def _headers(column: HeaderColumn) -> Any:
    names, contents = _binary(column.names, pa.string()), _binary(column.contents, pa.binary())
    pairs = pa.StructArray.from_arrays([names, contents], fields=list(HEADER_FIELDS))
    validity = pa.py_buffer(column.validity) if column.nulls else None
    buffers = [validity, pa.py_buffer(column.offsets)]
    return pa.Array.from_buffers(TYPES["headers"], column.rows, buffers, column.nulls, 0, [pairs])


def _numbers(kind: Any, view: memoryview, rows: int) -> Any:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(view)], 0)


_MAKERS: Final[dict[str, Callable[[RecordColumns], Any]]] = {
    "key": lambda columns: _binary(columns.keys(), pa.binary()),
    "value": lambda columns: _binary(columns.values(), pa.binary()),
    "offset": lambda columns: _numbers(TYPES["offset"], columns.offsets(), columns.rows),
    "timestamp": lambda columns: _numbers(TYPES["timestamp"], columns.timestamps(), columns.rows),
    "timestampType": lambda columns: _numbers(TYPES["timestampType"], columns.timestamp_types(), columns.rows),
    "headers": lambda columns: _headers(columns.headers()),
}
