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

import psutil
import pytest

from crash.raw import Raw
from hostile.attacker import memory_bytes
from hostile.mix import TOPIC
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.testing import Cluster
from scale import FULL, rounds

SECONDS = int(os.environ.get("KAVKA_ROUNDS") or rounds(full=3600, ci=6))
QUIET_SECONDS = rounds(full=60, ci=2)
MEMORY_BYTES = 400 << 20
P99_S = 0.25
IDLE_WITHIN_S = 10.0
IDLE_SHARE = 0.1
"""How much of a core a node uses at most that has nothing to do."""
PATIENCE_S = 120.0
VALUE = b"v" * 1000
LOG_FILES = {".log", ".index", ".timeindex", ".txnindex", ".deleted"}


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


def descriptors(pid: int) -> int:
    """How many files, sockets and pipes a process has open; the logs of topics that came meanwhile do not count."""
    found = 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += Path(os.readlink(link)).suffix not in LOG_FILES
    return found


def is_idle(process: psutil.Process, before: int) -> bool:
    """Whether a node has nothing left to do, and nothing open that it had not before."""
    return descriptors(process.pid) <= before and process.cpu_percent(interval=1.0) < 100 * IDLE_SHARE


@pytest.mark.timeout(300 + SECONDS + 2 * QUIET_SECONDS)
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
    process = psutil.Process(cluster.pid)
    before = descriptors(cluster.pid)
    program = [sys.executable, str(Path(__file__).with_name("mix.py")), cluster.bootstrap, str(seed), str(SECONDS)]
    with subprocess.Popen(program) as attacker:
        attacked = busy(cluster.bootstrap, SECONDS, attacker)
    resident, peak = memory_bytes(cluster.pid)
    sys.stdout.write(
        f"rounds a second, p99: quiet {quiet[0]:.0f}, {quiet[1] * 1000:.0f} ms; "
        f"attacked {attacked[0]:.0f}, {attacked[1] * 1000:.0f} ms\n"
        f"memory: {peak >> 20} MiB at most, {resident >> 20} MiB after; descriptors before: {before}\n"
    )
    over = time.monotonic()
    while not is_idle(process, before):
        assert time.monotonic() - over < (IDLE_WITHIN_S if FULL else PATIENCE_S)
    sys.stdout.write(f"idle after {time.monotonic() - over:.1f} s\n")
    assert peak < MEMORY_BYTES
    if FULL:  # on a machine that has nothing else to do
        assert attacked[0] >= quiet[0] / 2
        assert attacked[1] < P99_S
    assert "Traceback" not in cluster.log
    again = busy(cluster.bootstrap, QUIET_SECONDS)
    sys.stdout.write(f"afterwards {again[0]:.0f}, {again[1] * 1000:.0f} ms\n")
    assert cluster.stop() == 0
