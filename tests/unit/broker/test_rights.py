"""Who may write where."""

from __future__ import annotations

from kavka.broker.rights import may_write
from kavka.metadata.names import AUDIT
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


def test_the_audit_log_is_written_by_brokers_alone() -> None:
    client, broker = Rights(Operation.WRITE), Rights(Operation.WRITE, Operation.CLUSTER_ACTION)
    assert may_write(client, "orders")
    assert not may_write(client, AUDIT)
    assert client.told == [(Operation.WRITE, "orders"), (Operation.CLUSTER_ACTION, "kafka-cluster")]
    assert may_write(broker, AUDIT)
    assert broker.told == [(Operation.WRITE, AUDIT)]
