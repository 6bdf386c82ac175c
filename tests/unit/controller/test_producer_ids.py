"""Blocks of producer ids."""

from __future__ import annotations

import pytest

from kavka.metadata.records.settings import ProducerIdsRecord
from kavka.model.errors import StaleBrokerEpoch, UnknownServerError


def test_blocks_of_a_thousand_follow_each_other(node):
    epoch = node.image.cluster.brokers[1].epoch
    assert node.allocate_producer_ids(1, epoch) == (0, 1000)
    assert node.allocate_producer_ids(1, epoch) == (1000, 1000)
    assert node.log[-1] == ProducerIdsRecord(broker_id=1, broker_epoch=epoch, next_producer_id=2000)


@pytest.mark.parametrize(("broker", "epoch"), [(1, 0), (2, 0)])
def test_only_a_registered_broker_gets_one(node, broker, epoch):
    with pytest.raises(StaleBrokerEpoch):
        node.allocate_producer_ids(broker, epoch)


def test_ids_end_with_the_numbers(node):
    node.machine.replay([ProducerIdsRecord(broker_id=1, next_producer_id=(1 << 63) - 500)], 999, 1)
    with pytest.raises(UnknownServerError):
        node.allocate_producer_ids(1, node.image.cluster.brokers[1].epoch)
