"""Delete records: every outcome is one code, and success is durable."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.delete_records import delete_records
from kavka.model.types import TopicPartition
from kavka.protocol.schemas.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kavka.storage import files
from kavka.storage.checkpoint import read_offsets


@pytest.fixture
def tell(ask, held):
    """Code and low watermark of one partition."""

    def call(offset, topic="orders", index=0, version=2):
        row = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[row])], timeout_ms=1)
        answer = ask(delete_records, request, version, held.replicas, held.replicas.checkpoints)
        (found,) = answer.topics[0].partitions
        return found.error_code, found.low_watermark

    return call


@pytest.fixture
def orders(held):
    partition = held.topic("orders")
    for _ in range(5):
        held.produce(partition)
    return partition


@pytest.mark.parametrize("version", range(3))
def test_the_log_start_moves_and_a_restart_will_know(tell, held, orders, version):
    assert tell(2, version=version) == (0, 2)
    assert orders.log.log_start_offset == 2
    assert read_offsets(held.disk, f"{held.root}/{files.LOG_STARTS}") == {TopicPartition("orders", 0): 2}
    assert tell(1) == (0, 2)  # it never goes back
    assert tell(-1) == (0, 5)


@pytest.mark.parametrize(
    ("offset", "topic", "index", "code"),
    [(6, "orders", 0, 1), (-2, "orders", 0, 1), (0, "orders", 7, 3), (0, "nope", 0, 3)],
)
def test_what_cannot_be_deleted_says_why(tell, orders, offset, topic, index, code):
    assert tell(offset, topic, index) == (code, -1)
    assert orders.log.log_start_offset == 0


def test_compacted_and_internal_topics_keep_their_records(tell, held):
    held.topic("compacted", cleanup_policy="compact")
    held.topic("both", cleanup_policy="compact,delete")
    held.topic("__consumer_offsets")
    assert tell(0, "compacted") == (44, -1)
    assert tell(0, "both") == (0, 0)
    assert tell(0, "__consumer_offsets") == (17, -1)


def test_what_is_not_durable_is_not_called_deleted(tell, held, orders):
    held.disk.faults = {"replace": files.LOG_STARTS}
    assert tell(2) == (56, -1)
    held.disk.faults = {}
    assert tell(2) == (0, 2)
    held.replicas.dirs[0].fail("unplugged")
    assert tell(3) == (56, -1)
    assert tell(3, "nope") == (3, -1)
