"""One partition: leadership, appends and their refusals, the high watermark, divergence, and its watchers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.model.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownLeaderEpoch,
)
from kavka.records.builder import BatchBuilder
from kavka.replica.fetching import FetchEntry


class Watcher:
    def __init__(self):
        self.told = 0

    def news(self):
        self.told += 1


def watch(partition):
    watcher = Watcher()
    partition.watchers[watcher] = None
    return watcher


def image_of(held, partition):
    return held.machine.image.topics.by_name["orders"].partitions[partition.topic_partition.partition]


def fetch(partition, offset, *, epoch=-1, last_epoch=-1, committed=False, max_bytes=1000):
    entry = FetchEntry("orders", 0, epoch, offset, last_epoch, -1, max_bytes)
    return partition.fetch(entry, committed=committed, max_bytes=max_bytes, min_one=True)


def test_an_append_is_readable_and_told_to_whoever_watches_once(held):
    partition = held.topic("orders")
    watcher = watch(partition)
    assert held.produce(partition).first_offset == 0
    held.produce(partition)
    assert (partition.high_watermark, watcher.told) == (2, 1)
    assert fetch(partition, 0).records.length == partition.log.size_bytes
    assert fetch(partition, 2).records is None


def test_a_new_epoch_begins_where_the_log_ends_and_a_restart_in_the_same_epoch_does_not(held):
    partition = held.topic("orders")
    held.produce(partition)
    image = image_of(held, partition)
    partition.follow(image)
    assert list(partition.log.epochs.entries) == [(0, 0)]
    partition.follow(image._replace(leader_epoch=1))
    assert list(partition.log.epochs.entries) == [(0, 0), (1, 1)]
    assert not partition.behind_epoch_start


def test_a_partition_led_elsewhere_takes_and_gives_nothing(held):
    partition = held.topic("orders")
    watcher = watch(partition)
    partition.follow(image_of(held, partition)._replace(leader=9, leader_epoch=1))
    assert watcher.told == 1
    for refused in (
        lambda: held.produce(partition),
        lambda: partition.append_own(b"", 0),
        lambda: fetch(partition, 0),
        lambda: partition.delete_records(0),
    ):
        with pytest.raises(NotLeaderOrFollower):
            refused()
    assert list(partition.log.epochs.entries) == [(0, 0)]


def test_the_epoch_is_compared_before_the_leadership(held):
    partition = held.topic("orders")
    partition.follow(image_of(held, partition)._replace(leader=9, leader_epoch=3))
    for epoch, error in [(2, FencedLeaderEpoch), (4, UnknownLeaderEpoch), (3, NotLeaderOrFollower)]:
        with pytest.raises(error):
            partition.require_leader(epoch)


@pytest.mark.parametrize(
    ("replicas", "isr", "minimum", "acks", "enough"),
    [
        ((1, 2, 3), (1, 2), 2, -1, True),
        ((1, 2, 3), (1,), 2, -1, False),
        ((1, 2, 3), (1,), 2, 1, True),
        ((1,), (1,), 2, -1, True),  # never more than there are replicas
    ],
)
def test_acks_of_all_need_enough_replicas_in_sync(held, replicas, isr, minimum, acks, enough):
    partition = held.topic("orders", min_insync_replicas=minimum)
    partition.follow(image_of(held, partition)._replace(replicas=replicas, isr=isr))
    if enough:
        assert held.produce(partition, acks=acks).first_offset == 0
    else:
        with pytest.raises(NotEnoughReplicas):
            held.produce(partition, acks=acks)
        assert partition.log.log_end_offset == 0


def test_own_batches_are_for_all_replicas_and_within_the_limit(held):
    partition = held.topic("orders", max_message_bytes=200)
    builder = BatchBuilder()
    builder.append(None, b"x", 1)
    assert [partition.append_own(builder.build(), 0) for _ in range(2)] == [0, 1]
    assert partition.read_own(1, 1000) == partition.read_own(0, 1000)[-len(partition.read_own(1, 1000)) :]
    assert partition.read_own(2, 1000) == b""
    builder.append(None, b"x" * 200, 1)
    with pytest.raises(MessageTooLarge):
        partition.append_own(builder.build(), 0)
    partition.follow(image_of(held, partition)._replace(replicas=(1, 2), isr=(1,)))
    partition.rules = replace(partition.rules, min_insync_replicas=2)
    with pytest.raises(NotEnoughReplicas):
        partition.append_own(builder.build(), 0)


def test_what_cannot_be_read_of_its_own_is_a_storage_error(held):
    partition = held.topic("orders")
    held.produce(partition)
    held.disk.faults = {"read": "orders-0/"}
    with pytest.raises(KafkaStorageError):
        partition.read_own(0, 1000)


def test_flush_messages_asks_for_a_sync_after_so_many(held):
    partition = held.topic("orders", flush_messages=3)
    due = []
    for _ in range(4):
        held.produce(partition)
        due.append(partition.sync_due)
    assert due == [False, False, True, True]
    partition.log.sync()
    assert not partition.sync_due


def test_a_reader_whose_last_epoch_ended_earlier_is_told_where(held):
    partition = held.topic("orders")
    held.produce(partition, b"a", b"b")
    partition.follow(image_of(held, partition)._replace(leader_epoch=2))
    held.produce(partition, b"c")
    assert fetch(partition, 3, last_epoch=2).diverging is None
    assert fetch(partition, 3, last_epoch=0).diverging == (0, 2)
    assert fetch(partition, 2, last_epoch=0).diverging is None
    assert fetch(partition, 2, last_epoch=1).diverging == (0, 2)
    with pytest.raises(OffsetOutOfRange):
        fetch(partition, 2, last_epoch=5)


def test_deleting_records_moves_the_start_within_what_is_committed(held):
    partition = held.topic("orders")
    held.produce(partition, b"a", b"b", b"c")
    watcher = watch(partition)
    assert partition.delete_records(2) == 2
    assert watcher.told == 1
    for wrong in (4, -5):
        with pytest.raises(OffsetOutOfRange):
            partition.delete_records(wrong)
    with pytest.raises(OffsetOutOfRange):
        fetch(partition, 1)
    assert partition.delete_records(-1) == 3
    held.topic("compacted", cleanup_policy="compact")
    with pytest.raises(PolicyViolation):
        held.replicas.find("compacted", 0).delete_records(0)


def test_offsets_outside_of_the_log_are_out_of_range_at_both_ends(held):
    partition = held.topic("orders")
    held.produce(partition)
    for offset in (-1, 2):
        with pytest.raises(OffsetOutOfRange):
            fetch(partition, offset)
    partition.high_watermark = 0
    assert fetch(partition, 1).records is None  # written, but not committed yet


def test_a_closed_partition_tells_its_watchers_to_look_elsewhere(held):
    partition = held.topic("orders")
    watcher = watch(partition)
    partition.close()
    assert watcher.told == 1
    assert not partition.leads
