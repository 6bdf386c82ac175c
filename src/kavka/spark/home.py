"""A home for Spark on this machine whose Python starts sooner.

Spark's Python processes import PySpark from `python/lib/pyspark.zip`, where nothing is compiled: each of them takes a
second longer for it, and one that takes ten is given up. Here folders stand in the place of the archives, with links to
the installed packages, which are compiled. Everything else is a link to the real home.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import shutil
from pathlib import Path

from kavka.spark.cache import cache_dir


def spark_home() -> Path:
    """The home to use: one that the user chose, or ours."""
    chosen = os.environ.get("SPARK_HOME")
    return Path(chosen) if chosen else linked(_package("pyspark"), _package("py4j"), cache_dir())


def linked(pyspark: Path, py4j: Path, folder: Path) -> Path:
    """A home made of links; the real one where it cannot be made or PySpark is not as it is expected to be."""
    archives = sorted((pyspark / "python" / "lib").glob("*.zip"))
    packages = {archive.name: pyspark if archive.name == "pyspark.zip" else py4j for archive in archives}
    if [archive for archive in packages if not archive.startswith(("pyspark.zip", "py4j-"))] or len(packages) != 2:
        return pyspark
    known = "\n".join([str(pyspark), str(py4j), *packages])
    home = folder / f"spark-home-{hashlib.sha256(known.encode()).hexdigest()[:16]}"
    if home.is_dir():
        return home
    fresh = home.with_name(f"{home.name}.{os.getpid()}")
    try:
        library = fresh / "python" / "lib"
        library.mkdir(parents=True)
        for entry in pyspark.iterdir():
            if entry.name in ("bin", "sbin", "jars", "RELEASE"):
                (fresh / entry.name).symlink_to(entry)
        for name, package in packages.items():
            (library / name).mkdir()
            (library / name / package.name).symlink_to(package)
        with contextlib.suppress(OSError):  # another process was faster
            fresh.rename(home)
    except OSError:
        pass
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return home if home.is_dir() else pyspark


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"{name} is not installed: pip install 'kavka[spark]'")
    return Path(spec.origin).parent
