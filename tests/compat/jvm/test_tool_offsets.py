"""kafka-get-offsets, kafka-delete-records and kafka-log-dirs: what they print against the node under test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jvm.tools import Tools


@pytest.fixture
def three_records(tools: Tools, made_topic: str) -> str:
    """A topic with three records in partition 1 and none in partition 0."""
    records = tools.java.run("kavka.compat.Produce", [tools.node.bootstrap, made_topic, "1", "3"])
    records.must_succeed()
    return made_topic


def offset_file(folder: Path, topic: str, **offsets: int) -> str:
    """The JSON file kafka-delete-records wants: partitions are given as p0=, p1=."""
    partitions = [{"topic": topic, "partition": int(name[1:]), "offset": offset} for name, offset in offsets.items()]
    path = folder / "offsets.json"
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def dirs_of(lines: list[str]) -> list[dict[str, Any]]:
    """The JSON document that kafka-log-dirs ends with."""
    assert lines[0] == "Querying brokers for log directories information"
    assert lines[1] == "Received log directory information from brokers 1"
    (broker,) = json.loads(lines[2])["brokers"]
    assert broker["broker"] == 1
    found: list[dict[str, Any]] = broker["logDirs"]
    return found


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["{0}:0:0", "{0}:1:3"]),
        (["--time", "latest"], ["{0}:0:0", "{0}:1:3"]),
        (["--time", "-1"], ["{0}:0:0", "{0}:1:3"]),
        (["--time", "earliest"], ["{0}:0:0", "{0}:1:0"]),
        (["--time", "-2"], ["{0}:0:0", "{0}:1:0"]),
        (["--time", "max-timestamp"], ["{0}:1:2"]),
        (["--time", "-3"], ["{0}:1:2"]),
        (["--time", "earliest-local"], ["{0}:0:0", "{0}:1:0"]),
        (["--time", "latest-tiered"], []),
        (["--time", "0"], ["{0}:1:0"]),
        (["--time", "1700000001000"], ["{0}:1:1"]),
        (["--time", "1700000001001"], ["{0}:1:2"]),
        (["--time", "1800000000000"], []),
        (["--partitions", "1"], ["{0}:1:3"]),
        (["--topic-partitions", "{0}:0-1"], ["{0}:0:0"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_get_offsets(tools: Tools, three_records: str, arguments: list[str], expected: list[str]) -> None:
    if arguments[:1] != ["--topic-partitions"]:
        arguments = ["--topic", three_records, *arguments]
    done = tools.get_offsets(*(argument.format(three_records) for argument in arguments)).must_succeed()
    assert done.lines == [line.format(three_records) for line in expected]


def test_get_offsets_of_an_unknown_topic_fails(tools: Tools) -> None:
    done = tools.get_offsets("--topic", "nowhere").must_fail()
    assert "Could not match any topic-partitions with the specified filters" in done.err


def test_delete_records_moves_the_start_of_the_log(tools: Tools, three_records: str, tmp_path: Path) -> None:
    done = tools.delete_records("--offset-json-file", offset_file(tmp_path, three_records, p1=2)).must_succeed()
    assert done.lines == [
        "Executing records delete operation",
        "Records delete operation completed:",
        f"partition: {three_records}-1\tlow_watermark: 2",
    ]
    assert tools.get_offsets("--topic", three_records, "--time", "earliest").must_succeed().lines == [
        f"{three_records}:0:0",
        f"{three_records}:1:2",
    ]


def test_delete_records_up_to_the_end(tools: Tools, three_records: str, tmp_path: Path) -> None:
    done = tools.delete_records("--offset-json-file", offset_file(tmp_path, three_records, p1=-1)).must_succeed()
    assert done.lines[2:] == [f"partition: {three_records}-1\tlow_watermark: 3"]


def test_delete_records_beyond_the_end_is_out_of_range(tools: Tools, three_records: str, tmp_path: Path) -> None:
    done = tools.delete_records("--offset-json-file", offset_file(tmp_path, three_records, p1=99)).must_succeed()
    assert "OffsetOutOfRangeException" in done.lines[2]


def test_log_dirs_shows_the_size_of_each_partition(tools: Tools, three_records: str) -> None:
    (log_dir,) = dirs_of(tools.log_dirs("--describe", "--topic-list", three_records).must_succeed().lines)
    assert log_dir["error"] is None
    assert log_dir["logDir"] == str(tools.node.data_dir)
    sizes = {row["partition"]: row["size"] for row in log_dir["partitions"]}
    assert set(sizes) == {f"{three_records}-0", f"{three_records}-1"}
    assert sizes[f"{three_records}-0"] == 0
    assert sizes[f"{three_records}-1"] > 0
    assert all(row["offsetLag"] == 0 and row["isFuture"] is False for row in log_dir["partitions"])


def test_log_dirs_leaves_out_what_it_does_not_have(tools: Tools) -> None:
    (log_dir,) = dirs_of(tools.log_dirs("--describe", "--topic-list", "nowhere").must_succeed().lines)
    assert log_dir["partitions"] == []


def test_log_dirs_of_an_unknown_broker_fails(tools: Tools) -> None:
    done = tools.log_dirs("--describe", "--broker-list", "1,5").must_fail()
    assert "The given brokers do not exist from --broker-list: 5" in done.err
