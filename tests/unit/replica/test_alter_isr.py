"""AlterPartition as a leader sends it, and what its answer says."""

import asyncio

import pytest

from kavka.model.errors import StaleBrokerEpoch
from kavka.model.types import Uuid
from kavka.protocol.schemas.alter_partition import AlterPartitionResponse, ResponsePartitionData, ResponseTopicData
from kavka.replica.alter_isr import AlterPartitions
from kavka.replication.isr import BrokerEpoch, IsrChange

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)


class Channel:
    """Grants what it is asked for, or nothing at all."""

    def __init__(self, code=0):
        self.code = code
        self.asked = []

    async def call(self, request):
        self.asked.append(request)
        topics = [
            ResponseTopicData(
                topic_id=topic.topic_id,
                partitions=[
                    ResponsePartitionData(
                        partition_index=one.partition_index,
                        error_code=0,
                        leader_id=1,
                        leader_epoch=one.leader_epoch,
                        isr=[each.broker_id for each in one.new_isr_with_epochs],
                        partition_epoch=one.partition_epoch + 1,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return AlterPartitionResponse(error_code=self.code, topics=topics)


def change(topic, partition):
    return IsrChange(topic, partition, 4, 9, (BrokerEpoch(1, 11), BrokerEpoch(2, 22)))


def test_changes_go_by_topic_and_come_back_as_outcomes():
    channel = Channel()
    alter = AlterPartitions(1, lambda: 11, channel)
    outcomes = asyncio.run(alter([change(B, 0), change(A, 1), change(B, 2)]))
    request = channel.asked[0]
    assert (request.broker_id, request.broker_epoch) == (1, 11)
    assert [(topic.topic_id, [one.partition_index for one in topic.partitions]) for topic in request.topics] == [
        (A, [1]),
        (B, [0, 2]),
    ]
    state = request.topics[0].partitions[0].new_isr_with_epochs[1]
    assert (state.broker_id, state.broker_epoch) == (2, 22)
    found = {one.key: (one.error_code, one.isr, one.partition_epoch) for one in outcomes}
    assert found == dict.fromkeys([(A, 1), (B, 0), (B, 2)], (0, (1, 2), 10))


def test_an_error_of_the_whole_request_is_raised():
    with pytest.raises(StaleBrokerEpoch):
        asyncio.run(AlterPartitions(1, lambda: 11, Channel(StaleBrokerEpoch.code))([change(A, 0)]))
