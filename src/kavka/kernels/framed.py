"""Which schemas a batch's records name. The compiled kernel, or its twin where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.kernels import COMPILED

if TYPE_CHECKING or not COMPILED:  # both have one interface; the twin's annotations describe it
    from kavka.kernels.plain_framed import FrameScan
else:
    from kavka.kernels._framed import FrameScan

__all__ = ["FrameScan"]
