"""A full disk: the producer is told, reading goes on or the node stops saying why, and nothing acknowledged is lost."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crash.administration import create_topic
from crash.history import read_log
from crash.raw import HangupError, Raw
from kavka.model.errors import KafkaStorageError
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.testing import Cluster

SCRIPT = str(Path(__file__).with_name("node_on_disk.py"))
VALUE_BYTES = 100_000
ENOUGH = 200
WORDS = "No space left on device"


class Disk:
    """A disk that can be full: a node on it, and what it takes to fill it and to make space."""

    def __init__(self, cluster: Cluster, fill: Callable[[], None], make_space: Callable[[], None]) -> None:
        self.cluster = cluster
        self.fill = fill
        self.make_space = make_space


@pytest.fixture
def small_file_system(tmp_path: Path) -> Iterator[Disk]:
    """A node on a file system of 8 MiB."""
    mount_point = tmp_path / "small"
    mount_point.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(mount_point)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a file system is not permitted here")

    def make_space() -> None:
        subprocess.run(["mount", "-o", "remount,size=64m", str(mount_point)], check=True)

    def fill() -> None:
        filler = os.open(mount_point / "filler", os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while True:
                os.write(filler, bytes(4096))
        os.close(filler)

    try:
        with Cluster(data_dir=mount_point / "data") as cluster:
            yield Disk(cluster, fill, make_space)
    finally:
        subprocess.run(["umount", "-l", str(mount_point)], check=True)


@pytest.fixture
def refusing_disk(tmp_path: Path) -> Iterator[Disk]:
    """A node whose disk says that it is full while a flag is set."""
    flag = tmp_path / "full"
    with Cluster(data_dir=tmp_path / "data", program=[sys.executable, SCRIPT, "full", str(flag)]) as cluster:
        yield Disk(cluster, flag.touch, lambda: flag.unlink(missing_ok=True))


@pytest.fixture(params=["small_file_system", "refusing_disk"])
def disk(request: pytest.FixtureRequest) -> Disk:
    """Both kinds of full disk."""
    found: Disk = request.getfixturevalue(request.param)
    return found


def test_a_producer_is_told_that_the_disk_is_full_and_nothing_acknowledged_is_lost(disk: Disk) -> None:
    cluster = disk.cluster
    create_topic(cluster.bootstrap, "orders", 1)
    raw = Raw(cluster.bootstrap)
    acknowledged = [write(raw, number) for number in range(20)]
    disk.fill()
    code = 0
    with contextlib.suppress(HangupError):
        while code == 0 and len(acknowledged) < ENOUGH:
            written = value(len(acknowledged))
            code, _ = raw.produce("orders", written)
            if code == 0:
                acknowledged.append(written)
        assert code == KafkaStorageError.code
    raw.close()
    if cluster.running:
        assert [value for _, value in read_log(cluster.bootstrap, ("orders", 0))] == acknowledged
    assert WORDS in cluster.log

    disk.make_space()
    cluster.kill()
    cluster.start()
    assert [value for _, value in read_log(cluster.bootstrap, ("orders", 0))] == acknowledged
    raw = Raw(cluster.bootstrap)
    assert raw.produce("orders", b"after") == (0, len(acknowledged))
    raw.close()


def test_a_topic_that_the_disk_has_no_space_for_is_not_acknowledged(disk: Disk) -> None:
    cluster = disk.cluster
    create_topic(cluster.bootstrap, "orders", 1)
    disk.fill()
    raw = Raw(cluster.bootstrap)
    acknowledged = True
    try:
        # As many as it takes to get beyond what the file system keeps in reserve for a file that exists.
        for number in range(ENOUGH):
            if not (acknowledged := created(raw, f"late-{number}")):
                break
    except HangupError:
        acknowledged = False
    raw.close()
    assert not acknowledged
    assert WORDS in cluster.log

    disk.make_space()
    cluster.kill()
    cluster.start()
    create_topic(cluster.bootstrap, "later", 1)
    raw = Raw(cluster.bootstrap)
    assert raw.produce("orders", b"after") == (0, 0)
    assert raw.produce("later", b"first") == (0, 0)
    for earlier in range(number):
        assert raw.produce(f"late-{earlier}", b"first") == (0, 0)
    raw.close()


def value(number: int) -> bytes:
    """A record that does not fit often."""
    return b"%d" % number + os.urandom(8) + bytes(VALUE_BYTES)


def write(raw: Raw, number: int) -> bytes:
    """Write a record that must be acknowledged."""
    written = value(number)
    assert raw.produce("orders", written) == (0, number)
    return written


def created(raw: Raw, name: str) -> bool:
    """Whether a topic could be created."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    (row,) = raw.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics
    code: int = row.error_code
    return code == 0
