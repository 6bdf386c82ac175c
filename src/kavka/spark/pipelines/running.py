"""Whether a project's pipeline runs: a lock on a file, which its process holds and no death leaves behind."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LOCK: Final = ".kavka/running"
RESTARTS: Final = ".kavka/restart"
_PATIENCE_SECONDS: Final = 2.0


class AlreadyRunningError(RuntimeError):
    """The pipeline of this folder runs in another process."""


@contextlib.contextmanager
def running(folder: Path) -> Iterator[None]:
    """Be the one process that runs a project's pipeline."""
    path = folder / LOCK
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not _taken(fd):  # one that only looks holds it for a moment
            if time.monotonic() > deadline:
                raise AlreadyRunningError(f"the pipeline in {folder} runs already")
            time.sleep(0.05)
        yield
    finally:
        os.close(fd)


def is_running(folder: Path) -> bool:
    """Whether a process runs a project's pipeline now."""
    try:
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _taken(fd)
    finally:
        os.close(fd)


def ask_restart(folder: Path, flow: str) -> None:
    """Ask the process that runs a project's pipeline to start a flow again."""
    path = folder / RESTARTS / flow
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def asked_restarts(folder: Path) -> list[str]:
    """The flows that are to be started again; each is told once."""
    asked = folder / RESTARTS
    if not asked.is_dir():
        return []
    found = sorted(asked.iterdir())
    for path in found:
        path.unlink()
    return [path.name for path in found]


def _taken(fd: int) -> bool:
    import fcntl

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
