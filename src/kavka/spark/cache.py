"""Where files are kept that make the next start faster: only their owner may write there, for some of them are run."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path


@functools.cache
def cache_dir() -> Path:
    """A folder below the user's cache; one that lives as long as the process where there is no such place."""
    named = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(named) if named else Path.home() / ".cache") / "kavka"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # no home, or one that nobody can write to
        pass
    made = tempfile.mkdtemp(prefix="kavka-cache-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)
