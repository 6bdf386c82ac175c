"""Every API at every version with its lists, strings and tags blown up: no callback may hold the loop for long."""

from __future__ import annotations

import os
import random
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

import pytest

from crash.raw import Raw
from hostile.attacker import memory_bytes
from hostile.blow_up import KNOWN, Blown, BlowUp
from kavka.broker.handlers import HANDLERS, HOT
from kavka.protocol.frame_caps import FrameCaps
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest
from kavka.protocol.schemas.metadata import MetadataRequest
from kavka.testing import Cluster
from scale import FULL

PATIENCE_S = 5.0
"""Some wait as long as they say: a group that rebalances, a long poll."""
GAP_MS = 100.0
"""The most CPU time of one callback; the aim is 20."""
NOT_ASKED = {"delete_topics", "delete_records", "unregister_broker", "update_features"}
APIS = [api for api in API.values() if api.stem in {*HANDLERS, *HOT} - NOT_ASKED and "broker" in api.listeners]
CAPS = FrameCaps()
SAMPLE = 40
SAMPLE_BYTES = 256 << 10


class Seen(NamedTuple):
    """What a request did to the node."""

    request: str
    sent: int
    answered: int
    seconds: float
    held_ms: float
    collector_ms: float
    grown: int
    callback: str


class Victim:
    """A watched node, and one topic in it."""

    def __init__(self, cluster: Cluster, watched: TextIO) -> None:
        self._cluster = cluster
        self._watched = watched
        raw = Raw(cluster.bootstrap)
        topic = CreatableTopic(name=KNOWN, num_partitions=3, replication_factor=1, assignments=[], configs=[])
        raw.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        (found,) = raw.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12).topics
        for kind in (0, 1):  # what a node loads once, after its start, is not what is looked at here
            raw.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]), 4)
        raw.close()
        self.topic_id = found.topic_id

    def suffer(self, blown: Blown) -> Seen:
        """Send a request, and see what it did."""
        self._watched.read()
        self._forget_peak()
        before, _ = memory_bytes(self._cluster.pid)
        began = time.monotonic()
        answered = self._ask(blown.frame)
        seconds = time.monotonic() - began
        _, peak = memory_bytes(self._cluster.pid)
        held, collector, callback = 0.0, 0.0, ""
        for line in self._watched.read().splitlines():
            took, collected, name = line.split(" ", 2)
            if float(took) > held:
                held, collector, callback = float(took), float(collected), name
        return Seen(str(blown), len(blown.frame), answered, seconds, held, collector, peak - before, callback)

    def _forget_peak(self) -> None:
        Path(f"/proc/{self._cluster.pid}/clear_refs").write_text("5")

    def _ask(self, frame: bytes) -> int:
        """Send a frame and read its answer: its size, 0 if it was hung up on, -1 if there was none in time."""
        host, _, port = self._cluster.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as client:
            try:
                client.sendall(frame)
                head = client.recv(4, socket.MSG_WAITALL)
                if len(head) < 4:
                    return 0
                left = size = struct.unpack(">i", head)[0]
                while left:
                    part = client.recv(min(left, 1 << 20))
                    if not part:
                        return 0
                    left -= len(part)
            except TimeoutError:
                return -1
            except ConnectionError:
                return 0
            return size + 4


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    watched = tmp_path / "watched"
    watched.touch()
    program = [sys.executable, str(Path(__file__).with_name("watched.py"))]
    config = {"auto.create.topics.enable": "false"}
    with (
        Cluster(program=program, env={"KAVKA_WATCHED": str(watched)}, config=config) as cluster,
        watched.open(encoding="utf-8") as lines,
    ):
        yield Victim(cluster, lines)
        assert "Traceback" not in cluster.log


def every(victim: Victim) -> Iterator[Blown]:
    """Each API at each version, blown up to its cap in each way."""
    for api in APIS:
        size = CAPS.of(api.key) if api.key != ApiKey.PRODUCE else 4 * CAPS.lists
        for version in range(api.min_version, api.latest_stable_version + 1):
            yield from BlowUp(api, version, size, victim.topic_id).requests()


def some(victim: Victim, rng: random.Random) -> Iterator[Blown]:
    """A few of them, of a moderate size."""
    for _ in range(SAMPLE):
        api = rng.choice(APIS)
        version = rng.randint(api.min_version, api.latest_stable_version)
        blown = BlowUp(api, version, SAMPLE_BYTES, victim.topic_id).one(rng)
        if blown is not None:
            yield blown


@pytest.mark.apart
def test_no_request_holds_the_loop(victim: Victim) -> None:
    seed = int(os.environ.get("KAVKA_SEED") or int.from_bytes(os.urandom(4)))
    sys.stdout.write(f"KAVKA_SEED={seed}\n")
    seen = [victim.suffer(blown) for blown in (every(victim) if FULL else some(victim, random.Random(seed)))]
    sys.stdout.write(table(seen) + "\n")
    assert not [one for one in seen if one.held_ms > GAP_MS]


def table(seen: list[Seen]) -> str:
    """What was seen, the worst first."""
    rows = ["  held ms  (gc)   sent KB  answer KB    s   MB more  request"]
    rows += [
        f"{one.held_ms:9.1f} {one.collector_ms:5.0f} {one.sent >> 10:9d} {one.answered >> 10:10d} "
        f"{one.seconds:5.1f} {one.grown >> 20:8d}  {one.request}"
        for one in sorted(seen, key=lambda one: -one.held_ms)
    ]
    return "\n".join(rows)
