"""The home that Spark's Python starts sooner in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kavka.spark.home import linked


@pytest.fixture
def installed(tmp_path: Path) -> tuple[Path, Path]:
    pyspark, py4j = tmp_path / "site" / "pyspark", tmp_path / "site" / "py4j"
    for path in (pyspark / "bin" / "spark-submit", pyspark / "python" / "lib" / "pyspark.zip", py4j / "__init__.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (pyspark / "python" / "lib" / "py4j-1-src.zip").touch()
    (pyspark / "__init__.py").touch()
    return pyspark, py4j


def test_packages_stand_where_spark_looks_for_archives(tmp_path: Path, installed: tuple[Path, Path]) -> None:
    home = linked(*installed, tmp_path / "cache")
    assert (home / "bin" / "spark-submit").exists()
    assert (home / "python" / "lib" / "pyspark.zip" / "pyspark" / "__init__.py").exists()
    assert (home / "python" / "lib" / "py4j-1-src.zip" / "py4j" / "__init__.py").exists()
    assert linked(*installed, tmp_path / "cache") == home
    assert list((tmp_path / "cache").iterdir()) == [home]


def test_a_pyspark_that_is_made_otherwise_is_used_as_it_is(tmp_path: Path, installed: tuple[Path, Path]) -> None:
    (installed[0] / "python" / "lib" / "another.zip").touch()
    assert linked(*installed, tmp_path / "cache") == installed[0]


def test_the_real_home_is_used_where_no_links_can_be_made(tmp_path: Path, installed: tuple[Path, Path]) -> None:
    (tmp_path / "file").touch()
    assert linked(*installed, tmp_path / "file") == installed[0]


def test_spark_looks_for_sources_with_the_python_that_has_them() -> None:
    program = "import os, kavka.spark; print(os.environ.get('PYSPARK_PYTHON'))"

    def told(**given: str) -> str:
        environment = {name: each for name, each in os.environ.items() if not name.startswith("PYSPARK_")}
        asked = subprocess.run(
            [sys.executable, "-c", program], env={**environment, **given}, capture_output=True, text=True, check=True
        )
        return asked.stdout.strip()

    assert told() == sys.executable
    assert told(PYSPARK_PYTHON="python3.11") == "python3.11"
    assert told(PYSPARK_DRIVER_PYTHON="python3.11") == "None", "somebody has thought of it"
    assert told(PYSPARK_GATEWAY_PORT="1") == "None", "the JVM runs already, and executors may be elsewhere"
