"""A pipeline as a drawing: topics, flows and tables from left to right, as SVG that stands in a page by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

from kavka.spark.pipelines.spec import Flow, Pipeline

_WIDE: Final = 168
_HIGH: Final = 52
_ACROSS: Final = 232
_DOWN: Final = 80
_EDGE: Final = 16
_STYLE: Final = (
    # In a page these rules would hold for all of it.
    ".flows .topic{fill:#eaf1fa;stroke:#3b6ea5}.flows .flow{fill:#2f3b4a;stroke:#2f3b4a}"
    ".flows .table{fill:#e9f5ec;stroke:#3c8a55}.flows .dead{fill:#fbeceb;stroke:#b4473f}"
    ".flows .way{fill:none;stroke:#8a94a0;stroke-width:1.6}"
    ".flows text{font:600 13px system-ui,sans-serif;text-anchor:middle;fill:#1f2933}"
    ".flows .note{font-weight:400;font-size:11px;fill:#566}"
    ".flows .flow+text{fill:#fff}.flows .flow+text+.note{fill:#cfd8e3}"
)


@dataclass(frozen=True, slots=True)
class _Box:
    """What is drawn: its kind, its name, what it is, and how many steps lie before it."""

    kind: str
    name: str
    note: str
    step: int


def drawing(pipeline: Pipeline, figures: Mapping[str, str] | None = None) -> str:
    """The flows of a pipeline; `figures` are shown under the names of topics, `flow NAME` and `table NAME`."""
    boxes, ways = _boxes(pipeline, figures or {})
    rows: dict[int, int] = {}
    places: dict[str, tuple[int, int]] = {}
    for key, box in boxes.items():
        row = rows[box.step] = rows.get(box.step, -1) + 1
        places[key] = (_EDGE + box.step * _ACROSS, _EDGE + row * _DOWN)
    width = 2 * _EDGE + max(rows) * _ACROSS + _WIDE
    height = 2 * _EDGE + max(rows.values()) * _DOWN + _HIGH
    title = escape(f"The flows of {pipeline.name}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="flows" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{title}">'
        f"<title>{title}</title><style>{_STYLE}</style>"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#8a94a0"/></marker></defs>'
        + "".join(_way(places[start], places[end]) for start, end in ways)
        + "".join(_drawn(boxes[key], *places[key]) for key in boxes)
        + "</svg>"
    )


def _boxes(pipeline: Pipeline, figures: Mapping[str, str]) -> tuple[dict[str, _Box], list[tuple[str, str]]]:
    boxes: dict[str, _Box] = {}
    ways: list[tuple[str, str]] = []
    for flow in _ordered(pipeline):
        source = f"topic {flow.source.topic or flow.source.pattern}"
        here = boxes.setdefault(source, _topic(source, 0, figures)).step
        key = f"flow {flow.name}"
        boxes[key] = _Box("flow", flow.name, figures.get(key, _what(flow)), here + 1)
        target = f"topic {flow.sink.topic}" if flow.sink.topic is not None else f"table {flow.name}"
        if flow.sink.table is None:
            boxes.setdefault(target, _topic(target, here + 2, figures))
        else:
            table = flow.sink.table
            what = f"{table.format}, upserts" if table.upsert is not None else table.format
            name = table.path.rstrip("/").rpartition("/")[2]
            boxes[target] = _Box("table", name, figures.get(f"table {flow.name}", what), here + 2)
        ways += [(source, key), (key, target)]
        if flow.source.dead_letters is not None:
            letters = f"topic {flow.source.dead_letters}"
            note = figures.get(flow.source.dead_letters, "dead letters")
            boxes.setdefault(letters, _Box("dead", flow.source.dead_letters, note, here + 2))
            ways.append((key, letters))
    return boxes, ways


def _ordered(pipeline: Pipeline) -> list[Flow]:
    """Flows after those whose topics they read."""
    left, done = list(pipeline.flows), []
    while left:
        written = {flow.sink.topic for flow in left}
        ready = [flow for flow in left if flow.source.topic not in written] or left[:1]
        done += ready
        left = [flow for flow in left if flow not in ready]
    return done


def _topic(key: str, step: int, figures: Mapping[str, str]) -> _Box:
    name = key.removeprefix("topic ")
    return _Box("topic", name, figures.get(name, "topic"), step)


def _what(flow: Flow) -> str:
    return flow.transform.rpartition(":")[2] + "()" if flow.transform else flow.source.format or "as it is"


def _drawn(box: _Box, x: int, y: int) -> str:
    round_ = 24 if box.kind == "flow" else 6
    middle = x + _WIDE // 2
    return (
        f'<rect class="{box.kind}" x="{x}" y="{y}" width="{_WIDE}" height="{_HIGH}" rx="{round_}"/>'
        f'<text x="{middle}" y="{y + 22}">{escape(box.name)}</text>'
        f'<text class="note" x="{middle}" y="{y + 40}">{escape(box.note)}</text>'
    )


def _way(start: tuple[int, int], end: tuple[int, int]) -> str:
    x, y, to_x, to_y = start[0] + _WIDE, start[1] + _HIGH // 2, end[0] - 2, end[1] + _HIGH // 2
    bend = (to_x - x) // 2
    return f'<path class="way" marker-end="url(#tip)" d="M{x} {y}C{x + bend} {y} {to_x - bend} {to_y} {to_x} {to_y}"/>'
