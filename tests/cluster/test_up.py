"""`kavka cluster up`: starts, reports a node that dies, stops everything, and finds it all again."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from kavka.client import blocking


def up(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "kavka", "cluster", "up", "--data-dir", str(folder / "data"), *options]
    with (folder / "up.log").open("ab") as log:
        return subprocess.Popen([*command, "--ready-file", str(folder / "ready.json")], stdout=log, stderr=log)


def ready(folder: Path, process: subprocess.Popen[bytes]) -> dict:
    deadline = time.monotonic() + 60
    while not (folder / "ready.json").exists():
        assert process.poll() is None, (folder / "up.log").read_text()
        assert time.monotonic() < deadline, (folder / "up.log").read_text()
        time.sleep(0.02)
    return json.loads((folder / "ready.json").read_text())


def test_a_local_cluster_comes_up_goes_down_and_comes_back(tmp_path: Path) -> None:
    process = up(tmp_path, "--nodes", "3", "--listen", "127.0.0.1:0", "--override", "num.partitions=2")
    try:
        report = ready(tmp_path, process)
        assert [node["id"] for node in report["nodes"]] == [1, 2, 3]
        assert all(node["controller"] and Path(node["data_dir"]).is_dir() for node in report["nodes"])
        with blocking.Client(report["bootstrap"]) as client, client.producer() as producer:
            assert client.admin.create_topic("orders", replication_factor=3).partitions == 2
            producer.send("orders", b"kept").result()
            os.kill(report["nodes"][2]["pid"], signal.SIGKILL)
            producer.send("orders", b"kept too").result()
        deadline = time.monotonic() + 10
        while "node 3 has ended by itself" not in (tmp_path / "up.log").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert not (tmp_path / "ready.json").exists()
        process = up(tmp_path, "--nodes", "3")
        again = ready(tmp_path, process)
        assert again["bootstrap"] == report["bootstrap"]
        with blocking.Client(again["bootstrap"]) as client, client.consumer() as consumer:
            consumer.assign("orders")
            assert sorted(record.value for record in consumer.until_end()) == [b"kept", b"kept too"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()


def test_a_node_that_cannot_start_is_one_line_and_the_others_do_not_stay(tmp_path: Path) -> None:
    process = up(tmp_path, "--nodes", "2", "--listen", "127.0.0.1:0", "--override", "num.partitions=many")
    assert process.wait(60) == 1
    said = (tmp_path / "up.log").read_text()
    # both cannot start; which of them is noticed first is chance
    assert re.match(r"kavka: node [12] ended at its start: num\.partitions: 'many' is not a whole number", said)
    assert len(said.splitlines()) == 1
    assert len(said) < 500


def test_a_cluster_grows_where_it_listens(tmp_path: Path) -> None:
    process = up(tmp_path, "--nodes", "1", "--listen", "127.0.0.1:0")
    try:
        first = ready(tmp_path, process)["bootstrap"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        process = up(tmp_path, "--nodes", "2", "--override", "num.partitions=5")
        report = ready(tmp_path, process)
        assert report["bootstrap"].split(",")[0] == first
        with blocking.Client(report["bootstrap"]) as client:
            assert client.admin.create_topic("orders", replication_factor=2).partitions == 5
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        elsewhere = up(tmp_path, "--listen", "127.0.0.1:1")
        assert elsewhere.wait(60) == 1
        said = (tmp_path / "up.log").read_text().splitlines()[-1]
        assert said.endswith(f"is a cluster that listens from {first} on; leave it out")
    finally:
        process.kill()


def test_a_cluster_can_be_moved_and_shows_only_what_is_new(tmp_path: Path) -> None:
    process = up(tmp_path, "--nodes", "2", "--listen", "0.0.0.0:0")
    try:
        report = ready(tmp_path, process)
        with blocking.Client(report["bootstrap"]) as client, client.producer() as producer:
            client.admin.create_topic("orders", replication_factor=2)
            producer.send("orders", b"kept").result()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        moved = tmp_path / "moved"
        (tmp_path / "data").rename(tmp_path / "other")
        moved.mkdir()
        (tmp_path / "other").rename(moved / "data")
        process = up(moved)
        again = ready(moved, process)
        assert [Path(node["data_dir"]).parent.parent for node in again["nodes"]] == [moved / "data"] * 2
        with blocking.Client(again["bootstrap"]) as client, client.consumer("orders") as consumer:
            assert [record.value for record in consumer.until_end()] == [b"kept"]
        assert not (tmp_path / "data").exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        fewer = up(moved, "--nodes", "1")
        assert fewer.wait(60) == 1
        assert "--nodes 1: " in (moved / "up.log").read_text().splitlines()[-1]
        assert "is a cluster of 2; without --nodes all of them run" in (moved / "up.log").read_text().splitlines()[-1]
    finally:
        process.kill()
