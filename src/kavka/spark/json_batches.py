"""JSON values to an Arrow struct, a whole batch at a time: the compiled kernel reads what is written as most JSON is.

The rows that it leaves, which are those that may be refused and those in unusual forms, are decoded one by one by the
rules of `json_values`, and take their places in the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from kavka.kernels.json import JsonColumns
from kavka.kernels.json_layout import (
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INTEGER,
    LIST,
    LOCAL_MOMENT,
    MAP,
    MOMENT,
    STRUCT,
    TEXT,
    Column,
    Node,
)
from kavka.spark.json_values import Bad, RowDecoder, spliced

_KINDS: Final[dict[Any, tuple[int, int]]] = {
    pa.bool_(): (BOOLEAN, 0),
    pa.int8(): (INTEGER, 1),
    pa.int16(): (INTEGER, 2),
    pa.int32(): (INTEGER, 4),
    pa.int64(): (INTEGER, 8),
    pa.float32(): (FLOAT, 0),
    pa.float64(): (DOUBLE, 0),
    pa.string(): (TEXT, 0),
    pa.binary(): (BINARY, 0),
    pa.date32(): (DATE, 0),
    pa.timestamp("us", tz="UTC"): (MOMENT, 0),
    pa.timestamp("us"): (LOCAL_MOMENT, 0),
}


class JsonDecoder:
    """One JSON object for each value; fields that it lacks are null, those that the schema lacks are left out."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self._row_by_row = RowDecoder(kind)
        nodes: list[Node] = []
        # Where two fields have one name, each of them gets the value: nobody wants that quickly.
        self._columns = JsonColumns(nodes) if JsonColumns.READS and _planned(kind, -1, b"", True, nodes) else None

    def decode(self, values: Any) -> tuple[Any, Bad]:
        """An Arrow array with a row for each value, null where it is bad, and which are bad and why."""
        given = values if isinstance(values, pa.Array) else pa.array(values, pa.binary())
        if self._columns is None or not len(given):
            return self._row_by_row.decode(given.to_pylist())
        validity, offsets, data = given.buffers()
        left = self._columns.read(
            offsets, data or b"", len(given), given.offset, validity if given.null_count else None
        )
        if len(left) == len(given):
            return self._row_by_row.decode(given.to_pylist())
        array = _array(self.kind, iter(self._columns.columns()))
        if not left:
            return array, []
        few, bad = self._row_by_row.decode(given.take(pa.array(left)).to_pylist())
        return spliced(array, few, left), [(left[index], reason) for index, reason in bad]


def _planned(kind: Any, parent: int, name: bytes, nullable: bool, nodes: list[Node]) -> bool:
    """Add the nodes of a type, each parent before its children; whether the kernel can read all of them."""
    here = len(nodes)
    if pa.types.is_struct(kind):
        nodes.append(Node(STRUCT, parent, name, nullable))
        names = [field.name for field in kind]
        return len(set(names)) == len(names) and all(
            _planned(field.type, here, field.name.encode(), field.nullable, nodes) for field in kind
        )
    if pa.types.is_list(kind):
        nodes.append(Node(LIST, parent, name, nullable))
        return _planned(kind.value_type, here, b"", kind.value_field.nullable, nodes)
    if pa.types.is_map(kind):
        nodes.append(Node(MAP, parent, name, nullable))
        nodes.append(Node(TEXT, here, b"", False))
        return _planned(kind.item_type, here, b"", kind.item_field.nullable, nodes)
    if pa.types.is_decimal128(kind):
        nodes.append(Node(DECIMAL, parent, name, nullable, precision=kind.precision, scale=kind.scale))
        return True
    if kind not in _KINDS:
        return False
    code, width = _KINDS[kind]
    nodes.append(Node(code, parent, name, nullable, width))
    return True


def _array(kind: Any, columns: Iterator[Column]) -> Any:
    """The array of a type, of the columns in the order of its nodes."""
    rows, nulls, validity, offsets, data = next(columns)
    known = None if validity is None else pa.py_buffer(validity)
    if pa.types.is_struct(kind):
        fields = [_array(field.type, columns) for field in kind]
        return pa.Array.from_buffers(kind, rows, [known], nulls, 0, fields)
    places = None if offsets is None else pa.py_buffer(offsets)
    if pa.types.is_list(kind):
        return pa.Array.from_buffers(kind, rows, [known, places], nulls, 0, [_array(kind.value_type, columns)])
    if pa.types.is_map(kind):
        pair = [_array(kind.key_type, columns), _array(kind.item_type, columns)]
        entries = pa.struct([kind.key_field, kind.item_field])
        inner = pa.Array.from_buffers(entries, len(pair[0]), [None], 0, 0, pair)
        return pa.Array.from_buffers(kind, rows, [known, places], nulls, 0, [inner])
    buffers = [known, pa.py_buffer(data)] if places is None else [known, places, pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, rows, buffers, nulls)
