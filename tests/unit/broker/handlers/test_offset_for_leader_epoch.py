"""Offsets for leader epochs: where each epoch ends, as far as the leader knows."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from kavka.protocol.schemas.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


@pytest.fixture
def tell(ask, held):
    """Code, epoch and end offset."""

    def call(epoch, *, current=-1, index=0, topic="orders", version=4):
        row = OffsetForLeaderPartition(partition=index, current_leader_epoch=current, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[row])]
        )
        (found,) = ask(offset_for_leader_epoch, request, version, held.replicas).topics[0].partitions
        return found.error_code, found.leader_epoch, found.end_offset

    return call


@pytest.fixture
def orders(held):
    """Epoch 0 wrote two records, epoch 3 one."""
    partition = held.topic("orders")
    held.produce(partition, b"a", b"b")
    partition.leader_epoch = 3
    partition.log.epochs.assign(3, 2)
    held.produce(partition)
    return partition


@pytest.mark.parametrize("version", range(2, 5))
@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(0, (0, 0, 2)), (1, (0, 0, 2)), (2, (0, 0, 2)), (3, (0, 3, 3)), (4, (0, -1, -1)), (-1, (0, -1, -1))],
)
def test_the_largest_epoch_not_above_the_asked_one_and_where_it_ends(tell, orders, version, epoch, answer):
    assert tell(epoch, version=version) == answer


@pytest.mark.parametrize(("current", "code"), [(2, 74), (3, 0), (4, 75), (-1, 0)])
def test_who_knows_another_leader_epoch_is_told_so(tell, orders, current, code):
    assert tell(0, current=current)[0] == code


def test_what_is_not_there_or_led_elsewhere_has_its_code(tell, orders):
    assert tell(0, topic="nope") == (3, -1, -1)
    assert tell(0, index=7) == (3, -1, -1)
    orders.leader = 9
    assert tell(0) == (6, -1, -1)
