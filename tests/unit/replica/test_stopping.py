"""A clean stop is marked only where everything is on disk."""

from __future__ import annotations

import pytest

from kavka.model.types import TopicPartition
from kavka.replica.stopping import stop_cleanly
from kavka.storage import files
from kavka.storage.checkpoint import read_offsets
from kavka.storage.dirs import take_clean_shutdown


def test_everything_is_written_and_then_marked(held):
    held.produce(held.topic("orders"))
    stop_cleanly(held.replicas, 42)
    assert read_offsets(held.disk, f"{held.root}/{files.RECOVERY_POINTS}") == {TopicPartition("orders", 0): 1}
    assert take_clean_shutdown(held.disk, str(held.root)) == 42


def test_a_log_that_failed_leaves_its_directory_unmarked(held, caplog):
    held.produce(held.topic("orders"))
    held.produce(held.topic("sound"))
    held.replicas.find("orders", 0).log.failed = "it could not be cut back"
    stop_cleanly(held.replicas, 42)
    points = read_offsets(held.disk, f"{held.root}/{files.RECOVERY_POINTS}")
    assert points == {TopicPartition("orders", 0): 0, TopicPartition("sound", 0): 1}
    assert take_clean_shutdown(held.disk, str(held.root)) is None
    assert "it could not be cut back" in caplog.text


@pytest.mark.parametrize("fault", [{"replace": files.LOG_STARTS}, {"replace": files.CLEAN_SHUTDOWN}])
def test_a_directory_that_cannot_be_written_is_not_marked(held, fault, caplog):
    held.produce(held.topic("orders"))
    held.disk.faults = fault
    stop_cleanly(held.replicas, 42)
    assert take_clean_shutdown(held.disk, str(held.root)) is None
    assert "flush at shutdown failed" in caplog.text
