"""Records to the buffers of Arrow columns, in plain Python: the fallback and the oracle of the compiled kernel.

A batch's records are decoded into columns that grow; `clear` empties them but keeps their memory, because fresh memory
costs more than the decoding. What was handed out before a `clear` must not be used after it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kavka.kernels.arrow_layout import MAX_MICROS_IN_MS, MAX_OFFSET, TOO_LATE, BinaryColumn, HeaderColumn
from kavka.kernels.layout import Buffer, Header, RecordFields
from kavka.kernels.plain_batches import BatchInfo, read_records
from kavka.model.errors import InvalidRecord


class _Binary:
    """One growing column of bytes."""

    __slots__ = ("data", "nulls", "offsets", "rows", "validity")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.rows = 0
        self.nulls = 0
        self.validity = bytearray()
        self.offsets = array("i", [0])
        self.data = bytearray()

    def append(self, value: bytes | None) -> None:
        if not self.rows & 7:
            self.validity.append(0)
        if value is None:
            self.nulls += 1
        else:
            self.validity[-1] |= 1 << (self.rows & 7)
            self.data += value
        self.rows += 1
        self.offsets.append(len(self.data))

    def column(self) -> BinaryColumn:
        return BinaryColumn(
            self.rows,
            self.nulls,
            memoryview(bytes(self.validity)),
            memoryview(self.offsets.tobytes()),
            memoryview(bytes(self.data)),
        )


class RecordColumns:
    """The columns of decoded records: offsets, timestamps and their type always, the others as asked for."""

    def __init__(self, keys: bool = True, values: bool = True, headers: bool = False) -> None:
        self._keys = _Binary() if keys else None
        self._values = _Binary() if values else None
        self._has_headers = headers
        self._names = _Binary()
        self._contents = _Binary()
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.rows = 0
        self._offsets = array("q")
        self._timestamps = array("q")
        self._types = array("i")
        self._lists = _Binary()
        for column in (self._keys, self._values, self._names, self._contents):
            if column is not None:
                column.clear()

    @property
    def size(self) -> int:
        """How many bytes of keys, values and headers the columns hold."""
        columns = (self._keys, self._values, self._names, self._contents)
        return sum(len(column.data) for column in columns if column is not None)

    def append(
        self, buf: Buffer, info: BatchInfo, first: int = 0, after: int = MAX_OFFSET, pos: int = 0, end: int = -1
    ) -> int:
        """Decode a batch's payload; its records from offset `first` to before `after` become rows. How many did.

        InvalidRecord, and no row, unless the payload is exactly the records that the batch says it has.
        """
        records = [record for record in read_records(buf, info, pos, end) if first <= record[0] < after]
        if any(abs(record[1]) > MAX_MICROS_IN_MS for record in records):
            raise InvalidRecord(TOO_LATE)
        kind = int(info.is_log_append_time)
        for record in records:
            self._append(record, kind)
        return len(records)

    def offsets(self) -> memoryview:
        """The offsets, as 64 bit integers."""
        return memoryview(self._offsets.tobytes())

    def timestamps(self) -> memoryview:
        """The timestamps in microseconds, as 64 bit integers."""
        return memoryview(self._timestamps.tobytes())

    def timestamp_types(self) -> memoryview:
        """0 where the producer set the time and 1 where the broker did, as 32 bit integers."""
        return memoryview(self._types.tobytes())

    def keys(self) -> BinaryColumn:
        """The keys."""
        return _asked_for(self._keys).column()

    def values(self) -> BinaryColumn:
        """The values."""
        return _asked_for(self._values).column()

    def headers(self) -> HeaderColumn:
        """The headers."""
        if not self._has_headers:
            raise ValueError("this column was not asked for")
        rows, nulls, validity, offsets, _ = self._lists.column()
        return HeaderColumn(rows, nulls, validity, offsets, self._names.column(), self._contents.column())

    def _append(self, record: RecordFields, kind: int) -> None:
        offset, timestamp, key, value, headers = record
        self._offsets.append(offset)
        self._timestamps.append(timestamp * 1000)
        self._types.append(kind)
        if self._keys is not None:
            self._keys.append(key)
        if self._values is not None:
            self._values.append(value)
        if self._has_headers:
            self._append_headers(headers)
        self.rows += 1

    def _append_headers(self, headers: Sequence[Header]) -> None:
        self._lists.append(b"" if headers else None)
        for name, content in headers:
            self._names.append(name.encode())
            self._contents.append(content)
        self._lists.offsets[-1] = self._names.rows


def _asked_for(column: _Binary | None) -> _Binary:
    if column is None:
        raise ValueError("this column was not asked for")
    return column
