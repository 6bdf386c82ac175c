"""What a measurement is, and how the measurements of a run are shown and kept."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

OUT = Path(__file__).resolve().parent / "out"


@dataclass(frozen=True, slots=True)
class Target:
    """The figure that was promised."""

    limit: float
    better: Literal["less", "more"]

    def met(self, figure: float) -> bool:
        """Whether a figure keeps the promise."""
        return figure <= self.limit if self.better == "less" else figure >= self.limit

    def __str__(self) -> str:
        return f"{'≤' if self.better == 'less' else '≥'} {shown(self.limit)}"


def at_most(limit: float) -> Target:
    """A figure that must stay low."""
    return Target(limit, "less")


def at_least(limit: float) -> Target:
    """A figure that must be reached."""
    return Target(limit, "more")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    case: str
    figure: float
    unit: str
    target: Target | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one question gave: its rows, or why there are none."""

    question: str
    rows: tuple[Row, ...]
    seconds: float
    failure: str = ""


def shown(figure: float) -> str:
    """A figure with as many digits as mean something."""
    if abs(figure) >= 1000:
        return f"{figure:,.0f}"
    if abs(figure) >= 100:
        return f"{figure:.0f}"
    return f"{figure:.1f}" if abs(figure) >= 10 else f"{figure:.2f}"


def percentile(figures: Sequence[float], share: float) -> float:
    """The smallest figure that at least this share of them does not exceed."""
    ordered = sorted(figures)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * len(ordered) * 1000) // 1000) - 1))]


def best_of(figures: Sequence[float]) -> str:
    """What a note says of a figure that is the best of several: neighbours make CPU time dearer, never cheaper."""
    return f"best of {', '.join(map(shown, sorted(figures, reverse=True)))}" if len(figures) > 1 else "one run"


def show(answers: Sequence[Answer], console: Console) -> None:
    """Print one table."""
    table = Table(title="Kavka bench", caption=_caption())
    table.add_column("question", no_wrap=True)
    table.add_column("case")
    table.add_column("figure", justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("target", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("note", style="dim")
    for answer in answers:
        for number, row in enumerate(answer.rows):
            question = answer.question if number == 0 else ""
            target, verdict = "", ""
            if row.target is not None:
                target = str(row.target)
                verdict = "[green]ok[/]" if row.target.met(row.figure) else "[red]miss[/]"
            table.add_row(question, row.case, shown(row.figure), row.unit, target, verdict, row.note)
        if answer.failure:
            table.add_row(answer.question, "[red]failed[/]", "", "", "", "[red]miss[/]", answer.failure)
        table.add_section()
    console.print(table)


def save(answers: Sequence[Answer], conditions: dict[str, object]) -> Path:
    """Write the run as JSON; returns where."""
    OUT.mkdir(exist_ok=True)
    path = OUT / f"{time.strftime('%Y-%m-%dT%H-%M-%S')}.json"
    rows = []
    for answer in answers:
        for row in answer.rows:
            met = None if row.target is None else row.target.met(row.figure)
            rows.append({"question": answer.question, **asdict(row), "met": met})
    failures = {answer.question: answer.failure for answer in answers if answer.failure}
    document = {**machine(), **conditions, "rows": rows, "failures": failures}
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def machine() -> dict[str, object]:
    """Where, on what and how a run was made: a figure without these means nothing."""
    from kavka.kernels import COMPILED

    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": " ".join(["python", "-m", "bench", *sys.argv[1:]]),
        "commit": _commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "kernels": "compiled" if COMPILED else "plain",
    }


def _caption() -> str:
    facts = machine()
    return (
        f"{facts['system']}, {facts['cores']} cores, load average {facts['load_average']}, "
        f"Python {facts['python']}, {facts['kernels']} kernels, commit {facts['commit']}; CPU is the broker's own"
    )


def _commit() -> str:
    root = Path(__file__).resolve().parent
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"
