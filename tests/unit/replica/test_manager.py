"""The replicas of a node follow the metadata: topics come, go and come again, and configurations change."""

from __future__ import annotations

import pytest

from kavka.metadata.image.configs import ResourceType
from kavka.model.errors import (
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kavka.model.types import TopicPartition, Uuid
from kavka.replica import manager as managers


def test_a_partition_is_found_by_name_and_by_id(held):
    partition = held.topic("orders", 2)
    assert held.replicas.find("orders", 0) is partition
    assert held.replicas.find(partition.topic_id, 0) is partition
    assert len(held.replicas) == 2
    assert partition.leads


def test_what_is_missing_says_why(held):
    partition = held.topic("orders")
    replicas = held.replicas
    for topic, index, error in [
        ("nope", 0, UnknownTopicOrPartition),
        ("orders", 7, UnknownTopicOrPartition),
        (Uuid(b"u" * 16), 0, UnknownTopicId),
        (partition.topic_id, 7, UnknownTopicOrPartition),
    ]:
        with pytest.raises(error):
            replicas.find(topic, index)
    del replicas._by_name["orders"].partitions[0]
    with pytest.raises(NotLeaderOrFollower):
        replicas.find("orders", 0)


def test_a_deleted_topic_frees_its_name_at_once_and_keeps_its_files_for_a_while(held):
    held.produce(held.topic("orders"), b"old")
    held.delete()
    assert not (held.root / "orders-0").exists()
    (deleted,) = held.replicas.removals.deleted
    assert deleted.at_ms == held.clock.now_ms() + 60_000
    assert deleted.log.path.endswith("-delete")
    again = held.topic("orders")
    assert (again.log.log_end_offset, again.log.path) == (0, str(held.root / "orders-0"))


def test_a_topic_whose_log_failed_can_be_deleted_and_created_again(held):
    held.topic("orders", 2)
    partition = held.replicas.find("orders", 0)
    held.produce(partition)
    partition.log.failed = "the disk said no"
    held.delete()
    assert len(held.replicas.removals.deleted) == 2
    assert not (held.root / "orders-0").exists()
    assert held.produce(held.topic("orders")).first_offset == 0


def test_a_directory_that_cannot_be_renamed_is_set_aside_when_its_name_is_used_again(held):
    held.topic("orders", 2)
    for value in (b"one", b"two"):
        held.produce(held.replicas.find("orders", 0), value)
    held.replicas.find("orders", 0).log.roll(held.clock.now_ms())
    held.disk.faults = {"rename": "orders-0"}
    held.delete()
    assert [deleted.log.topic_partition.partition for deleted in held.replicas.removals.deleted] == [1]
    with pytest.raises(KafkaStorageError):
        held.topic("orders")
    held.disk.faults = {}
    held.delete()
    again = held.topic("orders")
    assert (again.log.log_end_offset, len(again.log.segments)) == (0, 1)
    assert [path.name for path in held.root.glob("orders-0/*.log")] == ["00000000000000000000.log"]
    assert list(held.root.glob("orders-0.*-stray"))


def test_a_partition_that_could_not_be_created_answers_with_the_disks_error(held):
    held.disk.faults = {"create": "orders-1/"}
    held.topic("orders", 2)
    with pytest.raises(KafkaStorageError, match="cannot create the log"):
        held.replicas.find("orders", 1)
    held.disk.faults = {}
    held.delete()
    held.topic("orders", 2)
    assert held.replicas.find("orders", 1).leads


def test_a_log_that_was_given_up_does_not_stand_in_the_way_after_its_topic_is_gone(held):
    held.topic("orders")
    replicas = held.start()
    replicas.image = held.machine.image
    replicas.give_up(TopicPartition("orders", 0), KafkaStorageError("damaged"))
    with pytest.raises(KafkaStorageError, match="damaged"):
        replicas.find("orders", 0)
    held.delete()
    assert held.topic("orders").log.log_end_offset == 0


def test_a_fault_of_ours_with_one_partition_leaves_the_others_alone(held, monkeypatch, caplog):
    real = managers.Log.create

    def create(disk, path, tp, *rest):
        if tp.partition == 0:
            raise ZeroDivisionError
        return real(disk, path, tp, *rest)

    monkeypatch.setattr(managers.Log, "create", create)
    with pytest.raises(NotLeaderOrFollower):
        held.topic("orders", 2)
    assert held.replicas.find("orders", 1).leads
    assert "ZeroDivisionError" in caplog.text


def test_a_topics_configuration_is_followed_at_once(held):
    partition = held.topic("orders", 2, retention_ms=5)
    assert partition.log.config.retention_ms == 5
    held.configure(ResourceType.TOPIC, "orders", retention_ms=7, max_message_bytes=100)
    for index in (0, 1):
        partition = held.replicas.find("orders", index)
        assert (partition.log.config.retention_ms, partition.max_batch_bytes) == (7, 100)


def test_dynamic_defaults_reach_every_topic_without_its_own(held):
    plain, own = held.topic("plain"), held.topic("own", retention_ms=5)
    held.configure(ResourceType.BROKER, "", log_retention_ms=9, message_max_bytes=2000)
    assert (plain.log.config.retention_ms, plain.max_batch_bytes) == (9, 2000)
    assert (own.log.config.retention_ms, own.max_batch_bytes) == (5, 2000)
    held.configure(ResourceType.BROKER, "1", log_retention_ms=11)
    assert plain.log.config.retention_ms == 11
    assert held.topic("later").log.config.retention_ms == 11


def test_topics_without_overrides_share_their_rules_and_the_cache_is_bounded(held, monkeypatch):
    monkeypatch.setattr(managers, "MAX_SHARED_RULES", 3)
    assert held.topic("a").rules is held.topic("b").rules
    partition = held.topic("c")
    for ms in range(1, 20):
        held.configure(ResourceType.TOPIC, "c", retention_ms=ms)
        assert partition.log.config.retention_ms == ms
    assert len(held.replicas._shared_rules) <= 3
