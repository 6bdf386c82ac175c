"""A rival that runs and is ready to be measured."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.rival.family import Family
from bench.wire import BenchError
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured

START_TIMEOUT_S = 180.0
_POLL_S = 0.005
_TAIL = 2000

# What both are given. A broker that a busy machine keeps from its heartbeats shall not be taken for dead.
STEADY = {"broker.session.timeout.ms": "60000"}
# One node cannot keep three copies of its own topics.
SINGLE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@dataclass(frozen=True, slots=True)
class Encrypted:
    """A second listener, for TLS, and who vouches for it."""

    bootstrap: str
    authority: Path
    config: Mapping[str, str]
    """What both rivals are told of it."""

    @classmethod
    def made(cls, folder: Path) -> Encrypted:
        """A listener that any rival can have, with a new key in PEM."""
        secured = Secured(folder)
        protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL"
        config = {**secured.tls, "listener.security.protocol.map": protocols}
        return cls(f"127.0.0.1:{free_ports(1)[0]}", folder / "ca.pem", config)


@dataclass(frozen=True, slots=True)
class Target:
    """A running rival; it looks to the raw loader like any other node."""

    rival: str
    bootstrap: str
    family: Family
    started_in_seconds: float
    encrypted: Encrypted | None = None

    def cpu_seconds(self) -> float:
        """CPU time of all its processes so far."""
        return self.family.cpu_seconds()

    def rss_bytes(self) -> int:
        """Resident memory of all its processes."""
        return self.family.rss_bytes()


@dataclass(frozen=True, slots=True)
class Scale:
    """How large to measure."""

    quick: bool = False

    def size(self, full: int, quick: int) -> int:
        """The one of two sizes that this run is for."""
        return quick if self.quick else full


def await_brokers(family: Family, addresses: list[str], logs: list[Path]) -> None:
    """Return when each address answers a Metadata request that names all the brokers."""
    deadline = time.monotonic() + START_TIMEOUT_S
    for address in addresses:
        while _brokers(address) < len(addresses):
            ended = family.ended()
            if ended is not None or time.monotonic() > deadline:
                said = "\n".join(log.read_text(errors="replace")[-_TAIL:] for log in logs if log.exists())
                why = f"does not answer after {START_TIMEOUT_S:g} s" if ended is None else f"ended with {ended}"
                raise BenchError(f"{address} {why}: {said}")
            time.sleep(_POLL_S)


def _brokers(address: str) -> int:
    """How many brokers a Metadata answer (version 1, no topics) names; 0 without an answer."""
    host, _, port = address.rpartition(":")
    body = struct.pack(">hhihi", 3, 1, 7, -1, 0)
    try:
        with socket.create_connection((host, int(port)), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            answer = connection.recv(65536)
    except OSError:
        return 0
    return int(struct.unpack_from(">i", answer, 8)[0]) if len(answer) >= 12 else 0
