"""kafka-log-dirs and kafka-reassign-partitions with several log directories: what they print against the node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jvm.java_tools import Java
from jvm.nodes import running, target
from jvm.tools import Tools, eventually


@pytest.fixture(scope="module")
def dirs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two log directories."""
    folder = tmp_path_factory.mktemp("disks")
    return [folder / "data", folder / "data-2"]


@pytest.fixture(scope="module")
def tools(java: Java, dirs: list[Path]) -> Iterator[Tools]:
    """The tools against a node with two log directories."""
    with running(target(), java, dirs[0].parent, {"log.dirs": ",".join(map(str, dirs))}) as node:
        yield Tools(java, node)


def lies_in(tools: Tools, topic: str) -> dict[str, list[tuple[str, bool]]]:
    """The replicas of a topic in each directory, by kafka-log-dirs, and whether they are on their way."""
    lines = tools.log_dirs("--describe", "--topic-list", topic).must_succeed().lines
    (broker,) = json.loads(lines[-1])["brokers"]
    assert all(log_dir["error"] is None for log_dir in broker["logDirs"])
    return {
        log_dir["logDir"]: sorted((row["partition"], row["isFuture"]) for row in log_dir["partitions"])
        for log_dir in broker["logDirs"]
    }


def wanted(folder: Path, topic: str, log_dir: str) -> list[str]:
    """Partition 0 of a topic in a directory of node 1, as an option of kafka-reassign-partitions."""
    path = folder / "assignment.json"
    row = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [log_dir]}
    path.write_text(json.dumps({"version": 1, "partitions": [row]}))
    return ["--reassignment-json-file", str(path)]


def test_new_replicas_are_spread_over_the_directories(tools: Tools, dirs: list[Path], topic: str) -> None:
    tools.topics("--create", "--topic", topic, "--partitions", "4").must_succeed()
    eventually(lambda: sorted(len(rows) for rows in lies_in(tools, topic).values()), [2, 2])


def test_a_replica_is_moved_to_another_directory(tools: Tools, dirs: list[Path], topic: str, tmp_path: Path) -> None:
    tools.topics("--create", "--topic", topic).must_succeed()
    tools.console_producer("--topic", topic, stdin=b"one\ntwo\nthree\n").must_succeed()
    eventually(lambda: sum(map(len, lies_in(tools, topic).values())), 1)
    (source,) = [path for path, rows in lies_in(tools, topic).items() if rows]
    (other,) = [str(path) for path in dirs if str(path) != source]
    started = tools.reassign_partitions(*wanted(tmp_path, topic, other), "--execute").must_succeed()
    assert started.lines[-2:] == [
        f"Successfully started partition reassignment for {topic}-0",
        f"Successfully started moving log directory to {other} for replica {topic}-0 with broker 1",
    ]
    eventually(lambda: lies_in(tools, topic), {source: [], other: [(f"{topic}-0", False)]}, within_s=60)
    verified = tools.reassign_partitions(*wanted(tmp_path, topic, other), "--verify").must_succeed()
    assert f"Reassignment of replica {topic}-0-1 completed successfully." in verified.lines
    read = tools.console_consumer("--topic", topic, "--from-beginning", "--max-messages", "3").must_succeed()
    assert read.lines == ["one", "two", "three"]


def test_a_replica_is_not_moved_to_a_directory_that_is_not_there(tools: Tools, topic: str, tmp_path: Path) -> None:
    tools.topics("--create", "--topic", topic).must_succeed()
    refused = tools.reassign_partitions(
        *wanted(tmp_path, topic, "/nowhere"), "--execute", "--timeout", "1000"
    ).must_fail()
    assert f"Failed to alter dir for {topic}-0-1" in refused.said
