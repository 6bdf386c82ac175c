"""What a handler knows about the request beside its body."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Literal

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
    client_host: str
    listener: str
    connection_id: int
    now_ms: int
    principal: str = "User:ANONYMOUS"
    kind: Kind = BROKER
    """The kind of listener that was asked on."""
    on_close: OnClose = never_closes
    """Has a function called once the connection closes; a later one of the same key takes its place."""
