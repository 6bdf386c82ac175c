"""A leader's changes of ISRs, sent to the controller (AlterPartition)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Protocol

from kavka.model.errors import raise_for
from kavka.model.types import Uuid
from kavka.protocol.schemas.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from kavka.replication.isr import IsrChange, IsrOutcome


class ControllerPort(Protocol):
    """The way to the active controller."""

    async def call(self, request: Any) -> Any:
        """The controller's answer; raises KafkaError."""


class AlterPartitions:
    """Asks the active controller to change ISRs."""

    def __init__(self, node_id: int, broker_epoch: Callable[[], int], channel: ControllerPort) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._channel = channel

    async def __call__(self, changes: Sequence[IsrChange]) -> Sequence[IsrOutcome]:
        """One outcome per change that was answered; raises KafkaError for all of them."""
        answer: AlterPartitionResponse = await self._channel.call(
            AlterPartitionRequest(
                broker_id=self._node_id,
                broker_epoch=self._broker_epoch(),
                topics=[
                    RequestTopicData(topic_id=topic_id, partitions=[row(change) for change in group])
                    for topic_id, group in groupby(sorted(changes, key=by_topic), by_topic)
                ],
            )
        )
        raise_for(answer.error_code)
        return [
            IsrOutcome(
                topic_id=topic.topic_id,
                partition=partition.partition_index,
                error_code=partition.error_code,
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                isr=tuple(partition.isr),
                leader_recovery_state=partition.leader_recovery_state,
            )
            for topic in answer.topics
            for partition in topic.partitions
        ]


def by_topic(change: IsrChange) -> Uuid:
    """What the rows of a request are grouped by."""
    return change.topic_id


def row(change: IsrChange) -> RequestPartitionData:
    """One partition of the request."""
    return RequestPartitionData(
        partition_index=change.partition,
        leader_epoch=change.leader_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=replica.id, broker_epoch=replica.epoch) for replica in change.isr],
        leader_recovery_state=change.leader_recovery_state,
        partition_epoch=change.partition_epoch,
    )
