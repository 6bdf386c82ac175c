"""A script as people start it: by the Python of an environment that nobody has activated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kavka.spark.java import java_home

JOB = """
import kavka.spark
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
reader = spark.read.format("kavka").option("kafka.bootstrap.servers", "127.0.0.1:1").option("subscribe", "t")
print("columns:", reader.load().columns)
spark.stop()
"""


def test_a_script_needs_no_activated_environment(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'a Python without our packages' >&2\nexit 1\n")
    other.chmod(0o755)
    environment = {name: each for name, each in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environment |= {"PATH": f"{other.parent}:/usr/bin:/bin", "JAVA_HOME": str(java_home())}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "job.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "columns: ['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'timestampType']" in done.stdout
