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
from kavka.protocol.registry import API, Api, ApiKey
from kavka.protocol.schemas.api_versions import ApiVersionsRequest
from kavka.protocol.schemas.create_topics import CreatableTopic, CreateTopicsRequest
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest
from kavka.protocol.schemas.metadata import MetadataRequest, MetadataRequestTopic
from kavka.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.testing import Cluster
from scale import FULL, rounds

PATIENCE_S = 5.0
"""Some wait as long as they say: a group that rebalances, a long poll."""
GAP_MS = 100.0
"""The most CPU time of one callback; the aim is 20."""
GROWN_FRAMES = 4
"""The most memory that a request may take, in its own size."""
FREE_BYTES = 16 << 20
"""What the allocator may take for anything at all."""
NOT_ASKED = {"delete_topics", "delete_records", "unregister_broker", "update_features"}
MAKING = {"create_topics", "create_partitions"}
"""What is left of these is what they were sent for: they take memory for good."""
APIS = [api for api in API.values() if api.stem in {*HANDLERS, *HOT} - NOT_ASKED]
TOPICS, GROUPS = rounds(full=2_000, ci=100), rounds(full=5_000, ci=100)
"""How much else there is in the node."""
MADE_AT_ONCE = 100
CAPS = FrameCaps()
HEAD_BYTES = 18
"""Of a frame of these clients: who asks for what, and no body."""
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
    makes: bool


class Victim:
    """A watched node, and one topic in it."""

    def __init__(self, cluster: Cluster, watched: TextIO) -> None:
        self._cluster = cluster
        self._watched = watched
        self._raw = raw = Raw(cluster.bootstrap)
        self._asked: set[int] = set()
        self._addresses = {"broker": cluster.bootstrap, "controller": controller_of(cluster)}
        names = [KNOWN, *(f"t{number}" for number in range(TOPICS))]
        for first in range(0, len(names), MADE_AT_ONCE):
            topics = [
                CreatableTopic(name=name, num_partitions=3, replication_factor=1, assignments=[], configs=[])
                for name in names[first : first + MADE_AT_ONCE]
            ]
            raw.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
        for kind in (0, 1):  # what a node loads once, after its start, is not what is looked at here
            raw.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=["x"]), 4)
        for number in range(GROUPS):
            self._commit(f"g{number}")
        asked = [MetadataRequestTopic(name=KNOWN)]
        (found,) = raw.call(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 12).topics
        self.topic_id = found.topic_id

    def close(self) -> None:
        """Send no more."""
        self._raw.close()

    def _commit(self, group: str) -> None:
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=KNOWN, partitions=[place])
        while True:  # until the coordinator is there
            (row,) = (
                self._raw.call(OffsetCommitRequest(group_id=group, member_id="", topics=[topic]), 8)
                .topics[0]
                .partitions
            )
            if row.error_code == 0:
                return

    def suffer(self, blown: Blown) -> Seen:
        """Send a request, and see what it did."""
        if blown.api.key not in self._asked:  # what a node loads once is not what is looked at here
            self._asked.add(blown.api.key)
            head = blown.frame[4 : 4 + HEAD_BYTES]
            self._ask(blown._replace(frame=struct.pack(">i", len(head)) + head))
        self._watched.read()
        self._forget_peak()
        before, _ = memory_bytes(self._cluster.pid)
        began = time.monotonic()
        answered = self._ask(blown)
        seconds = time.monotonic() - began
        # One who is hung up on knows so before the callback has ended; the answer of a request behind it comes after.
        self._raw.call(ApiVersionsRequest(client_software_name="", client_software_version=""), 3)
        _, peak = memory_bytes(self._cluster.pid)
        held, collector, callback = 0.0, 0.0, ""
        for line in self._watched.read().splitlines():
            took, collected, name = line.split(" ", 2)
            if float(took) > held:
                held, collector, callback = float(took), float(collected), name
        sent, grown = len(blown.frame), peak - before
        makes = blown.api.stem in MAKING
        return Seen(str(blown), sent, answered, seconds, held, collector, grown, callback, makes)

    def _forget_peak(self) -> None:
        Path(f"/proc/{self._cluster.pid}/clear_refs").write_text("5")

    def _ask(self, blown: Blown) -> int:
        """Send a frame and read its answer: its size, 0 if it was hung up on, -1 if there was none in time."""
        listener = "broker" if "broker" in blown.api.listeners else "controller"
        host, _, port = self._addresses[listener].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as client:
            try:
                client.sendall(blown.frame)
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


def controller_of(cluster: Cluster) -> str:
    """Where a node listens as a controller."""
    (process,) = cluster._processes.values()
    return str(process.ready["controller"])


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    watched = tmp_path / "watched"
    watched.touch()
    program = [sys.executable, str(Path(__file__).with_name("watched.py"))]
    config = {"auto.create.topics.enable": "false"}
    with (
        Cluster(quorum=True, program=program, env={"KAVKA_WATCHED": str(watched)}, config=config) as cluster,
        watched.open(encoding="utf-8") as lines,
    ):
        victim = Victim(cluster, lines)
        yield victim
        victim.close()
        assert "Traceback" not in cluster.log


def every(victim: Victim, api: Api) -> Iterator[Blown]:
    """An API at each version, blown up to its cap in each way."""
    for version in reversed(range(api.min_version, api.latest_stable_version + 1)):
        yield from BlowUp(api, version, size_of(api), victim.topic_id, CAPS.items_of(api.key)).requests()


def size_of(api: Api) -> int:
    """The largest request of an API; of Produce, which has no such cap, one that is large enough."""
    return CAPS.of(api.key) if api.key != ApiKey.PRODUCE else 4 * CAPS.lists


def some(victim: Victim, rng: random.Random) -> Iterator[Blown]:
    """A few of them, of a moderate size."""
    for _ in range(SAMPLE):
        api = rng.choice(APIS)
        version = rng.randint(api.min_version, api.latest_stable_version)
        blown = BlowUp(api, version, SAMPLE_BYTES, victim.topic_id).one(rng)
        if blown is not None:
            yield blown


@pytest.mark.apart
@pytest.mark.parametrize("api", APIS if FULL else [None], ids=lambda api: "some" if api is None else api.name)
def test_no_request_holds_the_loop(victim: Victim, api: Api | None) -> None:
    seed = int(os.environ.get("KAVKA_SEED") or int.from_bytes(os.urandom(4)))
    sys.stdout.write(f"KAVKA_SEED={seed}\n")
    requests = some(victim, random.Random(seed)) if api is None else every(victim, api)
    judge([victim.suffer(blown) for blown in requests])


def judge(seen: list[Seen]) -> None:
    """Print what was seen, and hold it against the limits."""
    sys.stdout.write(table(seen) + "\n")
    assert not [one for one in seen if one.held_ms > GAP_MS]
    assert not [one for one in seen if one.grown > GROWN_FRAMES * one.sent + FREE_BYTES and not one.makes]


def table(seen: list[Seen]) -> str:
    """What was seen, the worst first."""
    rows = ["  held ms  (gc)   sent KB  answer KB    s   MB more  request"]
    rows += [
        f"{one.held_ms:9.1f} {one.collector_ms:5.0f} {one.sent >> 10:9d} {one.answered >> 10:10d} "
        f"{one.seconds:5.1f} {one.grown >> 20:8d}  {one.request}"
        for one in sorted(seen, key=lambda one: -one.held_ms)
    ]
    return "\n".join(rows)
