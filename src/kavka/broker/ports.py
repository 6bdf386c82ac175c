"""What a node has of the world beside its disk, its clock and its way to other nodes; a simulation brings its own."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kavka.model.types import Uuid
from kavka.net.server import BoundListener, Served, SocketOptions, bind
from kavka.net.session import Session
from kavka.net.transport import Transport
from kavka.quorum.format import random_id
from kavka.storage.compaction import CompactionPlan, CompactionResult
from kavka.storage.disk import Disk


class Listen(Protocol):
    """Opens listening sockets."""

    def __call__(
        self, name: str, host: str, port: int, options: SocketOptions, /, *, both: bool = True
    ) -> BoundListener:
        """One that is bound, and whose clients can queue."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The operating system's, unless said otherwise."""

    listen: Listen = bind
    compact: Callable[[Disk, CompactionPlan], Awaitable[CompactionResult]] | None = None
    """Runs a compaction; None has a process of its own for each."""
    entropy: Callable[[int], bytes] = os.urandom
    """What ids are made of."""
    chance: random.Random = field(default_factory=random.Random)
    """What timeouts and choices are drawn from."""

    def new_id(self) -> Uuid:
        """A fresh id."""
        return random_id(self.entropy)

    def new_name(self) -> str:
        """A part of a directory's name that no other has."""
        return self.entropy(16).hex()


class RegistryFace(Protocol):
    """What clients speak to the registry by."""

    def connect(self, session: Session, transport: Transport, on_close: Callable[[Served], None], /) -> Served:
        """Serve a new connection."""

    async def run(self) -> None:
        """Serve until cancelled."""


MakeRegistryFace = Callable[[Any], RegistryFace]
"""Makes the face of whoever lets clients in and answers them."""


class Console(Protocol):
    """The process that serves the console."""

    async def run(self) -> None:
        """Keep it running until cancelled."""


MakeConsole = Callable[[socket.socket, Mapping[str, Any]], Console]
"""Serves the console on a socket, and knows of the node what a client would."""
