"""A pipeline in Dagster: the tables of a project are assets, what is new is read every hour, and nights are for upkeep.

    KAVKA_PIPELINE=my-pipeline dagster dev -f examples/dagster_pipeline.py

A run is `kavka pipeline run --once`: it goes on where the last one ended, and may be killed and tried again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from kavka.spark.pipelines.spec import load


def kavka(command: str, folder: Path, *options: str) -> str:
    """Run a command of `kavka pipeline`; what it prints. A failure is told by its last line."""
    line = [sys.executable, "-m", "kavka", "pipeline", command, str(folder), *options]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise dg.Failure(f"kavka pipeline {command}: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout


def definitions(folder: Path) -> dg.Definitions:
    """The assets, jobs and schedules of a project."""
    flows = [flow for flow in load(folder).flows if flow.sink.table is not None]
    topics = {flow.name: dg.AssetKey(["topics", flow.source.topic or flow.source.pattern or ""]) for flow in flows}
    retries = dg.RetryPolicy(max_retries=3, delay=60, backoff=dg.Backoff.EXPONENTIAL)

    @dg.multi_asset(
        specs=[dg.AssetSpec(flow.name, deps=[topics[flow.name]], kinds={"spark"}) for flow in flows],
        retry_policy=retries,
    )
    def tables() -> Iterator[dg.MaterializeResult[Any]]:
        """Read everything that is new."""
        kavka("run", folder, "--once")
        known = {flow.name for flow in flows}
        for row in json.loads(kavka("status", folder, "--output", "json")):
            if row["flow"] in known:
                facts = {"rows": row["table_rows"], "files": row["table_files"], "lag": row["lag"]}
                yield dg.MaterializeResult(asset_key=row["flow"], metadata=facts)

    @dg.op
    def look_after() -> None:
        """Make few large files of many small ones, and delete what only old versions have."""
        for command in ("compact", "vacuum"):
            dg.get_dagster_logger().info(kavka(command, folder))

    @dg.job
    def upkeep() -> None:
        look_after()

    hourly = dg.define_asset_job("hourly", selection=[flow.name for flow in flows])
    return dg.Definitions(
        assets=[tables],
        jobs=[hourly, upkeep],
        schedules=[
            dg.ScheduleDefinition(job=hourly, cron_schedule="5 * * * *"),
            dg.ScheduleDefinition(job=upkeep, cron_schedule="30 3 * * *"),
        ],
    )


@dg.definitions
def defs() -> dg.Definitions:
    """What Dagster looks for in this file."""
    return definitions(Path(os.environ.get("KAVKA_PIPELINE", ".")))
