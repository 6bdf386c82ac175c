"""A mix of all attacks from 50 connections beside well-behaved clients, and how the node is when it is over."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.raw import Raw
from hostile.attacker import memory_bytes
from hostile.mix import TOPIC
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.testing import Cluster
from scale import rounds

SECONDS = rounds(full=3600, ci=6)
QUIET_SECONDS = rounds(full=60, ci=2)
MEMORY_BYTES = 400 << 20
IDLE_WITHIN_S = 60.0
VALUE = b"v" * 1000


class Honest(threading.Thread):
    """A client that writes a record and reads it, one after the other."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__()
        self._raw = Raw(bootstrap)
        self._topic = topic
        self.stopping = threading.Event()
        self.taken: list[float] = []
        self.failed: str | None = None

    def run(self) -> None:
        """Until told to stop."""
        while not self.stopping.is_set() and self.failed is None:
            began = time.monotonic()
            code, offset = self._raw.produce(self._topic, VALUE)
            found, data = self._raw.fetch(self._topic, offset)
            self.taken.append(time.monotonic() - began)
            if code or found or VALUE not in data:
                self.failed = f"produce {code}, fetch {found} at {offset}"
        self._raw.close()


def busy(bootstrap: str, seconds: float, attacker: subprocess.Popen[bytes] | None = None) -> tuple[float, float]:
    """Rounds a second and the 99th percentile of well-behaved clients, for so long or as long as the attack lasts."""
    clients = [Honest(bootstrap, f"honest{number}") for number in range(2)]
    began = time.monotonic()
    for client in clients:
        client.start()
    if attacker is None:
        time.sleep(seconds)
    else:
        assert attacker.wait() == 0
    lasted = time.monotonic() - began
    for client in clients:
        client.stopping.set()
        client.join()
        assert client.failed is None
    taken = sorted(one for client in clients for one in client.taken)
    assert taken
    return len(taken) / lasted, taken[len(taken) * 99 // 100]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(config={"auto.create.topics.enable": "false"}) as cluster:
        yield cluster


def sockets(pid: int) -> int:
    """How many sockets a process has; what it opened for topics that came meanwhile does not count."""
    found = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(link).startswith("socket:")
    return found


def test_well_behaved_clients_are_served_beside_attackers_and_nothing_is_left_of_those(cluster: Cluster) -> None:
    seed = int(os.environ.get("KAVKA_SEED") or int.from_bytes(os.urandom(4)))
    sys.stdout.write(f"KAVKA_SEED={seed}\n")
    raw = Raw(cluster.bootstrap)
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in ("honest0", "honest1", TOPIC)
    ]
    raw.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
    raw.close()
    quiet = busy(cluster.bootstrap, QUIET_SECONDS)
    before = sockets(cluster.pid)
    program = [sys.executable, str(Path(__file__).with_name("mix.py")), cluster.bootstrap, str(seed), str(SECONDS)]
    with subprocess.Popen(program) as attacker:
        attacked = busy(cluster.bootstrap, SECONDS, attacker)
    resident, peak = memory_bytes(cluster.pid)
    sys.stdout.write(
        f"rounds a second, p99: quiet {quiet[0]:.0f}, {quiet[1] * 1000:.0f} ms; "
        f"attacked {attacked[0]:.0f}, {attacked[1] * 1000:.0f} ms\n"
        f"memory: {peak >> 20} MiB at most, {resident >> 20} MiB after; connections before: {before}\n"
    )
    deadline = time.monotonic() + IDLE_WITHIN_S
    while sockets(cluster.pid) > before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert sockets(cluster.pid) <= before
    assert peak < MEMORY_BYTES
    assert "Traceback" not in cluster.log
    again = busy(cluster.bootstrap, QUIET_SECONDS)
    sys.stdout.write(f"afterwards {again[0]:.0f}, {again[1] * 1000:.0f} ms\n")
    assert cluster.stop() == 0
