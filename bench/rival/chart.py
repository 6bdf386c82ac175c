"""A bar chart of a run as SVG, drawn by hand: how many times better Kavka is, with the range of the pairs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import groupby

from bench.rival.figures import Line

WIDTH, LABELS, RIGHT, TOP, ROW, GAP = 1000, 430, 70, 64, 18, 26
FILLS = {"better": "#2e7d4f", "worse": "#b3372f", "even": "#8a8a8a", "failed": "#b3372f"}
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
_LEGEND = (
    "median of the pairs, logarithmic; the line is their range; "
    "green: better in every pair, red: worse in every pair, grey: undecided"
)
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.q{font-weight:600}.t{fill:#777;font-size:11px}"
    ".h{font-size:15px;font-weight:600}.g{stroke:#ddd}.one{stroke:#555}.w{stroke:#222;stroke-width:1.2}"
)


def chart(rows: Sequence[Line]) -> str:
    """The whole picture: bars to the right of 1 are won, bars to the left are lost."""
    low, high = _extent(rows)
    groups = [(question, list(mine)) for question, mine in groupby(rows, key=lambda row: row.question)]
    height = TOP + sum(GAP + ROW * len(mine) for _, mine in groups) + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        '<text class="h" x="12" y="24">How many times better Kavka is than Apache Kafka</text>',
        f'<text class="t" x="12" y="42">{_LEGEND}</text>',
    ]
    for tick in TICKS:
        if low <= tick <= high:
            x = _x(tick, low, high)
            kind = "one" if tick == 1 else "g"
            parts.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - 8}"/>')
            parts.append(f'<text class="t" x="{x:.1f}" y="{TOP - 4}" text-anchor="middle">{tick:g}</text>')
    y = float(TOP)
    for question, mine in groups:
        parts.append(f'<text class="q" x="12" y="{y + 18:.0f}">{escape(question)}</text>')
        y += GAP
        for row in mine:
            parts += _bar(row, y, low, high)
            y += ROW
    return "\n".join([*parts, "</svg>", ""])


def _bar(row: Line, y: float, low: float, high: float) -> list[str]:
    parity, end = _x(1, low, high), _x(row.advantage, low, high)
    left, right = (_x(edge, low, high) for edge in row.advantages)
    start, width = min(parity, end), max(1.0, abs(end - parity))
    middle = y + ROW / 2 - 2
    return [
        f'<text x="24" y="{y + 11:.0f}">{escape(row.case)}</text>',
        f'<rect x="{start:.1f}" y="{y:.0f}" width="{width:.1f}" height="{ROW - 5}" fill="{FILLS[row.verdict]}"/>',
        f'<line class="w" x1="{left:.1f}" x2="{right:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>',
        f'<text x="{max(parity, end, right) + 6:.1f}" y="{y + 11:.0f}">{row.advantage:.2g}×</text>',
    ]


def _extent(rows: Sequence[Line]) -> tuple[float, float]:
    """The axis: whole ticks around everything, and around 1."""
    edges = [edge for row in rows for edge in row.advantages]
    lowest, highest = min([*edges, 0.5]), max([*edges, 2.0])
    low = max((tick for tick in TICKS if tick <= lowest), default=TICKS[0])
    high = min((tick for tick in TICKS if tick >= highest), default=TICKS[-1])
    return low, high


def _x(value: float, low: float, high: float) -> float:
    held = min(max(value, low), high)
    return LABELS + (WIDTH - LABELS - RIGHT) * math.log(held / low) / math.log(high / low)
