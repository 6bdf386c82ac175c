"""What travels with a job."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kavka.spark import ship


def test_the_archive_holds_a_kavka_that_works_by_itself(tmp_path: Path) -> None:
    path = ship.archive(tmp_path)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / ship.FOLDER)
    program = (
        "import kavka.client, kavka.kernels.arrow, kavka.wire.compression as c, sys;"
        "assert c.decompress(4, c.compress(4, b'x')) == b'x';"
        "print(kavka.client.__file__, kavka.kernels.COMPILED)"
    )
    # -S: nothing of this machine's packages; -P: nothing of this folder.
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", program],
        env={"PYTHONPATH": str(tmp_path / ship.FOLDER), "KAVKA_PURE": os.environ.get("KAVKA_PURE", "")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    from kavka.kernels import COMPILED

    assert done.stdout.split() == [str(tmp_path / ship.FOLDER / "kavka" / "client" / "__init__.py"), str(COMPILED)]


def test_the_archive_is_made_anew_only_when_something_changed(tmp_path: Path) -> None:
    first = ship.archive(tmp_path)
    assert ship.archive(tmp_path) == first
    assert ship.archive(tmp_path, ["yaml"]) != first
    with pytest.raises(LookupError, match="nothing_of_this_name"):
        ship.archive(tmp_path, ["nothing_of_this_name"])


def test_only_a_cluster_needs_it() -> None:
    assert [ship.is_remote(master) for master in ("local", "local[2]", "local[*]")] == [False] * 3
    assert [ship.is_remote(master) for master in ("local-cluster[2,1,1024]", "spark://h:7077", "yarn")] == [True] * 3
