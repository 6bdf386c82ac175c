"""Records to the buffers of Arrow columns. The compiled kernel, or its twin where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.kernels import COMPILED
from kavka.kernels.arrow_layout import MAX_OFFSET, BinaryColumn, HeaderColumn

if TYPE_CHECKING or not COMPILED:  # both have one interface; the twin's annotations describe it
    from kavka.kernels.plain_arrow import RecordColumns
else:
    try:
        from kavka.kernels._arrow import RecordColumns
    except ImportError:  # the kernels of a node are built, this one is not
        from kavka.kernels.plain_arrow import RecordColumns

__all__ = ["MAX_OFFSET", "BinaryColumn", "HeaderColumn", "RecordColumns"]
