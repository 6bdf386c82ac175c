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

import pyarrow.dataset
import pytest

from json_names import documented
from kavka.client import LATEST, TopicPartition
from kavka.client.blocking import Client
from kavka.model.pipelines import STATUS_TOPIC, FlowReport
from kavka.testing import Cluster
from scale import FULL

BAD = b"not an order"


def kavka(*arguments: str, code: int = 0, timeout: float = 200) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kavka", "pipeline", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
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
    shown = kavka("status", str(folder), "-o", "json")
    documented("kavka pipeline status my-pipeline", shown.stdout)
    (status,) = rows(shown)
    assert (status["state"], status["batch"], status["lag"], status["table_rows"]) == ("stopped", 0, 0, 196)
    again = kavka("backfill", str(folder), "--from", "earliest", "-o", "json")
    assert rows(again) == [{"flow": "orders", "rows": 0}]
    documented("kavka pipeline backfill my-pipeline", again.stdout)
    assert "nothing to do: the flow's stream writes all of it" in again.stderr
    with client.consumer(STATUS_TOPIC) as consumer:
        told = [FlowReport.decode(record.value) for record in consumer.until_end() if record.value is not None]
    report = [each for each in told if each.dead_letter_topic == f"{topic}-dead"][-1]
    assert (report.state, report.source, [batch.rows for batch in report.batches]) == ("stopped", topic, [200])
    assert (report.batches[0].dead_letters, sum(at.end - at.read for at in report.positions)) == (4, 0)
    assert report.table is not None
    assert (report.table.format, report.table.rows) == ("delta", 196)
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
    compacted = kavka("compact", str(folder), "-o", "json")
    assert rows(compacted)[0]["files_after"] == 3
    documented("kavka pipeline compact my-pipeline", compacted.stdout)
    vacuumed = kavka("vacuum", str(folder), "--dry-run", "-o", "json")
    documented("kavka pipeline vacuum my-pipeline --dry-run", vacuumed.stdout)
    with client.consumer(f"{topic}-dead") as consumer:
        assert [record.value for record in consumer.until_end()] == [BAD] * 6


def test_a_flow_is_started_again_with_its_function_as_it_is_now(
    project: tuple[Path, str], client: Client, tmp_path: Path
) -> None:
    folder, topic = project
    assert "does not run: `kavka pipeline run" in kavka("restart", "orders", str(folder), code=1).stderr
    told = tmp_path / "told"
    with told.open("w") as log:
        running = subprocess.Popen([sys.executable, "-m", "kavka", "pipeline", "run", str(folder)], stderr=log)
    deadline = time.monotonic() + 200

    def wait(done: Callable[[], bool]) -> None:
        while not done():
            assert running.poll() is None, told.read_text()
            assert time.monotonic() < deadline, told.read_text()
            time.sleep(0.1)

    try:
        wait(lambda: rows(kavka("status", str(folder), "-o", "json"))[0]["lag"] == 0)
        functions = folder / "functions.py"
        functions.write_text(functions.read_text().replace("amount > 0", "amount > 0 and id >= 250"))
        kavka("restart", "nothing", str(folder), code=1)
        assert "asked: flow orders" in kavka("restart", "orders", str(folder)).stderr
        wait(lambda: "orders was asked to start again, and did" in told.read_text())
        orders(client, topic, range(200, 300))
        wait(lambda: rows(kavka("status", str(folder), "-o", "json"))[0]["lag"] == 0)
        os.kill(running.pid, signal.SIGTERM)
        assert running.wait(90) == 0, told.read_text()
    finally:
        running.kill()
        running.wait()
    (status,) = rows(kavka("status", str(folder), "-o", "json"))
    assert status["table_rows"] == 196 + 49


@pytest.mark.skipif(not FULL, reason="takes a minute, for each command starts Spark: KAVKA_SCALE=full runs it")
@pytest.mark.timeout(600)
def test_the_other_commands_do_what_the_page_says(
    project: tuple[Path, str], client: Client, node: Cluster, tmp_path: Path
) -> None:
    folder, topic = project
    checked = kavka("dry-run", str(folder), "-o", "json")
    assert [row["flow"] for row in rows(checked)] == ["orders"]
    documented("kavka pipeline dry-run my-pipeline", checked.stdout)
    kavka("run", str(folder), "--once")
    assert rows(kavka("vacuum", str(folder), "--dry-run", "-o", "json")) == [
        {"flow": "orders", "files": 0, "bytes": 0, "snapshots": 0}
    ]
    again = kavka("replay", str(folder), "-o", "json")
    assert rows(again) == [{"flow": "orders", "letters": 4, "rows": 0}]
    documented("kavka pipeline replay my-pipeline", again.stdout)
    one = TopicPartition(topic, 1)
    half = client.admin.list_offsets({one: LATEST})[one].offset // 2
    client.admin.alter_group_offsets(f"readers-of-{topic}", {one: half})
    copy, here = f"{topic}-copy", ("-b", node.bootstrap)
    there = ("--to", node.bootstrap, "--rename", f"{topic}={copy}", "--checkpoint", str(tmp_path / "mirrored"))
    mirrored = kavka("mirror", topic, *here, *there, "--groups", f"readers-of-{topic}")
    assert f"is at offset {half} of {one}, and goes on at offset {half} of {copy}-1" in mirrored.stderr
    assert client.admin.group_offsets(f"readers-of-{topic}")[TopicPartition(copy, 1)].offset == half
    verified = kavka("verify", topic, *here, "-o", "json")
    documented("kavka pipeline verify orders", verified.stdout)
    sound = rows(verified)
    assert (sum(each["records"] for each in sound), {each["fault"] for each in sound}) == (200, {None})
    same = ("--against", node.bootstrap, "--rename", f"{topic}={copy}")
    compared = kavka("verify", topic, *here, *same, "-o", "json")
    assert all(each["equal"] for each in rows(compared))
    documented("kavka pipeline verify orders --against HOST:PORT", compared.stdout)
    with client.producer() as producer:
        producer.send(copy, b"of nobody", partition=1)
    changed = rows(kavka("verify", topic, *here, *same, "-o", "json", code=1))
    assert [each["partition"] for each in changed if not each["equal"]] == [1]


def test_a_project_can_be_a_declarative_pipeline(project: tuple[Path, str]) -> None:
    folder, _ = project
    for _ in range(2):  # the second time there is nothing new
        kavka("run", str(folder), "--declarative")
    table = pyarrow.dataset.dataset(folder / ".kavka" / "declarative" / "warehouse" / "orders", partitioning="hive")
    assert table.count_rows() == 196


def test_what_is_wrong_is_said_in_one_line(project: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = project
    spec = folder / "pipeline.yaml"
    spec.write_text(spec.read_text().replace("functions:clean", "functions:dirty"))
    failed = kavka("dry-run", str(folder), code=1)
    assert "has no function 'dirty'" in failed.stderr.splitlines()[-1]
    failed = kavka("status", str(tmp_path), code=1)
    assert failed.stderr.count("\n") == 1
    assert "kavka pipeline init" in failed.stderr
