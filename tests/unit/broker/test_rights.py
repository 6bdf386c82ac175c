"""Who may write where."""

from __future__ import annotations

import pytest

from kavka.broker.rights import may_write
from kavka.metadata.names import AUDIT, REMOTE_LOG_METADATA
from kavka.security.acl import Operation


class Rights:
    """A guard that allows some operations on everything."""

    def __init__(self, *allowed: Operation) -> None:
        self.allowed = allowed
        self.told: list[tuple[int, str]] = []

    def allows(self, operation: int, resource_type: int, name: str, api_key: int, asked: bool = True, /) -> bool:
        if asked:
            self.told.append((operation, name))
        return operation in self.allowed

    def allows_any(self, operation: int, resource_type: int, /) -> bool:
        return operation in self.allowed


@pytest.mark.parametrize("topic", [AUDIT, REMOTE_LOG_METADATA])
def test_what_brokers_write_is_written_by_brokers_alone(topic: str) -> None:
    client, broker = Rights(Operation.WRITE), Rights(Operation.WRITE, Operation.CLUSTER_ACTION)
    assert may_write(client, "orders")
    assert not may_write(client, topic)
    assert client.told == [(Operation.WRITE, "orders"), (Operation.CLUSTER_ACTION, "kafka-cluster")]
    assert may_write(broker, topic)
    assert broker.told == [(Operation.WRITE, topic)]
