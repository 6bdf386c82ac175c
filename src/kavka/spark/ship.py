"""What travels with a job to a cluster whose Python has pyspark alone: kavka, its kernels, and what they import.

Compiled modules cannot be imported from a zip file, so the archive is one that Spark unpacks beside each executor, and
the executors' PYTHONPATH names the folder it is unpacked to.
"""

from __future__ import annotations

import hashlib
import importlib.util
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

FOLDER: Final = "kavka_job"
ALWAYS: Final = ("kavka", "pyspark_kavka")
_KEPT_SECONDS: Final = 3600  # a job that started may still send an older one to its executors
LIBRARIES: Final = ("lz4", "zstandard", "cramjam", "crc32c", "uvloop", "fastavro", "orjson", "obstore")
"""What the reading and writing of topics imports; only those that are installed here can travel."""


def is_remote(master: str) -> bool:
    """Whether executors run elsewhere than in the driver's own process."""
    return not master.startswith("local[") and master != "local"


def settings(archive: Path) -> dict[str, str]:
    """What makes Spark send the archive and executors find it."""
    return {
        "spark.archives": f"{archive}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": FOLDER,
    }


def archive(folder: Path, extra: Sequence[str] = ()) -> Path:
    """The archive, made anew only when what is in it has changed."""
    files = sorted(_files((*ALWAYS, *LIBRARIES, *extra)))
    digest = hashlib.sha256()
    for name, path in files:
        digest.update(f"{name}:{path.stat().st_size}:{path.stat().st_mtime_ns}\n".encode())
    target = folder / f"kavka-job-{digest.hexdigest()[:16]}.zip"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(".new")
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
            for name, path in files:
                out.write(path, name)
        fresh.replace(target)
        for old in folder.glob("kavka-job-*.zip"):
            if old != target and time.time() - old.stat().st_mtime > _KEPT_SECONDS:
                old.unlink(missing_ok=True)
    return target


def _files(packages: Sequence[str]) -> Iterator[tuple[str, Path]]:
    for package in dict.fromkeys(packages):
        spec = importlib.util.find_spec(package)
        if spec is None:
            if package in LIBRARIES:
                continue
            raise LookupError(f"{package} is to travel with the job, and is not installed here")
        for root in spec.submodule_search_locations or ():
            yield from _below(Path(root), package)
            yield from _libraries(Path(root), package)
        if spec.submodule_search_locations is None and spec.origin is not None:
            yield Path(spec.origin).name, Path(spec.origin)


def _below(root: Path, package: str) -> Iterator[tuple[str, Path]]:
    for path in root.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".c", ".pyi", ".h", ".pxd"):
            yield f"{package}/{path.relative_to(root).as_posix()}", path


def _libraries(root: Path, package: str) -> Iterator[tuple[str, Path]]:
    """What some wheels keep beside their package: shared libraries, and metadata that tells their version."""
    for metadata in root.parent.glob(f"{package}-*.dist-info/METADATA"):
        yield f"{metadata.parent.name}/{metadata.name}", metadata
    beside = root.parent / f"{package}.libs"
    if beside.is_dir():
        yield from _below(beside, f"{package}.libs")
