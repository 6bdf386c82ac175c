"""Where a broker's replicas lie, told to the controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from kavka.model.errors import raise_for
from kavka.protocol.schemas.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from kavka.replica.alter_isr import ControllerPort
from kavka.replica.placing import Placement


class AssignReplicas:
    """Asks the active controller to remember in which directories replicas are."""

    def __init__(self, node_id: int, broker_epoch: Callable[[], int], channel: ControllerPort) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._channel = channel

    async def __call__(self, placements: Sequence[Placement]) -> None:
        """Tell all of them; raises KafkaError. What the controller does not know any more needs no place."""
        directories = [
            RequestDirectoryData(
                id=id_, topics=[topic(list(rows)) for _, rows in groupby(group, lambda placement: placement.topic_id)]
            )
            for id_, group in groupby(sorted(placements), lambda placement: placement.directory_id)
        ]
        answer: AssignReplicasToDirsResponse = await self._channel.call(
            AssignReplicasToDirsRequest(
                broker_id=self._node_id, broker_epoch=self._broker_epoch(), directories=directories
            )
        )
        raise_for(answer.error_code)


def topic(placements: Sequence[Placement]) -> RequestTopicData:
    """One topic's partitions in one directory."""
    rows = [RequestPartitionData(partition_index=placement.partition) for placement in placements]
    return RequestTopicData(topic_id=placements[0].topic_id, partitions=rows)
