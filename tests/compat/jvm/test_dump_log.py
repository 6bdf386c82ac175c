"""Kafka's dump-log reads the files of the node under test without complaint; `kavka log dump` reads Kafka's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jvm.java_tools import Java, Outcome
from jvm.nodes import APACHE, Node, running, target
from jvm.tools import Tools, dump_log

COMPLAINTS = re.compile(r"isvalid: false|mismatch|out of order|invalid|Found|Could not|Exception|is not|corrupt", re.I)
BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* compresscodec: (\w+) crc: (\d+) isvalid: true", re.M
)
# What the tool always says of a segment that is not the first, because it starts to count at -1.
NOT_THE_FIRST = re.compile(r"Non-consecutive offsets in \S+\n  -1 is followed by \d+\n")
PRODUCER = re.compile(r"^producerId: (\d+) producerEpoch: 0 .* lastSequence: (\d+) lastOffset: (\d+)", re.M)
RECORD = re.compile(r"^\| offset: (\d+) ", re.M)
METADATA = re.compile(r'"type":"(\w+)"')
# What a single node with two topics, a changed config and a deleted topic has told its metadata log.
EXPECTED_METADATA = {
    "FEATURE_LEVEL_RECORD",
    "REGISTER_BROKER_RECORD",
    "TOPIC_RECORD",
    "PARTITION_RECORD",
    "CONFIG_RECORD",
    "REMOVE_TOPIC_RECORD",
    "PRODUCER_IDS_RECORD",
}


def fill(tools: Tools) -> None:
    """Leave files of every kind behind: several segments, every codec, idempotent producers, a deleted topic."""
    tools.topics("--create", "--topic", "dumped", "--config", "segment.bytes=1048576").must_succeed()
    tools.topics("--create", "--topic", "deleted").must_succeed()
    tools.configs(
        "--alter", "--entity-type", "topics", "--entity-name", "dumped", "--add-config", "flush.ms=60000"
    ).must_succeed()
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        arguments = [tools.node.bootstrap, "dumped", "0", "100", f"compression.type={codec}", "batch.size=1000"]
        tools.java.run("kavka.compat.Produce", arguments).must_succeed()
    tools.producer_perf_test(
        "--topic", "dumped", "--num-records", "3000", "--record-size", "1000", "--throughput", "-1"
    ).must_succeed()
    tools.topics("--delete", "--topic", "deleted").must_succeed()


@pytest.fixture(scope="module")
def kafkas(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Apache Kafka, filled and stopped."""
    with running(APACHE, java, tmp_path_factory.mktemp("kafkas-files")) as node:
        fill(Tools(java, node))
        node.stop()
        yield node


@pytest.fixture(scope="module")
def ours(java: Java, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Node]:
    """The node under test, filled and stopped."""
    if target() == APACHE:
        yield request.getfixturevalue("kafkas")
        return
    with running(target(), java, tmp_path_factory.mktemp("our-files")) as node:
        fill(Tools(java, node))
        node.stop()
        yield node


@pytest.fixture(scope="module")
def dumped(java: Java) -> Callable[..., Outcome]:
    """Kafka's dump of files; it must not complain."""

    def dump(paths: list[Path], *options: str) -> Outcome:
        assert paths
        done = dump_log(java, *options, "--files", ",".join(map(str, paths))).must_succeed()
        assert NOT_THE_FIRST.sub("", done.err) == ""
        complaints = [line for line in done.lines if COMPLAINTS.search(_without_payload(line))]
        assert complaints == []
        return done

    return dump


def _without_payload(line: str) -> str:
    return re.sub(r"(key|payload): .*", "", line)


def kavka_dump(path: Path, deep: bool = False) -> list[dict[str, Any]]:
    """The rows of `kavka log dump`."""
    command = [str(Path(sys.executable).with_name("kavka")), "log", "dump", "--output", "json"]
    done = subprocess.run(
        [*command, *(["--deep"] if deep else []), str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def files(node: Node, pattern: str, folder: str = "dumped-0") -> list[Path]:
    """The files of a partition that match."""
    return sorted((node.data_dir / folder).glob(pattern))


def batches_of(said: str) -> list[tuple[int, ...]]:
    """Offsets, count and checksum of each batch in a dump of Kafka's tool."""
    return [(int(row[0]), int(row[1]), int(row[2]), int(row[4])) for row in BATCH.findall(said)]


def test_segments_are_dumped(ours: Node, dumped: Callable[..., Outcome]) -> None:
    segments = files(ours, "*.log")
    assert len(segments) >= 3
    done = dumped(segments, "--print-data-log", "--deep-iteration")
    assert [int(offset) for offset in RECORD.findall(done.out)] == list(range(3500))
    assert {row[3] for row in BATCH.findall(done.out)} == {"none", "gzip", "snappy", "lz4", "zstd"}


def test_offset_indexes_are_dumped(ours: Node, dumped: Callable[..., Outcome]) -> None:
    done = dumped(files(ours, "*.index"))
    assert len(re.findall(r"^offset: \d+ position: \d+", done.out, re.M)) > 100


@pytest.mark.parametrize("check", ["--index-sanity-check", "--verify-index-only"])
def test_offset_indexes_pass_the_check(ours: Node, dumped: Callable[..., Outcome], check: str) -> None:
    done = dumped(files(ours, "*.index"), check)
    assert "entries in" not in done.out


def test_time_indexes_are_dumped(ours: Node, dumped: Callable[..., Outcome]) -> None:
    done = dumped(files(ours, "*.timeindex"))
    assert len(re.findall(r"^timestamp: \d+ offset: \d+", done.out, re.M)) >= 3


def test_producer_snapshots_are_dumped(ours: Node, dumped: Callable[..., Outcome]) -> None:
    last = files(ours, "*.snapshot")[-1]
    done = dumped([last])
    producers = PRODUCER.findall(done.out)
    assert len(producers) == 6
    assert [int(row[1]) for row in sorted(producers, key=lambda row: int(row[2]))] == [99] * 5 + [2999]
    assert last.stem == f"{3500:020}"


def test_the_metadata_log_is_dumped(ours: Node, dumped: Callable[..., Outcome]) -> None:
    done = dumped(files(ours, "*.log", "__cluster_metadata-0"), "--cluster-metadata-decoder")
    assert set(METADATA.findall(done.out)) >= EXPECTED_METADATA
    assert "LeaderChange: " in done.out
    assert "KRaftVersion " in done.out
    assert "KRaftVoters " in done.out


def test_metadata_snapshots_are_dumped(ours: Node, dumped: Callable[..., Outcome]) -> None:
    snapshots = [*files(ours, "*.checkpoint", "__cluster_metadata-0"), ours.data_dir / "bootstrap.checkpoint"]
    done = dumped([path for path in snapshots if path.exists()], "--cluster-metadata-decoder")
    assert "SnapshotHeader " in done.out
    assert "SnapshotFooter " in done.out


def test_the_folder_holds_the_files_kafka_has(ours: Node, kafkas: Node) -> None:
    def names(node: Node) -> set[str]:
        return {path.name for path in node.data_dir.iterdir() if not path.name.endswith("-delete")}

    not_yet = {"cleaner-offset-checkpoint"}  # ours comes with the first compaction
    assert names(kafkas) - not_yet <= names(ours)


def test_the_partition_holds_the_files_kafka_has(ours: Node, kafkas: Node) -> None:
    def kinds(node: Node) -> set[str]:
        return {re.sub(r"^\d+", "", path.name) for path in (node.data_dir / "dumped-0").iterdir()}

    assert kinds(ours) == kinds(kafkas)


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_checkpoints_are_kafkas(ours: Node, kafkas: Node, name: str) -> None:
    theirs, mine = ((node.data_dir / name).read_text().splitlines() for node in (kafkas, ours))
    assert mine[0] == theirs[0] == "0"
    assert [line for line in mine if line.startswith("dumped")] == [
        line for line in theirs if line.startswith("dumped")
    ]


def test_meta_properties_has_kafkas_keys(ours: Node, kafkas: Node) -> None:
    def keys(node: Node) -> list[str]:
        lines = (node.data_dir / "meta.properties").read_text().splitlines()
        return sorted(line.split("=")[0] for line in lines if not line.startswith("#"))

    assert keys(ours) == keys(kafkas) == ["cluster.id", "directory.id", "node.id", "version"]


def test_kavka_dumps_kafkas_segments(kafkas: Node, dumped: Callable[..., Outcome]) -> None:
    for path in files(kafkas, "*.log"):
        rows = kavka_dump(path, deep=True)
        batches = [row for row in rows if "base_offset" in row]
        said = dumped([path], "--deep-iteration").out
        ours = [(row["base_offset"], row["last_offset"], row["count"], int(row["crc"], 16)) for row in batches]
        assert ours == batches_of(said)
        assert [row["offset"] for row in rows if "timestamp" in row] == [int(at) for at in RECORD.findall(said)]


def test_kavka_dumps_kafkas_indexes(kafkas: Node, dumped: Callable[..., Outcome]) -> None:
    for path in files(kafkas, "*.index"):
        said = re.findall(r"^offset: (\d+) position: (\d+)", dumped([path]).out, re.M)
        assert [(row["offset"], row["position"]) for row in kavka_dump(path)] == [(int(a), int(b)) for a, b in said]
    for path in files(kafkas, "*.timeindex"):
        said = re.findall(r"^timestamp: (\d+) offset: (\d+)", dumped([path]).out, re.M)
        assert [(row["timestamp"], row["offset"]) for row in kavka_dump(path)] == [(int(a), int(b)) for a, b in said]


def test_kavka_dumps_kafkas_producer_snapshots(kafkas: Node) -> None:
    rows = kavka_dump(files(kafkas, "*.snapshot")[-1])
    assert [row["last_sequence"] for row in sorted(rows, key=lambda row: row["last_offset"])] == [99] * 5 + [2999]


def test_kavka_dumps_kafkas_metadata(kafkas: Node, dumped: Callable[..., Outcome]) -> None:
    (path,) = files(kafkas, "*.log", "__cluster_metadata-0")
    rows = kavka_dump(path, deep=True)
    ours = [row["type"] for row in rows if "type" in row]
    assert not any("undecodable" in row for row in rows)
    theirs = METADATA.findall(dumped([path], "--cluster-metadata-decoder").out)
    assert [_record_name(name) for name in ours] == theirs


def _record_name(class_name: str) -> str:
    """The name Kafka's tool prints: words in capitals, and RECORD at the end."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).upper()
    return words if words.endswith("_RECORD") else f"{words}_RECORD"


@pytest.mark.parametrize(
    "name",
    [
        "meta.properties",
        "bootstrap.checkpoint",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "dumped-0/partition.metadata",
        "dumped-0/leader-epoch-checkpoint",
        "__cluster_metadata-0/quorum-state",
        "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
    ],
)
def test_kavka_dumps_kafkas_other_files(kafkas: Node, name: str) -> None:
    assert isinstance(kavka_dump(kafkas.data_dir / name, deep=True), list)
