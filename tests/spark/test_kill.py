"""A driver killed in the middle of batches and started again: exact in Delta, never fewer in a topic."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
import pytest
from tests.scale import rounds
from tests.spark.conftest import fill

from kavka.client.blocking import Client
from kavka.spark.lake import TableSpec, open_table
from kavka.testing import Cluster

pytestmark = pytest.mark.timeout(1500)
DRIVER = Path(__file__).parent / "drivers" / "both_sinks.py"
ROUNDS = rounds(10, 1)
RECORDS = 600


def start_driver(node: Cluster, source: str, target: str, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(DRIVER), node.bootstrap, source, target, str(folder), "local[2]"]
    # A process group of its own, so that its JVM and Python workers die with it.
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)


def batches_done(folder: Path) -> int:
    return sum(1 for path in (folder / "table-checkpoint" / "commits").glob("[0-9]*"))


def test_a_killed_driver_goes_on_without_loss_and_without_doubles_in_the_table(
    node: Cluster, client: Client, topic: Callable[..., str], tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    source, target = topic(), topic()
    draw = random.Random(5)
    total = 0
    for _ in range(ROUNDS):
        fill(client, source, RECORDS, start=total)
        total += RECORDS
        before = batches_done(tmp_path)
        driver = start_driver(node, source, target, tmp_path)
        deadline = time.monotonic() + 120
        while batches_done(tmp_path) < before + 2 and driver.poll() is None:
            assert time.monotonic() < deadline, "the driver makes no progress"
            time.sleep(0.02)
        time.sleep(draw.uniform(0, 0.7))  # somewhere in a batch
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    finished = start_driver(node, source, target, tmp_path)
    try:
        assert finished.wait(timeout=600) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(finished.pid, signal.SIGKILL)
    table = DeltaTable(str(tmp_path / "table")).to_pyarrow_table()
    assert table.num_rows == total
    assert pc.sum(table.column("number")).as_py() == sum(range(total))
    assert open_table(TableSpec(str(tmp_path / "table"))).freshness().rows == total
    with client.consumer(target) as consumer:
        written = [int(record.value or b"") for record in consumer.until_end()]
    assert set(written) == set(range(total))
    assert len(written) >= total
