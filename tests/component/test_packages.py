"""`tools/release.sh`: wheel and sdist are built, and work in clean environments, the sdist without a compiler too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.scale import FULL

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not FULL, reason="takes minutes, and PyPI: KAVKA_SCALE=full runs it")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler for the wheel")
@pytest.mark.timeout(900)
def test_what_is_released_works_in_clean_environments(tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("KAVKA_", "PYTHON", "PIP_NO_"))}
    done = subprocess.run(
        [ROOT / "tools" / "release.sh", tmp_path / "dist"],
        env={**own, "PYTHON": getattr(sys, "_base_executable", sys.executable)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    wheel, sdist = sorted((tmp_path / "dist").iterdir(), key=lambda file: file.suffix, reverse=True)
    assert (wheel.suffix, sdist.name.endswith(".tar.gz")) == (".whl", True)
    assert "-linux_" not in wheel.name, "PyPI refuses it"
    assert "\nkavka " in done.stdout.partition("== pipx run")[2], done.stdout
