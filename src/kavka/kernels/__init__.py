"""The compiled inner loops, each with a plain-Python twin of the same interface.

A kernel `x` is two modules: `plain_x` (the twin) and `_x` (Cython in pure-Python syntax, of use only where it could be
built). Everyone else imports `batches` and `frames`, which choose; `KAVKA_PURE=1` chooses the twins.
"""

from __future__ import annotations

import os


def _compiled() -> bool:
    if os.environ.get("KAVKA_PURE", "0") not in ("", "0"):
        return False
    try:
        import kavka.kernels._batches
        import kavka.kernels._framed
        import kavka.kernels._frames
        import kavka.kernels._responses
        import kavka.kernels._walk  # noqa: F401
    except ImportError:
        return False
    return True


COMPILED = _compiled()
"""Whether the compiled kernels are in use."""
