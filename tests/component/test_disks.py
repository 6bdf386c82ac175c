"""A node with several log directories, some of which cannot be used when it starts."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from crash.administration import create_topic
from crash.raw import Raw
from kavka.client import Admin
from kavka.client.admin_cluster import LogDir
from kavka.model.errors import KafkaStorageError
from kavka.testing import Cluster, NodeError

PARTITIONS = 6


def described(cluster: Cluster) -> dict[Path, LogDir]:
    """The log directories of a cluster of one."""

    async def ask() -> dict[Path, LogDir]:
        async with Admin(cluster.bootstrap) as admin:
            (found,) = (await admin.describe_log_dirs()).values()
        return {Path(row.path): row for row in found}

    return asyncio.run(ask())


def test_a_node_starts_without_a_directory_that_is_broken_and_has_it_back_once_it_is_mended(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "data", disks=3) as cluster:
        first, second, third = dirs = cluster.log_dirs()
        create_topic(cluster.bootstrap, "orders", PARTITIONS)
        raw = Raw(cluster.bootstrap)
        for index in range(PARTITIONS):
            assert raw.produce("orders", b"x", index) == (0, 0)
        raw.close()
        in_second = [index for index in range(PARTITIONS) if (second / f"orders-{index}").exists()]
        assert len(in_second) == 2
        cluster.stop()
        second.rename(tmp_path / "aside")
        second.write_text("a file where a directory was")
        cluster.start()
        rows = described(cluster)
        assert {path: row.error is None for path, row in rows.items()} == {first: True, second: False, third: True}
        assert "is a file, not a directory" in cluster.log
        raw = Raw(cluster.bootstrap)
        for index in range(PARTITIONS):
            code = KafkaStorageError.code if index in in_second else 0
            assert raw.produce("orders", b"y", index)[0] == code
        raw.close()
        create_topic(cluster.bootstrap, "later", 2)
        assert len([path for path in dirs if path.is_dir() and list(path.glob("later-*"))]) == 2

        cluster.stop()
        second.unlink()
        (tmp_path / "aside").rename(second)
        cluster.start()
        raw = Raw(cluster.bootstrap)
        for index in range(PARTITIONS):
            assert raw.produce("orders", b"z", index) == (0, 1 if index in in_second else 2)
        raw.close()


def test_a_node_without_its_metadata_log_or_without_any_directory_does_not_start(tmp_path: Path) -> None:
    cluster = Cluster(data_dir=tmp_path / "data", disks=2)
    with cluster:
        cluster.stop()
        shutil.rmtree(cluster.log_dirs()[0])
        cluster.log_dirs()[0].write_text("")
        with pytest.raises(NodeError, match="data is a file, not a directory"):
            cluster.start()
