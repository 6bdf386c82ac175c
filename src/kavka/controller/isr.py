"""AlterPartition: a leader changes the ISR, under the epochs it knows (KIP-497, KIP-841, KIP-903)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kavka.controller.brokers import check_epoch
from kavka.controller.effective import Effective
from kavka.controller.index import PartitionIndex
from kavka.controller.partition_changes import PartitionChanges
from kavka.metadata.image import ClusterImage, MetadataImage, PartitionImage, TopicImage
from kavka.metadata.image.topics import NO_LEADER_CHANGE, LeaderRecoveryState
from kavka.model.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NewLeaderElected,
    NotController,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kavka.model.transition import Divisible, Transition
from kavka.model.types import Uuid


class InSync(NamedTuple):
    """A replica that its leader wants in the ISR, and the broker epoch it fetched with; -1 if that is not known."""

    broker_id: int
    broker_epoch: int = -1


class IsrRequest(NamedTuple):
    """The in-sync replicas that a leader wants for a partition, and what it knows of the partition."""

    topic_id: Uuid
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[InSync, ...]
    recovery: int = LeaderRecoveryState.RECOVERED


class InSyncReplicas:
    """Decides about the ISR, each partition by itself."""

    def __init__(self, effective: Effective, index: PartitionIndex) -> None:
        self._effective = effective
        self._index = index

    def alter(
        self, image: MetadataImage, broker_id: int, broker_epoch: int, requests: Sequence[IsrRequest]
    ) -> Transition[list[PartitionImage | KafkaError]]:
        """Change partitions that a broker leads; for each, in order, how it is now or why it was not changed.

        NEW_LEADER_ELECTED is an error of a change that was made: it finished a reassignment, and another broker leads.
        """
        check_epoch(image.cluster, broker_id, broker_epoch)
        changes = PartitionChanges(image, self._effective, self._index)
        outcomes: list[PartitionImage | KafkaError] = []
        records: list[Any] = []
        for request in requests:
            try:
                outcomes.append(self._alter_one(image, broker_id, request, changes, records))
            except KafkaError as error:
                outcomes.append(error)
        return Transition(outcomes, Divisible(records))

    def _alter_one(
        self, image: MetadataImage, broker_id: int, request: IsrRequest, changes: PartitionChanges, records: list[Any]
    ) -> PartitionImage:
        topic = image.topics.by_id.get(request.topic_id)
        if topic is None:
            raise UnknownTopicId(f"there is no topic with id {request.topic_id}")
        now = changes.now(topic, request.partition)
        if now is None:
            raise UnknownTopicOrPartition(f"topic {topic.name} has no partition {request.partition}")
        _check_epochs(broker_id, topic, now, request)
        _check_isr(now, request)
        _check_eligible(image.cluster, request.isr)
        isr = tuple(replica.broker_id for replica in request.isr)
        record = changes.change(topic, request.partition, isr=isr, recovery=request.recovery)
        if record is not None:
            records.append(record)
            if record.leader not in (broker_id, NO_LEADER_CHANGE):
                raise NewLeaderElected(f"broker {record.leader} leads {topic.name}-{request.partition} now")
        after = changes.now(topic, request.partition)
        assert after is not None
        return after


def _check_epochs(broker_id: int, topic: TopicImage, now: PartitionImage, request: IsrRequest) -> None:
    name = f"{topic.name}-{request.partition}"
    # A leader that knows more than this node has heard of a newer controller, and should look for it.
    if request.leader_epoch > now.leader_epoch:
        raise NotController(f"{name} is at leader epoch {now.leader_epoch} here, not {request.leader_epoch}")
    if request.partition_epoch > now.partition_epoch:
        raise NotController(f"{name} is at partition epoch {now.partition_epoch} here, not {request.partition_epoch}")
    if request.leader_epoch < now.leader_epoch:
        raise FencedLeaderEpoch(f"{name} is at leader epoch {now.leader_epoch}, not {request.leader_epoch}")
    if broker_id != now.leader:
        raise InvalidRequest(f"the leader of {name} is broker {now.leader}, not {broker_id}")
    if request.partition_epoch < now.partition_epoch:
        raise InvalidUpdateVersion(f"{name} is at partition epoch {now.partition_epoch}, not {request.partition_epoch}")


def _check_isr(now: PartitionImage, request: IsrRequest) -> None:
    isr = [replica.broker_id for replica in request.isr]
    if len(set(isr)) != len(isr) or not set(isr) <= set(now.replicas):
        raise InvalidRequest(f"{isr} are not distinct replicas of {list(now.replicas)}")
    if now.leader not in isr:
        raise InvalidRequest(f"leader {now.leader} is not in its own ISR {isr}")
    if request.recovery not in (LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING):
        raise InvalidRequest(f"{request.recovery} is no leader recovery state")
    if request.recovery == LeaderRecoveryState.RECOVERING:
        if len(isr) > 1:
            raise InvalidRequest("nobody is in sync with a leader that is still recovering")
        if now.leader_recovery_state == LeaderRecoveryState.RECOVERED:
            raise InvalidRequest("a leader that has recovered does not start to recover again")


def _check_eligible(cluster: ClusterImage, isr: Sequence[InSync]) -> None:
    for replica, epoch in isr:
        broker = cluster.brokers.get(replica)
        if broker is None:
            raise IneligibleReplica(f"broker {replica} is not registered")
        if broker.in_controlled_shutdown:
            raise IneligibleReplica(f"broker {replica} is shutting down")
        if broker.fenced:
            raise IneligibleReplica(f"broker {replica} is fenced")
        if epoch not in (-1, broker.epoch):
            raise IneligibleReplica(f"broker {replica} is registered at epoch {broker.epoch}, not {epoch}")
