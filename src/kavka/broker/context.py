"""What a handler knows about the request beside its body."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Literal

from kavka.net.session import Session

Kind = Literal["broker", "controller"]
BROKER: Final[Kind] = "broker"
CONTROLLER: Final[Kind] = "controller"
"""The two kinds of listeners: clients talk to brokers, the nodes of a cluster to controllers."""

OnClose = Callable[[Hashable, Callable[[], None]], None]


def never_closes(key: Hashable, callback: Callable[[], None]) -> None:
    """For requests that came over no connection."""


@dataclass(frozen=True, slots=True)
class Context:
    """Who asks, how, and when."""

    api_version: int
    client_id: str
    session: Session
    now_ms: int
    kind: Kind = BROKER
    """The kind of listener that was asked on."""
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
