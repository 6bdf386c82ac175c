"""A table on a disk that is full: the query says so, leaves nothing half done, and goes on when there is space."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.scale import FULL
from tests.spark.conftest import fill

from kavka.client.blocking import Client
from kavka.testing import Cluster

DRIVER = Path(__file__).parent / "drivers" / "both_sinks.py"
RECORDS = 1200
# A small disk that only these processes see. What the second run leaves is copied to where the test can look.
SCRIPT = """
mkdir -p table && mount -t tmpfs -o size=64k small table || exit 77
"$@" && exit 78
tail -n 100 errors > first
find table -name '*.parquet' | wc -l > files
mount -o remount,size=64m table && "$@" && cp -r table copied
"""


def own_mounts() -> bool:
    return (
        shutil.which("unshare") is not None and subprocess.run(["unshare", "-rm", "true"], check=False).returncode == 0
    )


@pytest.mark.skipif(not FULL, reason="starts Spark twice: KAVKA_SCALE=full runs it")
@pytest.mark.skipif(not own_mounts(), reason="needs a user that may mount in a namespace of its own")
@pytest.mark.timeout(600)
def test_a_full_disk_is_named_and_the_query_goes_on_when_there_is_space(
    node: Cluster, client: Client, topic: Callable[..., str], tmp_path: Path
) -> None:
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    source, target = topic(), topic()
    fill(client, source, RECORDS)
    job = [sys.executable, str(DRIVER), node.bootstrap, source, target, str(tmp_path), "local[2]"]
    with (tmp_path / "errors").open("wb") as errors:
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c", SCRIPT, "sh", *job], cwd=tmp_path, env=os.environ, stderr=errors, check=False
        )
    if done.returncode == 77:
        pytest.skip("tmpfs cannot be mounted here")
    assert done.returncode == 0, (tmp_path / "errors").read_text()[-3000:]
    assert "no space is left for batch" in (tmp_path / "first").read_text()
    assert "free some space, then start the query again" in (tmp_path / "first").read_text()
    table = DeltaTable(str(tmp_path / "copied")).to_pyarrow_table()
    assert (table.num_rows, pc.sum(table.column("number")).as_py()) == (RECORDS, sum(range(RECORDS)))
