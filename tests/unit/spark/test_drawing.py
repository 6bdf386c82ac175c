"""The drawing of a pipeline: every topic, flow and table once, nothing over another, and XML whatever the names are."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from kavka.spark.pipelines.drawing import drawing
from kavka.spark.pipelines.spec import load, parse

SVG = "{http://www.w3.org/2000/svg}"
ORDERS = Path(__file__).parents[3] / "examples" / "orders"


def shown(text: str) -> tuple[list[str], list[dict[str, Any]], int]:
    page = ElementTree.fromstring(text)
    names = [each.text or "" for each in page.iter(f"{SVG}text") if each.get("class") is None]
    boxes = [dict(each.attrib) for each in page.iter(f"{SVG}rect")]
    ways = sum(each.get("class") == "way" for each in page.iter(f"{SVG}path"))
    return names, boxes, ways


def test_the_demos_pipeline_is_drawn_from_left_to_right() -> None:
    pipeline = load(ORDERS)
    names, boxes, ways = shown(drawing(pipeline, {"orders-dead": "7 dead letters"}))
    assert sorted(names) == sorted(
        ["orders", "orders", "orders", "orders-dead", "revenue", "revenue", "revenue-table", "revenue"]
        + ["customers"] * 3
    )
    assert ways == 2 * len(pipeline.flows) + 1
    at = [(int(box["x"]), int(box["y"])) for box in boxes]
    for (x, y), (other_x, other_y) in combinations(at, 2):
        assert abs(x - other_x) >= 168 or abs(y - other_y) >= 52
    assert [box["class"] for box in boxes if int(box["x"]) == min(x for x, _ in at)] == ["topic", "topic"]


def test_names_and_figures_may_have_any_signs(tmp_path: Path) -> None:
    flow = {"name": "a<b>&", "source": {"pattern": '".*"'}, "sink": {"topic": "x"}}
    names, _, ways = shown(drawing(parse({"flows": [flow]}, tmp_path), {"x": "<1>"}))
    assert names == ['".*"', "a<b>&", "x"]
    assert ways == 2


def test_flows_in_a_circle_are_drawn_too(tmp_path: Path) -> None:
    there = {"name": "f", "source": {"topic": "a"}, "sink": {"topic": "b"}}
    back = {"name": "g", "source": {"topic": "b"}, "sink": {"topic": "a"}}
    names, _, ways = shown(drawing(parse({"flows": [there, back]}, tmp_path)))
    assert sorted(names) == ["a", "b", "f", "g"]
    assert ways == 4
