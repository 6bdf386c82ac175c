"""The shapes in which the twins of the Arrow kernel hand out their columns: the buffers of Arrow's own layout."""

from __future__ import annotations

from typing import Final, NamedTuple

MAX_OFFSET: Final = (1 << 63) - 1
MAX_MICROS_IN_MS: Final = MAX_OFFSET // 1000
"""The largest timestamp in milliseconds that is still one in microseconds, which is what Arrow columns have."""

TOO_LATE: Final = "a record's timestamp has no place in a column of microseconds"


class BinaryColumn(NamedTuple):
    """A column of bytes that may be null; the offsets are 32 bits wide, one more than there are rows."""

    rows: int
    nulls: int
    validity: memoryview
    offsets: memoryview
    data: memoryview


class HeaderColumn(NamedTuple):
    """A column of lists of (name, content); a record without headers is null, as in Spark's Kafka source."""

    rows: int
    nulls: int
    validity: memoryview
    offsets: memoryview
    names: BinaryColumn
    contents: BinaryColumn
