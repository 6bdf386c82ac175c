"""The test cluster where there is no node to start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kavka.testing import Cluster, NodeError


def test_a_node_that_does_not_start_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    cluster = Cluster(config={"num.partitions": "many"}, data_dir=tmp_path / "data")
    with pytest.raises(NodeError, match=r"(?s)before it was ready.*kavka: "):
        cluster.start()
    assert not cluster.running
    cluster.close()


def test_entering_a_cluster_that_does_not_start_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(NodeError), Cluster(config={"num.partitions": "many"}):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_was_never_started_says_so() -> None:
    cluster = Cluster()
    for ask in (lambda: cluster.bootstrap, lambda: cluster.cluster_id, lambda: cluster.data_dir, lambda: cluster.pid):
        with pytest.raises(NodeError):
            ask()
    assert cluster.log == ""
    assert cluster.stop() == 0
    cluster.kill()


def test_importing_the_pytest_plugin_costs_no_client_and_no_broker() -> None:
    code = (
        "import sys, pytest\n"
        "before = set(sys.modules)\n"
        "import kavka.testing.plugin\n"
        "loaded = {name for name in set(sys.modules) - before if name.startswith('kavka.')}\n"
        "own = {'kavka.testing', *(f'kavka.testing.{name}' for name in ('plugin', 'cluster', 'process'))}\n"
        "sys.exit(', '.join(loaded - own) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
