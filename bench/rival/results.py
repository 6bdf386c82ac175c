"""A run on disk: JSON with every sample, and a document with chart and tables made from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.report import Target
from bench.rival.chart import chart
from bench.rival.figures import Figure, Sample, failures, lines, tally
from bench.rival.table import in_markdown

HOW = """\
Both rivals are started fresh, in turns, for every question of every pair: Apache Kafka, Kavka, then the other way round
in the next pair. The same client process does the same work against both, with random payloads, pinned away from the
brokers' cores; both rivals are pinned to the same ones. Apache Kafka runs in KRaft mode with the heap and collector of
its own start script; its data directory is formatted before the clock starts, a single Kavka formats its own within it.
Neither waits for the disk before it acknowledges: that is Kafka's default and Kavka's. CPU and memory are those of all
processes of a rival together. A row is better or worse only if every pair says so; the ratio is the median of the
pairs.
"""


def save(samples: Sequence[Sample], facts: Mapping[str, str], path: Path) -> None:
    """Keep a run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"facts": dict(facts), "samples": [asdict(sample) for sample in samples]}
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def load(path: Path) -> tuple[list[Sample], dict[str, str]]:
    """A run that was kept."""
    document = json.loads(path.read_text())
    return [_sample(row) for row in document["samples"]], document["facts"]


def _sample(row: dict[str, Any]) -> Sample:
    figure = row["figure"]
    if figure is not None:
        figure = Figure(**{**figure, "aim": None if figure["aim"] is None else Target(**figure["aim"])})
    return Sample(**{**row, "figure": figure})


def write(samples: Sequence[Sample], facts: Mapping[str, str], path: Path, notes: str = "") -> None:
    """Write the document, and its chart beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = path.with_suffix(".svg")
    picture.write_text(chart(lines(samples)), encoding="utf-8")
    path.write_text(document(samples, facts, picture.name, notes), encoding="utf-8")


def document(samples: Sequence[Sample], facts: Mapping[str, str], picture: str, notes: str = "") -> str:
    """The run as Markdown."""
    rows = lines(samples)
    pairs = len({sample.pair for sample in samples})
    parts = [
        "# Kavka beside Apache Kafka",
        "",
        "Written by `make bench-kafka`; do not edit.",
        "",
        f"{pairs} pairs: {tally(rows)}.",
        "",
        f"![How many times better Kavka is, row by row]({picture})",
        "",
        "## How it was measured",
        "",
        HOW,
        "| | |",
        "|---|---|",
        *(f"| {name} | {value.replace('|', '/')} |" for name, value in facts.items()),
        "",
        "## Figures",
        "",
        in_markdown(rows, failures(samples)),
    ]
    return "\n".join([*parts, notes]).rstrip() + "\n"
