"""Spark's Python workers, between two tasks."""

from __future__ import annotations

import gc
import sys

_WORKER = "pyspark.worker"
_settled = False


def settle() -> None:
    """Leave what a worker has loaded by now out of garbage collection.

    Spark collects after every task, and going through the modules of PySpark, Arrow and ours takes 50 ms of CPU time,
    more than most tasks of a stream take. What tasks leave behind is collected as before.
    """
    global _settled
    if _settled or _WORKER not in sys.modules:
        return
    _settled = True
    gc.collect()
    gc.freeze()
