"""JSON objects to the buffers of Arrow columns. The compiled kernel, or its twin where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.kernels import COMPILED

if TYPE_CHECKING or not COMPILED:  # both have one interface; the twin's annotations describe it
    from kavka.kernels.plain_json import JsonColumns
else:
    try:
        from kavka.kernels._json import JsonColumns
    except ImportError:  # the kernels of a node are built, this one is not
        from kavka.kernels.plain_json import JsonColumns

__all__ = ["JsonColumns"]
