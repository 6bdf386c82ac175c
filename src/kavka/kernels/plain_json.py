"""JSON objects to the buffers of Arrow columns, in plain Python: the fallback of the compiled kernel.

The kernel reads the objects that are written as most are, and leaves the others to whoever called it, who knows all the
rules. What it may leave is its own choice; so the twin leaves everything, and the caller's own decoder is the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence

from kavka.kernels.json_layout import Column, Node
from kavka.kernels.layout import Buffer


class JsonColumns:
    """Columns by a schema, made anew by each `read`."""

    READS = False
    """Whether any object is read here, and not left."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = len(nodes)

    def read(self, offsets: Buffer, data: Buffer, rows: int, first: int, validity: Buffer | None) -> list[int]:
        """Read the rows of a binary Arrow array from `first` on; which of them were left, and are null for now."""
        return list(range(rows))

    def columns(self) -> list[Column]:
        """What was read, a column for each node."""
        return [Column(0, 0, None, None, None)] * self._nodes
