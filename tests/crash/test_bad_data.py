"""Data directories damaged or not ours, ports that are taken: one line, or a recovery that says what it did."""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from crash.administration import create_topic
from crash.history import read_log
from crash.raw import Raw
from kavka.kernels.batches import scan_prefix
from kavka.model.errors import KafkaStorageError
from kavka.testing import Cluster

ORDERS = ("orders", 0)
RECORDS = 60
SEGMENT_BYTES = 1 << 20
START_TIMEOUT_S = 60.0
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "orders-0/leader-epoch-checkpoint",
    ".kafka_cleanshutdown",
)


def fill(cluster: Cluster) -> list[bytes]:
    """A topic of a few segments; returns its records."""
    create_topic(cluster.bootstrap, "orders", 1, {"segment.bytes": str(SEGMENT_BYTES)})
    raw = Raw(cluster.bootstrap)
    values = [b"%d/" % number + bytes(50_000) for number in range(RECORDS)]
    for number, value in enumerate(values):
        assert raw.produce("orders", value) == (0, number)
    raw.close()
    return values


def segments(cluster: Cluster) -> list[Path]:
    """The segments of the topic, oldest first."""
    found = sorted((cluster.data_dir / "orders-0").glob("*.log"))
    assert len(found) >= 3
    return found


def flip(path: Path, position: int) -> None:
    """Change one byte."""
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 0xFF]))


def values_of(cluster: Cluster) -> list[bytes]:
    """What the topic holds now."""
    return [value for _, value in read_log(cluster.bootstrap, ORDERS)]


def refusal(arguments: list[str]) -> str:
    """What a node says that does not start: one line, and exit status 1."""
    ended = subprocess.run(
        [sys.executable, "-m", "kavka", "serve", "--console", "off", *arguments],
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if line.startswith("kavka: ")]
    assert len(lines) == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    return lines[0]


def test_a_flipped_byte_after_a_crash_cuts_the_log_there_and_says_so(rng: random.Random) -> None:
    with Cluster() as cluster:
        values = fill(cluster)
        cluster.kill()
        damaged = segments(cluster)[-1]
        flip(damaged, rng.randrange(61, damaged.stat().st_size))
        batches, sound_bytes, _ = scan_prefix(damaged.read_bytes())
        left = int(damaged.stem) + len(batches)
        cut_bytes = damaged.stat().st_size - sound_bytes
        cluster.start()
        assert f"orders-0: log recovery truncated {cut_bytes} bytes" in cluster.log
        assert values_of(cluster) == values[:left]
        raw = Raw(cluster.bootstrap)
        assert raw.produce("orders", b"after") == (0, left)
        raw.close()
        cluster.restart()
        assert values_of(cluster) == [*values[:left], b"after"]


def test_a_flipped_byte_in_a_sealed_segment_after_a_clean_stop_leaves_the_rest_readable() -> None:
    with Cluster() as cluster:
        values = fill(cluster)
        assert cluster.stop() == 0
        first, second, *_ = segments(cluster)
        flip(first, len(values[0]) // 2)
        cluster.start()
        raw = Raw(cluster.bootstrap)
        code, records = raw.fetch("orders", 0)
        assert code == 0
        assert scan_prefix(records)[1] == 0  # a consumer sees that the first batch is damaged
        start = int(second.stem)
        code, records = raw.fetch("orders", start)
        assert code == 0
        assert scan_prefix(records)[0][0].base_offset == start
        assert raw.produce("orders", b"after") == (0, len(values))
        raw.close()


@pytest.mark.parametrize("crashed", [True, False], ids=["after a crash", "after a clean stop"])
@pytest.mark.parametrize("damage", [b"", b"\x00\xff\xfe garbage", b"0\n99\n"], ids=["empty", "garbage", "short"])
def test_a_damaged_checkpoint_costs_no_record(crashed: bool, damage: bytes) -> None:
    with Cluster() as cluster:
        values = fill(cluster)
        for name in CHECKPOINTS:
            if crashed:
                cluster.kill()
            else:
                assert cluster.stop() == 0
            (cluster.data_dir / name).write_bytes(damage)
            cluster.start()
            assert values_of(cluster) == values, name
            raw = Raw(cluster.bootstrap)
            assert raw.produce("orders", name.encode()) == (0, len(values))
            raw.close()
            values.append(name.encode())


@pytest.mark.parametrize("kind", ["index", "timeindex", "snapshot"])
@pytest.mark.parametrize("crashed", [True, False], ids=["after a crash", "after a clean stop"])
def test_damaged_indexes_and_snapshots_cost_no_record(kind: str, crashed: bool, rng: random.Random) -> None:
    with Cluster() as cluster:
        values = fill(cluster)
        if crashed:
            cluster.kill()
        else:
            assert cluster.stop() == 0
        for path in (cluster.data_dir / "orders-0").glob(f"*.{kind}"):
            path.write_bytes(rng.randbytes(37))
        cluster.start()
        assert values_of(cluster) == values


def test_a_log_whose_topic_id_was_torn_by_a_crash_is_found_by_its_name() -> None:
    with Cluster() as cluster:
        values = fill(cluster)
        cluster.kill()
        (cluster.data_dir / "orders-0" / "partition.metadata").write_bytes(b"version: 0")
        cluster.start()
        assert values_of(cluster) == values


def test_a_log_that_cannot_be_loaded_is_offline_and_stays_as_it_is() -> None:
    with Cluster() as cluster:
        values = fill(cluster)
        assert cluster.stop() == 0
        identity = cluster.data_dir / "orders-0" / "partition.metadata"
        sound = identity.read_bytes()
        identity.write_bytes(b"version: 0")
        cluster.start()
        raw = Raw(cluster.bootstrap)
        assert raw.produce("orders", b"after") == (KafkaStorageError.code, -1)
        assert raw.fetch("orders", 0) == (KafkaStorageError.code, b"")
        raw.close()
        assert "replica orders-0 is offline" in cluster.log
        cluster.stop()
        identity.write_bytes(sound)
        cluster.start()
        assert values_of(cluster) == values


def test_a_node_refuses_a_directory_that_another_node_uses() -> None:
    with Cluster() as cluster:
        said = refusal(["--data-dir", str(cluster.data_dir), "--listen", "127.0.0.1:0"])
        assert "in use by another node" in said
        create_topic(cluster.bootstrap, "orders", 1)


def test_a_node_refuses_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        said = refusal(["--data-dir", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}"])
    assert str(port) in said


def test_a_node_refuses_a_directory_of_another_node(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "data"):
        pass
    meta = tmp_path / "data" / "meta.properties"
    meta.write_text(re.sub(r"node\.id=\d+", "node.id=77", meta.read_text()))
    said = refusal(["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"])
    assert "77" in said


def test_a_node_refuses_a_directory_of_another_cluster(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with Cluster(data_dir=tmp_path / name):
            pass
    both = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    said = refusal(["--listen", "127.0.0.1:0", "--override", f"log.dirs={both}"])
    assert "cluster" in said


@pytest.mark.parametrize("damage", [b"", b"version=1\n", b"version=7\n", b"\xff\xfe"])
def test_a_node_refuses_a_damaged_meta_properties(tmp_path: Path, damage: bytes) -> None:
    with Cluster(data_dir=tmp_path / "data"):
        pass
    (tmp_path / "data" / "meta.properties").write_bytes(damage)
    said = refusal(["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"])
    assert "meta.properties" in said


def test_a_node_refuses_a_directory_with_files_that_are_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.txt").write_text("precious")
    (tmp_path / "data" / "photos").mkdir()
    said = refusal(["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"])
    assert str(tmp_path / "data") in said
    assert set(os.listdir(tmp_path / "data")) <= {"photos", "thesis.txt", ".lock"}
    assert (tmp_path / "data" / "thesis.txt").read_text() == "precious"


def test_a_node_refuses_a_directory_it_cannot_write_to(tmp_path: Path) -> None:
    if os.geteuid() == 0:  # root writes everywhere, but nobody makes a directory inside of a file
        (tmp_path / "file").write_text("")
        data_dir = tmp_path / "file" / "data"
    else:
        data_dir = tmp_path / "locked"
        data_dir.mkdir(mode=0o555)
    said = refusal(["--data-dir", str(data_dir), "--listen", "127.0.0.1:0"])
    assert str(data_dir) in said


def test_a_flipped_byte_in_the_metadata_log_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "data") as cluster:
        for number in range(20):
            create_topic(cluster.bootstrap, f"topic-{number}", 1)
    (segment,) = (tmp_path / "data" / "__cluster_metadata-0").glob("*.log")
    flip(segment, segment.stat().st_size // 2)
    said = refusal(["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0"])
    assert "__cluster_metadata" in said
