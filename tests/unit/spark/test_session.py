"""Settings of a session: ours only where nobody else has set them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.spark.session import defaults_for, set_by_others


def test_a_cluster_keeps_its_own_ui_and_shuffles() -> None:
    assert defaults_for("local[2]")["spark.sql.shuffle.partitions"] == "2"
    for name in ("spark.ui.enabled", "spark.sql.shuffle.partitions"):
        assert name not in defaults_for("spark://host:7077")
    assert defaults_for("yarn")["spark.sql.session.timeZone"] == "UTC"


def test_what_spark_defaults_say_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert set_by_others() == frozenset()
    (tmp_path / "spark-defaults.conf").write_text("# ours\nspark.ui.enabled   true\nspark.driver.memory=4g\n")
    assert set_by_others() == {"spark.ui.enabled", "spark.driver.memory"}
