"""What a handler knows about the request beside its body."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from kavka.net.session import Session
from kavka.security.acl import CLUSTER_NAME, OPERATIONS, REFUSED, Operation, ResourceType

N = TypeVar("N")

NOT_ASKED: Final = -(1 << 31)
"""The operations of a resource (KIP-430) where the client did not ask for them."""

ListenerKind = Literal["broker", "controller"]
BROKER: Final[ListenerKind] = "broker"
CONTROLLER: Final[ListenerKind] = "controller"
"""The two kinds of listeners: clients talk to brokers, the nodes of a cluster to controllers."""

OnClose = Callable[[Hashable, Callable[[], None]], None]


def never_closes(key: Hashable, callback: Callable[[], None]) -> None:
    """For requests that came over no connection."""


@dataclass(frozen=True, slots=True)
class Context:
    """Who asks, how, and when."""

    api_key: int
    api_version: int
    client_id: str
    session: Session
    now_ms: int
    kind: ListenerKind = BROKER
    """The kind of listener that was asked on."""
    forwarded: bool = False
    """Whether a broker sent it on for its client: the connection is the broker's, and says nothing of the client's."""
    correlation_id: int = -1
    """The client's number of the request; -1 where it came in no frame of its own."""
    on_close: OnClose = never_closes
    """Has a function called once the connection closes; a later one of the same key takes its place."""

    @property
    def client_host(self) -> str:
        """Where the client is."""
        return self.session.client_host

    @property
    def listener(self) -> str:
        """What the client came through."""
        return self.session.listener

    @property
    def principal(self) -> str:
        """Who the client is."""
        return self.session.principal

    @property
    def connection_id(self) -> int:
        """The connection that the request came on."""
        return self.session.id

    # -- what the client may do -------------------------------------------------------------

    def allows(
        self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME, *, asked: bool = True
    ) -> bool:
        """Whether the client may do something; not `asked` for is what it only might, and no attempt to note."""
        guard = self.session.guard
        return guard is None or guard.allows(operation, resource_type, name, self.api_key, asked)

    def require(self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise the error of a missing right."""
        if not self.allows(operation, resource_type, name):
            raise REFUSED[resource_type]

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client may do something with at least one resource of a type."""
        guard = self.session.guard
        return guard is None or guard.allows_any(operation, resource_type)

    def permitted(
        self,
        operation: Operation,
        resource_type: ResourceType,
        items: Iterable[N],
        name: Callable[[N], str],
        *,
        asked: bool = True,
    ) -> tuple[list[N], list[N]]:
        """The items that the client may do something with, and the others."""
        chosen: list[N] = []
        refused: list[N] = []
        for item in items:
            (chosen if self.allows(operation, resource_type, name(item), asked=asked) else refused).append(item)
        return chosen, refused

    def operations(self, resource_type: ResourceType, name: str = CLUSTER_NAME, *, wanted: bool = True) -> int:
        """Everything that the client may do with a resource, as bits (KIP-430)."""
        if not wanted:
            return NOT_ASKED
        found = 0
        for operation in OPERATIONS[resource_type]:
            if self.allows(operation, resource_type, name, asked=False):
                found |= 1 << operation
        return found

    def cluster_operations(self, *, wanted: bool) -> int:
        """Everything that the client may do with the cluster, which only those are told who may describe it."""
        if wanted and not self.allows(Operation.DESCRIBE, ResourceType.CLUSTER):
            return 0
        return self.operations(ResourceType.CLUSTER, wanted=wanted)
