"""Describe log directories: sizes of what was asked for, and an error for a directory that does not answer."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.describe_log_dirs import describe_log_dirs
from kavka.protocol.schemas.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


@pytest.fixture
def tell(ask, held):
    def call(*topics, version=4):
        wanted = [DescribableLogDirTopic(topic=name, partitions=list(indexes)) for name, *indexes in topics]
        request = DescribeLogDirsRequest(topics=wanted or None)
        (row,) = ask(describe_log_dirs, request, version, held.replicas).results
        return row

    return call


@pytest.mark.parametrize("version", range(1, 6))
def test_everything_is_described_unless_something_is_asked_for(tell, held, version):
    held.topic("orders", 2)
    held.topic("other")
    held.produce(held.replicas.find("orders", 1))
    row = tell(version=version)
    sizes = {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in row.topics
        for partition in topic.partitions
    }
    size = held.replicas.find("orders", 1).log.size_bytes
    assert sizes == {("orders", 0): 0, ("orders", 1): size, ("other", 0): 0}
    assert (row.error_code, row.log_dir) == (0, str(held.root))
    assert (row.total_bytes > 0) == (version >= 4)
    (topic,) = tell(("orders", 1, 7), ("nope", 0), version=version).topics
    assert (topic.name, [partition.partition_index for partition in topic.partitions]) == ("orders", [1])


def test_a_directory_that_is_offline_or_cannot_be_measured_says_so(tell, held):
    held.topic("orders")
    held.disk.faults = {"measure": ""}
    assert (tell().error_code, tell().topics, tell().total_bytes) == (56, [], -1)
    held.disk.faults = {}
    assert tell().error_code == 0
    held.replicas.dirs[0].fail("unplugged")
    assert (tell().error_code, tell().topics) == (56, [])
