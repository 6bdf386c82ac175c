"""The example of a pipeline in Dagster: its assets are the tables, and a run of them fills these."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from kavka.client.blocking import Client
from kavka.testing import Cluster

dagster = pytest.importorskip("dagster", reason="dagster is not installed")
EXAMPLE = Path(__file__).parents[2] / "examples" / "dagster_pipeline.py"
SPEC = """
bootstrap: {bootstrap}
flows:
  - name: orders
    source: {{topic: {topic}, format: json, schema: "id BIGINT"}}
    sink: {{table: {{path: table}}}}
"""


def test_a_run_fills_the_tables_and_tells_how_they_are(
    node: Cluster, client: Client, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()
    with client.producer() as producer:
        for number in range(20):
            producer.send(name, json.dumps({"id": number}).encode())
    (tmp_path / "pipeline.yaml").write_text(SPEC.format(bootstrap=node.bootstrap, topic=name))
    definitions = runpy.run_path(str(EXAMPLE))["definitions"](tmp_path)
    done = definitions.resolve_job_def("hourly").execute_in_process()
    assert done.success
    (event,) = done.asset_materializations_for_node("tables")
    assert event.asset_key.path == ["orders"]
    assert {key: value.value for key, value in event.metadata.items()} == {"rows": 20, "files": 2, "lag": 0}
    assert definitions.resolve_job_def("upkeep").execute_in_process().success
