"""AssignReplicasToDirs as a broker sends it."""

import asyncio

import pytest

from kavka.model.errors import StaleBrokerEpoch
from kavka.model.types import Uuid
from kavka.protocol.schemas.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from kavka.replica.assign_dirs import AssignReplicas
from kavka.replica.placing import Placement

A, B, D, E = (Uuid(letter * 16) for letter in (b"a", b"b", b"d", b"e"))


class Channel:
    """Takes note, or refuses."""

    def __init__(self, code=0):
        self.code = code
        self.asked = []

    async def call(self, request):
        self.asked.append(request)
        return AssignReplicasToDirsResponse(error_code=self.code, directories=[])


def test_placements_go_by_directory_and_topic():
    channel = Channel()
    asyncio.run(
        AssignReplicas(1, lambda: 11, channel)(
            [Placement(E, A, 0), Placement(D, B, 2), Placement(D, A, 1), Placement(D, B, 0)]
        )
    )
    (request,) = channel.asked
    assert (request.broker_id, request.broker_epoch) == (1, 11)
    assert [
        (
            directory.id,
            [(topic.topic_id, [row.partition_index for row in topic.partitions]) for topic in directory.topics],
        )
        for directory in request.directories
    ] == [(D, [(A, [1]), (B, [0, 2])]), (E, [(A, [0])])]


def test_a_refusal_is_its_error():
    with pytest.raises(StaleBrokerEpoch):
        asyncio.run(AssignReplicas(1, lambda: 11, Channel(StaleBrokerEpoch.code))([Placement(D, A, 0)]))
