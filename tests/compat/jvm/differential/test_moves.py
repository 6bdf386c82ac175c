"""The same moves between log directories asked of Apache Kafka and of Kavka, both with two: the same answers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from jvm.differential.areas.configs import BROKER
from jvm.java_tools import Java
from jvm.nodes import APACHE, KAVKA, NODE_ID, running

from crash.raw import Raw
from kavka.protocol.schemas.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.protocol.schemas.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kavka.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

PATIENCE_S = 60.0
TOPIC = "moved"
LONG = "l" * 240

Rows = list[tuple[str, int, int]]
"""Topic, partition and error code."""


class Asked:
    """A node with two log directories."""

    def __init__(self, bootstrap: str, dirs: list[str]) -> None:
        self._raw = Raw(bootstrap)
        self.close = self._raw.close
        self.dirs = dirs

    def create(self, name: str) -> None:
        """Make a topic of two partitions."""
        wanted = CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
        assert self._raw.call(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7).topics[0].error_code == 0

    def move(self, *paths: str, topic: str = TOPIC, index: int = 0, version: int = 2) -> Rows:
        """Ask for a move of one partition to each of these."""
        topics = [AlterReplicaLogDirTopic(name=topic, partitions=[index])]
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics) for path in paths])
        answer = self._raw.call(request, version)
        return [
            (row.topic_name, partition.partition_index, partition.error_code)
            for row in answer.results
            for partition in row.partitions
        ]

    def lies_in(self) -> str:
        """Where the first partition lies, as soon as it lies in one place only."""
        deadline = time.monotonic() + PATIENCE_S
        wanted = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=TOPIC, partitions=[0])])
        while True:
            found = [row.log_dir for row in self._raw.call(wanted, 4).results if row.topics]
            if len(found) == 1:
                return str(found[0])
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    def other(self) -> str:
        """Where it does not."""
        here = self.lies_in()
        return next(path for path in self.dirs if path != here)

    def cordon(self, path: str) -> tuple[int, bool]:
        """Have nothing new placed in a directory; the error code, and whether it counts."""
        change = AlterableConfig(name="cordoned.log.dirs", config_operation=0, value=path)
        resource = AlterConfigsResource(resource_type=BROKER, resource_name=str(NODE_ID), configs=[change])
        answer = self._raw.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            rows = self._raw.call(DescribeLogDirsRequest(topics=None), 5).results
            if any(row.log_dir == path and row.is_cordoned for row in rows):
                return answer.responses[0].error_code, True
            time.sleep(0.05)
        return answer.responses[0].error_code, False


def answers(bootstrap: str, dirs: list[str]) -> list[tuple[str, object]]:
    """What a node says, by what it was asked."""
    node = Asked(bootstrap, dirs)
    try:
        return said_by(node, dirs)
    finally:
        node.close()


def said_by(node: Asked, dirs: list[str]) -> list[tuple[str, object]]:
    """The same, of a node that is connected."""
    node.create(TOPIC)
    node.create(LONG)
    told: list[tuple[str, object]] = [
        ("nowhere", node.move("/nowhere")),
        ("nowhere, before", node.move("/nowhere", version=1)),
        ("no path", node.move("")),
        ("a relative path", node.move("data")),
        ("a path with a slash at its end", node.move(f"{node.other()}/")),
        ("an unknown topic", node.move(dirs[1], topic="unknown")),
        ("an unknown topic, nowhere", node.move("/nowhere", topic="unknown")),
        ("an unknown partition", node.move(dirs[1], index=9)),
        ("a negative partition", node.move(dirs[1], index=-1)),
        ("a long name", node.move(dirs[0], topic=LONG)),
        ("no name", node.move(dirs[0], topic="")),
        ("where it lies", node.move(node.lies_in())),
        ("nothing", node.move()),
        ("elsewhere", node.move(node.other())),
        ("elsewhere again", node.move(node.other())),
        ("back, before", node.move(node.other(), version=1)),
        ("to two at once", node.move(*node.dirs)),
    ]
    node.lies_in()
    other = node.other()
    return [*told, ("cordoned", node.cordon(other)), ("to a cordoned one", node.move(other))]


@pytest.mark.apart
def test_moves_are_answered_as_by_kafka(java: Java, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = {}
    for which in (APACHE, KAVKA):
        folder: Path = tmp_path_factory.mktemp(which)
        dirs = [str(folder / "data"), str(folder / "data-2")]
        with running(which, java, folder, {"log.dirs": ",".join(dirs)}) as node:
            found[which] = answers(node.bootstrap, dirs)
    assert found[KAVKA] == found[APACHE]
