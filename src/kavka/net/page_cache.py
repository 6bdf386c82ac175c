"""What of a file is in the page cache, so that sending it does not hold the loop."""

from __future__ import annotations

import errno
import os
from typing import Final

from kavka.model.types import FileSlice

PROBE_STEP: Final = 512 * 1024
"""One byte in this many, and the last, tell whether a range is cached: what is evicted goes in long runs."""


def cached(fd: int, position: int, length: int) -> bool:
    """Whether a range of a file is in the page cache, by probing a byte here and there."""
    probe = [bytearray(1)]
    try:
        for at in range(position, position + length, PROBE_STEP):
            os.preadv(fd, probe, at, os.RWF_NOWAIT)
        os.preadv(fd, probe, position + length - 1, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            return True  # this file system cannot tell: let sendfile try
        raise
    return True


def read_cached(piece: FileSlice) -> bytearray | None:
    """A slice's bytes if they are all in the page cache."""
    data = bytearray(piece.length)
    try:
        return data if os.preadv(piece.file.fileno(), [data], piece.position, os.RWF_NOWAIT) == len(data) else None
    except OSError:
        return None  # not cached, or not readable: the ordinary way will see


def warm(fd: int, position: int, length: int) -> None:
    """Bring a range of a file into the page cache (runs in a thread)."""
    scratch = bytearray(min(length, 1 << 20))
    end = position + length
    while position < end:
        got = os.preadv(fd, [memoryview(scratch)[: min(len(scratch), end - position)]], position)
        if got <= 0:
            return
        position += got
