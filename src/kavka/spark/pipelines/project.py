"""A project's folder: what `init` writes, and how its functions are found."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kavka.spark.pipelines.spec import FILE, Flow, Pipeline, SpecError

YAML: Final = """\
# A Kavka pipeline: `kavka pipeline run` reads topics, transforms them with Spark, writes topics and lake tables.
name: {name}
bootstrap: {bootstrap}
checkpoint: .kavka/checkpoint   # where the pipeline remembers what it has read
trigger: 2 seconds              # or: available-now

flows:
  - name: orders
    source:
      topic: orders
      format: json
      schema: "id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP"
      dead_letters: orders-dead   # records that do not fit the schema go here
    transform: functions:clean
    sink:
      table:
        format: delta             # or iceberg, or parquet
        path: tables/orders
        partition_by: [day]
"""
FUNCTIONS: Final = '''\
"""The transformations of this pipeline: each takes a DataFrame and returns one."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def clean(orders: DataFrame) -> DataFrame:
    """Keep real orders; add the day that the table is partitioned by."""
    return orders.where("amount > 0").withColumn("day", F.date_format("at", "yyyy-MM-dd"))
'''


def create(folder: Path, name: str, bootstrap: str) -> list[Path]:
    """Write a new project; what is there already is left alone and is an error."""
    files = {folder / FILE: YAML.format(name=name, bootstrap=bootstrap), folder / "functions.py": FUNCTIONS}
    for path in files:
        if path.exists():
            raise SpecError(f"{path} exists already")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text)
    return list(files)


def transformation(pipeline: Pipeline, flow: Flow) -> Callable[[Any], Any]:
    """The function of a flow, from the project's folder; without one the data stays as it is."""
    if flow.transform is None:
        return lambda frame: frame
    module_name, colon, name = flow.transform.partition(":")
    path = pipeline.folder / f"{module_name.replace('.', '/')}.py"
    if not colon or not path.is_file():
        raise SpecError(f"flow {flow.name}: transform is MODULE:FUNCTION, and there is no {path}")
    spec = importlib.util.spec_from_file_location(f"kavka_pipeline_{module_name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise SpecError(f"flow {flow.name}: {path} has no function {name!r}")
    found: Callable[[Any], Any] = function
    return found
