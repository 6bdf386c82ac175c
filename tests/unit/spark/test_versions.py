"""A Spark that is too old is refused with a line that says what to do."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pyspark.version
import pytest

import pyspark_kavka
from kavka.spark import session
from kavka.spark.datasource import KavkaDataSource
from kavka.spark.versions import SparkVersionError, check_version


def test_only_versions_that_have_what_the_source_is_made_of_are_taken() -> None:
    for fine in ("4.3.0", "4.3.1.dev0", "4.10.0", "5.0.0"):
        check_version(fine)
    for old in ("3.5.1", "4.0.0", "4.2.9"):
        with pytest.raises(SparkVersionError, match=rf"Kavka needs Spark 4\.3 or newer, and this is {old}: "):
            check_version(old)


def test_the_source_says_so_where_spark_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr(pyspark.version, "__version__", "4.1.2")
        older.delitem(sys.modules, "kavka.spark.too_old", raising=False)
        found = importlib.reload(pyspark_kavka).DefaultSource
        assert found.name() == "kavka"
        with pytest.raises(SparkVersionError, match=r"this is 4\.1\.2"):
            found({})
    assert importlib.reload(pyspark_kavka).DefaultSource is KavkaDataSource


def test_a_session_is_not_even_begun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(session, "pyspark_version", lambda: "4.0.1")
    monkeypatch.setattr(session, "java_home", lambda: tmp_path / "not asked for")
    with pytest.raises(SparkVersionError):
        session.start("tests")
