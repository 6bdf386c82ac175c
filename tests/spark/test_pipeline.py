"""`kavka pipeline` as a user runs it: its commands in their own processes, on a real node."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.client.blocking import Client
from kavka.testing import Cluster

BAD = b"not an order"


def kavka(*arguments: str, code: int = 0, timeout: float = 200) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kavka", "pipeline", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == code, done.stderr[-3000:]
    return done


def orders(client: Client, topic: str, numbers: range) -> None:
    with client.producer() as producer:
        for number in numbers:
            order = {"id": number, "customer": "c", "amount": 1.5, "at": f"2026-01-0{number % 3 + 1}T00:00:00Z"}
            producer.send(topic, BAD if number % 50 == 0 else json.dumps(order).encode())


@pytest.fixture
def project(tmp_path: Path, node: Cluster, client: Client, topic: Callable[..., str]) -> tuple[Path, str]:
    name = topic()
    kavka("init", str(tmp_path / "p"), "-b", node.bootstrap)
    spec = tmp_path / "p" / "pipeline.yaml"
    text = spec.read_text().replace("topic: orders", f"topic: {name}").replace("orders-dead", f"{name}-dead")
    spec.write_text(text)
    orders(client, name, range(200))
    return tmp_path / "p", name


def rows(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)


def test_a_project_runs_stops_and_goes_on(project: tuple[Path, str], client: Client) -> None:
    folder, topic = project
    first = kavka("run", str(folder), "--once")
    assert re.search(r"orders batch 0: 200 rows in [\d.]+ s, 4 dead letters, ", first.stderr)
    assert first.stderr.rstrip().endswith("done: everything that was there has been read")
    (status,) = rows(kavka("status", str(folder), "-o", "json"))
    assert (status["state"], status["batch"], status["lag"], status["table_rows"]) == ("stopped", 0, 0, 196)
    again = kavka("backfill", str(folder), "--from", "earliest", "-o", "json")
    assert rows(again) == [{"flow": "orders", "rows": 0}]
    assert "nothing to do: the flow's stream writes all of it" in again.stderr
    orders(client, topic, range(200, 300))
    (status,) = rows(kavka("status", str(folder), "-o", "json"))
    assert status["lag"] == 100

    running = subprocess.Popen(
        [sys.executable, "-m", "kavka", "pipeline", "run", str(folder)], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while rows(kavka("status", str(folder), "-o", "json"))[0]["lag"]:
        assert running.poll() is None
        assert time.monotonic() < deadline
    assert rows(kavka("status", str(folder), "-o", "json"))[0]["state"] == "running"
    assert "runs already" in kavka("run", str(folder), "--once", code=1).stderr
    os.kill(running.pid, signal.SIGTERM)
    _, said = running.communicate(timeout=90)
    assert running.returncode == 0, said
    assert "orders batch 1: 100 rows" in said
    assert said.rstrip().endswith("stopped")

    (status,) = rows(kavka("status", str(folder), "-o", "json"))
    assert status["table_rows"] == 294
    (compacted,) = rows(kavka("compact", str(folder), "-o", "json"))
    assert compacted["files_after"] == 3
    with client.consumer(f"{topic}-dead") as consumer:
        assert [record.value for record in consumer.until_end()] == [BAD] * 6


def test_what_is_wrong_is_said_in_one_line(project: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = project
    spec = folder / "pipeline.yaml"
    spec.write_text(spec.read_text().replace("functions:clean", "functions:dirty"))
    failed = kavka("dry-run", str(folder), code=1)
    assert "has no function 'dirty'" in failed.stderr.splitlines()[-1]
    failed = kavka("status", str(tmp_path), code=1)
    assert failed.stderr.count("\n") == 1
    assert "kavka pipeline init" in failed.stderr
