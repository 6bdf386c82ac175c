"""What producers and fetchers need the right to, asked partition by partition on the hot path."""

from __future__ import annotations

from collections.abc import Callable

from kavka.metadata.names import OF_BROKERS
from kavka.model.errors import TopicAuthorizationFailed
from kavka.net.session import Guard
from kavka.protocol.registry import ApiKey
from kavka.replica.partition import Partition
from kavka.replica.producing import PartitionVerification
from kavka.security.acl import CLUSTER_NAME, Operation, ResourceType

# As plain numbers: what follows is asked once per request.
_TOPIC, _READ, _WRITE = int(ResourceType.TOPIC), int(Operation.READ), int(Operation.WRITE)
_CLUSTER_ACTION = int(Operation.CLUSTER_ACTION)
_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)


def may_write(guard: Guard, topic: str) -> bool:
    """Whether a client may produce to a topic; what brokers write only who may do as they do."""
    if topic in OF_BROKERS and not guard.allows(_CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, _PRODUCE, False):
        guard.allows(_CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, _PRODUCE)  # tells of the denial
        return False
    return guard.allows(_WRITE, _TOPIC, topic, _PRODUCE)


class WriteRights:
    """Lets a producer append only where it may, and where the coordinator of its transaction agrees."""

    __slots__ = ("_guard", "_verdict")

    def __init__(self, guard: Guard, verdict: PartitionVerification | None) -> None:
        self._guard = guard
        self._verdict = verdict

    @staticmethod
    def of(guard: Guard | None, verdict: PartitionVerification | None = None) -> WriteRights | None:
        """The rights behind a guard, None where nobody is kept from anything."""
        return None if guard is None else WriteRights(guard, verdict)

    def may_use(self, transactional_id: str | None) -> bool:
        """Whether the producer may write in the transactions of an id, if it names one."""
        return transactional_id is None or self._guard.allows(
            _WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id, _PRODUCE
        )

    def require(self, partition: Partition) -> None:
        """Raise why nothing may be appended to a partition."""
        if not may_write(self._guard, partition.topic_partition.topic):
            raise TopicAuthorizationFailed
        if self._verdict is not None:
            self._verdict.require(partition)


def reading(guard: Guard | None, *, follows: bool) -> Callable[[str], bool] | None:
    """Whether a fetcher may read a topic: followers read all or nothing; None where everybody may."""
    if guard is None:
        return None
    if follows:
        replicates = guard.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, _FETCH)
        return lambda _: replicates
    return lambda topic: guard.allows(_READ, _TOPIC, topic, _FETCH)
