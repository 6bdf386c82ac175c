"""Alter replica log dirs: each outcome by its error code, and what describing the directories says meanwhile."""

from __future__ import annotations

import pytest
from held import Held

from kavka.broker.handlers.alter_replica_log_dirs import alter_replica_log_dirs
from kavka.broker.handlers.describe_log_dirs import describe_log_dirs
from kavka.model.types import Uuid
from kavka.protocol.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kavka.protocol.schemas.describe_log_dirs import DescribeLogDirsRequest

LONG = "l" * 240


@pytest.fixture
def two(held, tmp_path):
    """Two directories, and a topic in the first."""
    made = Held(tmp_path / "data", held.disk, held.clock, Uuid(b"s" * 16))
    made.topic("orders")
    made.topic(LONG)
    return made


@pytest.fixture
def move(ask, two):
    """A way to move a replica, to the second directory unless another is said."""

    def call(topic="orders", index=0, path=None, version=2):
        target = two.replicas.dirs[1].path if path is None else path
        topics = [AlterReplicaLogDirTopic(name=topic, partitions=[index])]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=target, topics=topics)])
        (row,) = ask(alter_replica_log_dirs, request, version, two.replicas).results
        assert row.topic_name == topic
        return [(partition.partition_index, partition.error_code) for partition in row.partitions]

    return call


@pytest.mark.parametrize("version", [1, 2])
def test_a_move_is_begun_and_seen_as_a_future_replica(move, ask, two, version):
    two.produce(two.replicas.find("orders", 0))
    assert move(version=version) == [(0, 0)]
    rows = ask(describe_log_dirs, DescribeLogDirsRequest(topics=None), 4, two.replicas).results
    found = {
        (row.log_dir, partition.is_future_key, partition.offset_lag)
        for row in rows
        for topic in row.topics
        for partition in topic.partitions
        if topic.name == "orders"
    }
    assert found == {(two.replicas.dirs[0].path, False, 0), (two.replicas.dirs[1].path, True, 1)}


def test_every_refusal_has_its_code(move, two):
    assert move(path="/nowhere") == [(0, 57)]
    assert move(index=7) == [(7, 3)]
    assert move(topic="nope") == [(0, 3)]
    assert move(topic=LONG) == [(0, 17)]
    dirs = two.replicas.dirs
    dirs[1].cordoned = True
    assert move() == [(0, 39)]
    dirs[1].cordoned = False
    dirs[1].fail("unplugged")
    assert move() == [(0, 56)]
    assert move(path=dirs[0].path) == [(0, 0)]


def test_a_replica_that_lies_in_an_offline_directory_is_not_moved(move, two):
    replicas = two.replicas
    replicas.take_offline(replicas.dirs[0], "unplugged")
    assert move() == [(0, 56)]
