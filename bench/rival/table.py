"""The rows of a run as tables: on the screen, and in Markdown. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.table import Table

from bench.report import shown
from bench.rival.figures import Line, Sample

COLOURS = {"better": "green", "worse": "red", "even": "yellow", "failed": "red"}


def on_screen(rows: Sequence[Line], failed: Sequence[Sample], caption: str) -> Table:
    """A table for a terminal."""
    table = Table(title="Kavka beside Apache Kafka", caption=caption)
    for name, justify in (("question", "left"), ("case", "left"), ("Kafka", "right"), ("Kavka", "right")):
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=name != "case")
    table.add_column("unit", no_wrap=True)
    for name in ("Kavka / Kafka", "range", "aim"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for question, mine in groupby(rows, key=lambda row: row.question):
        for number, row in enumerate(mine):
            kafka, kavka, ratio, extent, aim = cells(row)
            word = f"[{COLOURS[row.verdict]}]{row.verdict}[/]"
            name = question if number == 0 else ""
            table.add_row(name, row.case, kafka, kavka, row.unit, ratio, extent, f"{aim}{_mark(row)}", word)
        table.add_section()
    for sample in failed:
        where = f"{sample.rival}, pair {sample.pair}: {sample.failure}"
        table.add_row(sample.question, where, "", "", "", "", "", "", "[red]failed[/]")
    return table


def in_markdown(rows: Sequence[Line], failed: Iterable[Sample]) -> str:
    """The same for a document, one table per question."""
    parts = []
    for question, mine in groupby(rows, key=lambda row: row.question):
        parts += [f"### {question}", ""]
        parts.append("| case | Apache Kafka | Kavka | unit | Kavka / Kafka | range | aim | Kavka is |")
        parts.append("|---|---:|---:|---|---:|---:|---:|---|")
        for row in mine:
            kafka, kavka, ratio, extent, aim = cells(row)
            word = row.verdict if row.verdict != "worse" else "**worse**"
            aim += {True: ", met", False: ", **missed**", None: ""}[row.met]
            parts.append(f"| {row.case} | {kafka} | {kavka} | {row.unit} | {ratio} | {extent} | {aim} | {word} |")
        parts.append("")
    for sample in failed:
        parts.append(f"- not measured: {sample.question}, {sample.rival}, pair {sample.pair}: {sample.failure}")
    return "\n".join(parts).rstrip() + "\n"


def cells(row: Line) -> tuple[str, str, str, str, str]:
    """Kafka's and Kavka's median, the median ratio, its range, the aim."""
    low, high = min(row.ratios), max(row.ratios)
    return (
        shown(statistics.median(row.kafka)),
        shown(statistics.median(row.kavka)),
        _ratio(row.ratio),
        f"{_ratio(low)} to {_ratio(high)}" if len(row.ratios) > 1 else "one pair",
        "" if row.aim is None else str(row.aim),
    )


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"


def _mark(row: Line) -> str:
    return {True: " [green]met[/]", False: " [red]missed[/]", None: ""}[row.met]
