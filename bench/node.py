"""The node under measurement, and what the operating system says of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kavka.testing import Cluster

_TICKS = os.sysconf("SC_CLK_TCK")
_KIB = 1024


class Broker(Protocol):
    """What a measurement needs to know of what it loads: one process, or several."""

    @property
    def bootstrap(self) -> str:
        """Where it is reached."""

    def cpu_seconds(self) -> float:
        """CPU time so far."""


@dataclass(frozen=True, slots=True)
class Node:
    """A running broker."""

    bootstrap: str
    pid: int

    def cpu_seconds(self) -> float:
        """User and system time of the process so far, all threads together."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def rss_bytes(self) -> int:
        """Memory the process has resident now."""
        return self._status("VmRSS")

    def peak_rss_bytes(self) -> int:
        """The most memory the process ever had resident."""
        return self._status("VmHWM")

    def _status(self, field: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * _KIB
        raise LookupError(f"the system says nothing about {field}")


@dataclass(frozen=True, slots=True)
class PreciseNode(Node):
    """A node whose CPU time is told in nanoseconds: short runs need more than clock ticks."""

    def cpu_seconds(self) -> float:
        """What all threads that there are have run so far."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


@dataclass(frozen=True, slots=True)
class Bench:
    """How large to measure, and on what."""

    quick: bool = False
    given: Node | None = None

    def size(self, full: int, quick: int) -> int:
        """The one of two sizes that this run is for."""
        return quick if self.quick else full

    @property
    def repeats(self) -> int:
        """How often to measure what a busy machine disturbs; the best counts."""
        return self.size(5, 1)

    @contextlib.contextmanager
    def node(self, config: Mapping[str, str] | None = None) -> Iterator[Node]:
        """A fresh node for one question, or the one the caller brought."""
        if self.given is not None:
            yield self.given
            return
        with Cluster(config=config, timeout=120) as cluster:
            yield Node(cluster.bootstrap, cluster.pid)
