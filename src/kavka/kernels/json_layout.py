"""What the JSON kernel and its twin share: the kinds of columns, how a schema is said, and what comes out."""

from __future__ import annotations

from typing import Final, NamedTuple

BOOLEAN: Final = 1
INTEGER: Final = 2
FLOAT: Final = 3
DOUBLE: Final = 4
DECIMAL: Final = 5
TEXT: Final = 6
BINARY: Final = 7
DATE: Final = 8
MOMENT: Final = 9
LOCAL_MOMENT: Final = 10
LIST: Final = 11
MAP: Final = 12
STRUCT: Final = 13


class Node(NamedTuple):
    """One column of a schema, which is a list of them: each parent before its children, the struct of a row first."""

    kind: int
    parent: int
    """Its place among the nodes, -1 for the first."""
    name: bytes
    """The name of a struct's field in UTF-8; what a list or a map has below it has none."""
    nullable: bool
    width: int = 0
    """Bytes of an integer."""
    precision: int = 0
    scale: int = 0


class Column(NamedTuple):
    """The buffers of an Arrow array; those that its kind does not have are None, and validity where nothing is null."""

    rows: int
    nulls: int
    validity: bytes | None
    offsets: bytes | None
    data: bytes | None
