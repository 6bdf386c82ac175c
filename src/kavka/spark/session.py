"""Starting Spark so that it starts fast, is small, and finds Java and our data source."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kavka.model.properties import parse_properties
from kavka.spark import ship as travel
from kavka.spark.cache import cache_dir
from kavka.spark.home import spark_home
from kavka.spark.java import java_home, java_version
from kavka.spark.versions import check_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Batches of 10,000 small rows are mostly overhead between the JVM and Python; whole megabytes are not.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
}
LOCAL_DEFAULTS: Final[Mapping[str, str]] = {
    **DEFAULTS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""Where Spark runs in the driver's own process; a cluster has settings of its own for these."""
_ARCHIVES: Final = 2
_JVM: Final = (
    "-XX:+UseSerialGC -Xshare:auto -Xlog:disable "
    f"-Dlog4j2.configurationFile=file:{Path(__file__).with_name('log4j2.properties')}"
)


def start(
    app: str,
    *,
    master: str = "local[2]",
    memory: str = "1g",
    conf: Mapping[str, str] | None = None,
    ship: Sequence[str] = (),
) -> SparkSession:
    """A Spark session; on a cluster the kavka package and its kernels travel with it.

    One that is there already is the session, and only `conf` changes it.
    """
    check_version(pyspark_version())
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        return _configured(SparkSession.builder, conf or {}).getOrCreate()
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    # Executors would take the first python3 of the PATH, which need not be the one that has our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not travel.is_remote(master):
        os.environ["SPARK_HOME"] = str(spark_home())
    defaults = {"spark.driver.memory": memory, **jvm_options(home), **defaults_for(master)}
    theirs = set_by_others()
    settings = {name: value for name, value in defaults.items() if name not in theirs}
    if travel.is_remote(master):
        settings.update(travel.settings(travel.archive(cache_dir(), ship)))
    settings.update(conf or {})
    session = _configured(SparkSession.builder.appName(app).master(master), settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def defaults_for(master: str) -> Mapping[str, str]:
    """Settings that suit our jobs, where nobody has set them."""
    return DEFAULTS if travel.is_remote(master) else LOCAL_DEFAULTS


def set_by_others() -> frozenset[str]:
    """The names of settings that `spark-submit` or a `spark-defaults.conf` has set."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit started us, and its JVM knows
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        return frozenset(name for name, _ in SparkConf().getAll())
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    path = None if folder is None else Path(folder, "spark-defaults.conf")
    return frozenset(parse_properties(path.read_text(encoding="utf-8"))) if path and path.is_file() else frozenset()


def jvm_options(home: Path) -> dict[str, str]:
    """Flags that make a small JVM start sooner: one collector thread, and the classes of the last start kept in a file.

    A JVM that finds the file unusable goes on without it.
    """
    version = java_version(home)
    # The file is of use to a JVM with the same jars in the same place.
    place = hashlib.sha256(os.environ.get("SPARK_HOME", sys.prefix).encode()).hexdigest()[:8]
    archive = cache_dir() / f"spark-{pyspark_version()}-java-{version}-{place}.jsa"
    if not archive.exists():
        _keep_few(archive.parent)
    if version >= 19:
        flags = f"{_JVM} -XX:+AutoCreateSharedArchive -XX:SharedArchiveFile={archive}"
    elif archive.exists():
        flags = f"{_JVM} -XX:SharedArchiveFile={archive}"
    else:
        flags = f"{_JVM} -XX:ArchiveClassesAtExit={archive}"
    return {"spark.driver.extraJavaOptions": flags}


def _keep_few(folder: Path) -> None:
    """Delete all but the newest of these files, each of which is large."""
    found = sorted(folder.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime)
    for path in found[:-_ARCHIVES]:
        path.unlink(missing_ok=True)


def pyspark_version() -> str:
    """The version of the installed PySpark."""
    return importlib.metadata.version("pyspark")
