"""How a comparison is shown and kept."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench.rival.chart import chart
from bench.rival.figures import KAFKA, KAVKA, Sample, failures, less, lines, more
from bench.rival.results import document, load, save, write
from bench.rival.table import in_markdown, on_screen
from rich.console import Console

SVG = "{http://www.w3.org/2000/svg}"
WON, LOST = "memory, idle", "produce <100 B> & more"


def run_of(pairs: int) -> list[Sample]:
    samples = []
    for number in range(1, pairs + 1):
        for rival, memory, rate in ((KAFKA, 400.0, 1000.0), (KAVKA, 40.0 + number, 700.0)):
            samples.append(Sample(number, rival, "startup", less(WON, memory, "MB RSS", aim=0.2)))
            samples.append(Sample(number, rival, "bulk", more(LOST, rate, "messages / s", aim=1.0)))
    return [*samples, Sample(pairs, KAVKA, "cluster", None, "BenchError: no leader")]


def test_the_screen_shows_won_and_lost_rows_with_medians_ratio_range_and_aim() -> None:
    samples = run_of(3)
    console = Console(width=200, record=True, force_terminal=False)
    console.print(on_screen(lines(samples), failures(samples), "caption"))
    shown = {line.split("│")[2].strip(): line for line in console.export_text().splitlines() if line.count("│") > 5}
    assert all(text in shown[WON] for text in ("400", "42.0", "0.10", "0.10 to 0.11", "≤ 0.20 met", "better"))
    assert all(text in shown[LOST] for text in ("1,000", "700", "0.70", "≥ 1.00 missed", "worse"))
    assert "failed" in shown["kavka, pair 3: BenchError: no leader"]


def test_the_document_keeps_the_rows_that_are_lost_and_says_what_was_not_measured() -> None:
    samples = run_of(2)
    text = in_markdown(lines(samples), failures(samples))
    (lost,) = [line for line in text.splitlines() if line.startswith(f"| {LOST}")]
    assert lost.endswith("| ≥ 1.00, **missed** | **worse** |")
    assert "- not measured: cluster, kavka, pair 2: BenchError: no leader" in text


def test_one_pair_has_no_range() -> None:
    samples = run_of(1)
    assert in_markdown(lines(samples), []).count("| one pair |") == 2


def test_the_document_names_machine_versions_command_and_chart() -> None:
    text = document(run_of(2), {"command": "python -m bench.rival", "kernel": "Linux"}, "RESULTS.svg")
    assert "| command | python -m bench.rival |" in text
    assert "| kernel | Linux |" in text
    assert "](RESULTS.svg)" in text
    assert "2 pairs: of 2 rows Kavka is better in 1, worse in 1" in text


def test_won_bars_go_to_the_right_of_one_and_lost_bars_to_the_left() -> None:
    root = ElementTree.fromstring(chart(lines(run_of(3))))
    one = next(float(line.get("x1", "nan")) for line in root.iter(f"{SVG}line") if line.get("class") == "one")
    won, lost = [rect for rect in root.iter(f"{SVG}rect") if rect.get("x")]
    assert float(won.get("x", "nan")) == one
    assert float(lost.get("x", "nan")) + float(lost.get("width", "nan")) == pytest.approx(one, abs=0.2)
    assert float(won.get("width", "nan")) > float(lost.get("width", "nan"))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {WON, LOST, "0.7×", "9.5×"} <= set(texts)


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_no_bar_leaves_the_picture(factor: float) -> None:
    samples = [Sample(1, KAFKA, "q", more("c", 1.0, "x")), Sample(1, KAVKA, "q", more("c", factor, "x"))]
    root = ElementTree.fromstring(chart(lines(samples)))
    width = float(root.get("width", "nan"))
    for rect in root.iter(f"{SVG}rect"):
        assert 0 <= float(rect.get("x", "0")) <= width
        assert math.isfinite(float(rect.get("width", "nan")))
        assert float(rect.get("x", "0")) + float(rect.get("width", "nan")) <= width


def test_a_run_is_read_back_as_it_was_kept(tmp_path: Path) -> None:
    samples, facts = run_of(2), {"kernel": "Linux"}
    save(samples, facts, tmp_path / "out" / "run.json")
    assert load(tmp_path / "out" / "run.json") == (samples, facts)


def test_document_and_chart_are_written_side_by_side(tmp_path: Path) -> None:
    write(run_of(2), {"kernel": "Linux"}, tmp_path / "RESULTS.md")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["RESULTS.md", "RESULTS.svg"]
