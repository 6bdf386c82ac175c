"""Alter partition: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.alter_partition import alter_partition
from kavka.model.errors import NotController, StaleBrokerEpoch
from kavka.model.types import Uuid
from kavka.protocol.schemas.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)


@pytest.fixture
def tell(ask, loop):
    loop.broker(2)
    loop.topic("a", assignments=[(0, (1, 2)), (1, (2, 1))])
    topic_id = loop.image.topics.by_name["a"].id

    def call(index=0, isr=(1,), *, version=3, topic=topic_id, broker_epoch=None, epochs=(-1, -1), **more):
        values = {"leader_epoch": 0, "partition_epoch": 0, **more}
        if version >= 3:
            states = [BrokerState(broker_id=id_, broker_epoch=epoch) for id_, epoch in zip(isr, epochs, strict=False)]
            values["new_isr_with_epochs"] = states
        else:
            values["new_isr"] = list(isr)
        row = RequestPartitionData(partition_index=index, **values)
        epoch = loop.image.cluster.brokers[1].epoch if broker_epoch is None else broker_epoch
        request = AlterPartitionRequest(
            broker_id=1, broker_epoch=epoch, topics=[RequestTopicData(topic_id=topic, partitions=[row])]
        )
        (topic_row,) = ask(alter_partition, request, version, loop).topics
        assert topic_row.topic_id == topic
        return topic_row.partitions[0]

    return call


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_changes_who_is_in_sync(tell, loop, version):
    row = tell(isr=(1,), version=version)
    assert (row.partition_index, row.error_code, row.leader_id, row.leader_epoch) == (0, 0, 1, 0)
    assert (row.isr, row.partition_epoch, row.leader_recovery_state) == ([1], 1, 0)
    assert loop.image.topics.by_name["a"].partitions[0].isr == (1,)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topic": Uuid(b"?" * 16)}, 100),
        ({"index": 5}, 3),
        ({"leader_epoch": 1}, 41),
        ({"leader_epoch": -1}, 74),
        ({"index": 1}, 42),
        ({"partition_epoch": -1}, 95),
        ({"isr": (2,)}, 42),
        ({"isr": (1, 2), "epochs": (-1, 1)}, 107),
    ],
)
def test_what_cannot_be_is_refused(tell, changes, code):
    row = tell(**changes)
    assert (row.error_code, row.isr) == (code, [])


def test_an_error_of_the_whole_request_is_left_to_the_dispatcher(tell, loop):
    with pytest.raises(StaleBrokerEpoch):
        tell(broker_epoch=77)
    loop.error = NotController()
    with pytest.raises(NotController):
        tell()
