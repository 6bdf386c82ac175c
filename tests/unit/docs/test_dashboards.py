"""The dashboards in deploy/grafana: made by the tool, and readable by Grafana and Prometheus."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import promql_parser
import pytest
from grafana_foundation_sdk.models.dashboard import Dashboard

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "deploy" / "grafana").glob("*.json"))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_dashboards", ROOT / "tools" / "gen_dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_files_are_what_the_tool_writes(tool: ModuleType) -> None:
    assert tool.main(["--check"]) == 0, "run python tools/gen_dashboards.py"
    assert {path.stem for path in FILES} == {dashboard.uid for dashboard in tool.DASHBOARDS}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_grafanas_own_library_loads_them(path: Path) -> None:
    loaded = Dashboard.from_json(json.loads(path.read_text()))
    assert loaded.uid == path.stem
    assert loaded.panels
    assert len({panel.id_val for panel in loaded.panels}) == len(loaded.panels)


def test_no_two_panels_lie_on_each_other() -> None:
    for path in FILES:
        taken: set[tuple[int, int]] = set()
        for panel in json.loads(path.read_text())["panels"]:
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken, (path.name, panel["title"])
            taken |= cells


def test_prometheus_grammar_takes_every_expression(tool: ModuleType) -> None:
    found = list(tool.expressions())
    assert len(found) > 50
    for expression in found:
        parsed = promql_parser.parse(expression.replace("$__rate_interval", "5m"))
        assert isinstance(parsed, promql_parser.Expr)
