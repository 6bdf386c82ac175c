"""A project as a Spark Declarative Pipeline: scheduled runs that read what is there and stop.

Spark owns the tables then: a flow into a table becomes a streaming table of Spark's catalog, one into a topic a sink.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

from kavka.spark.java import java_home
from kavka.spark.pipelines.flows import upserts
from kavka.spark.pipelines.spec import Pipeline, SpecError
from kavka.spark.session import LOCAL_DEFAULTS

_YAML: Final = """\
name: {name}
libraries:
  - glob:
      include: definitions.py
storage: file://{storage}
"""
_PYTHON: Final = '''\
"""Made from pipeline.yaml; changes here are lost."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from kavka.spark.pipelines.flows import as_records, sink_settings, streaming_frame
from kavka.spark.pipelines.spec import load

spark = SparkSession.active()
pipeline = load(Path({folder!r}), {bootstrap!r})


def define(flow):
    frame = streaming_frame(spark, pipeline, flow)  # not in a query function, where no schema may be asked for
    if flow.sink.topic is None:
        dp.table(lambda: frame, name=flow.name)
        return
    records = as_records(frame, flow.sink.format)
    dp.create_sink(flow.name, "kavka", sink_settings(pipeline, flow.sink))
    dp.append_flow(target=flow.name, name=flow.name)(lambda: records)


for each in pipeline.flows:
    define(each)
'''


def write_project(pipeline: Pipeline) -> Path:
    """Write what `spark-pipelines` reads; returns its spec."""
    merged = next((flow.name for flow in pipeline.flows if upserts(flow)), None)
    if merged is not None:
        raise SpecError(f"flow {merged} has upserts: a Spark Declarative Pipeline would add its rows, deletions too")
    folder = pipeline.folder / ".kavka" / "declarative"
    storage = folder / "storage"
    storage.mkdir(parents=True, exist_ok=True)
    named = {"folder": str(pipeline.folder), "bootstrap": str(pipeline.bootstrap)}
    (folder / "definitions.py").write_text(_PYTHON.format(**named))
    path = folder / "spark-pipeline.yml"
    path.write_text(_YAML.format(name=pipeline.name, storage=storage))
    return path


def run_declarative(pipeline: Pipeline, master: str, *, dry: bool = False) -> int:
    """Run it with Spark's own program; its exit code."""
    spec = write_project(pipeline)
    folder = spec.parent
    settings = {
        **LOCAL_DEFAULTS,
        # Spark's in-memory catalog forgets the tables of the last run and then finds their files in its way.
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'metastore'};create=true",
        **pipeline.spark,
    }
    program = Path(sys.executable).with_name("spark-pipelines")
    command = [str(program), "dry-run" if dry else "run", "--spec", str(spec), "--remote", master]
    told = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        # Of settings on the command line Spark's program passes on some ten, whichever they are.
        "PYSPARK_SUBMIT_ARGS": shlex.join([*told, "pyspark-shell"]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    return subprocess.run(command, env=environment, cwd=folder, check=False).returncode
