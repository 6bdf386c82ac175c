"""Groups of real clients under load: members come, leave, crash and are replaced one by one.

After each change every partition has exactly one owner, no committed offset goes back, and every record is read.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from groups.play import HEARTBEAT_MS, QUICK, SESSION_MS, Play, together

from kavka.testing import Cluster
from scale import FULL

CONFLUENT = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
COOPERATIVE = {**CONFLUENT, "partition.assignment.strategy": "cooperative-sticky"}
PYTHON = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
CLIENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "confluent-classic": ("confluent", {**CONFLUENT, "group.protocol": "classic"}),
    "confluent-cooperative": ("confluent", {**COOPERATIVE, "group.protocol": "classic"}),
    "confluent-static": ("confluent", {**CONFLUENT, "group.instance.id": "{name}"}),
    "confluent-consumer": ("confluent", {"group.protocol": "consumer"}),
    "confluent-consumer-range": ("confluent", {"group.protocol": "consumer", "group.remote.assignor": "range"}),
    "aiokafka": ("aiokafka", {**PYTHON, "rebalance_timeout_ms": 10_000}),
    "kafka-python": ("kafka_python", PYTHON),
    "kavka-consumer": ("kavka", {"protocol": "consumer"}),
    "kavka-classic": ("kavka", {**PYTHON, "protocol": "classic"}),
    "kavka-cooperative": ("kavka", {**PYTHON, "protocol": "classic", "assignor": "cooperative-sticky"}),
}
SIZES = [(1, 1), (3, 8), (5, 3), (20, 64)] if FULL else [(2, 5)]
"""How many members, and over how many partitions."""
RESTARTED = list(CLIENTS) if FULL else ["confluent-static", "confluent-consumer", "aiokafka", "kavka-consumer"]
COOPERATING = ["confluent-cooperative", "confluent-consumer", "kavka-cooperative", "kavka-consumer"]


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    """A node on which rebalances are quick."""
    with Cluster(config=QUICK) as cluster:
        yield cluster


@pytest.fixture
def plays(node: Cluster, request: pytest.FixtureRequest) -> Iterator[list[Play]]:
    """Groups that have not started yet, of the clients and over the partitions that the test names."""
    names, partitions = request.param
    plays: list[Play] = []
    try:
        for name in names:
            client, configs = CLIENTS[name]
            plays.append(Play(node.bootstrap, partitions, client, configs))
        yield plays
    finally:
        for play in plays:
            play.close()


def cases(clients: list[str], sizes: list[tuple[int, int]] = SIZES) -> Any:
    """In every size: each of the clients alone, or all at once if there is little time."""
    casts = {name: [name] for name in clients} if FULL else {"all": clients}
    chosen = [
        pytest.param((cast, partitions), members, id=f"{name}-{members}-over-{partitions}")
        for name, cast in casts.items()
        for members, partitions in sizes
    ]
    return pytest.mark.parametrize(("plays", "members"), chosen, indirect=["plays"])


@pytest.mark.timeout(600)
@cases(list(CLIENTS))
def test_members_come_leave_and_crash(plays: list[Play], members: int) -> None:
    def act(play: Play) -> None:
        play.start(members)
        play.settle()
        play.start()
        play.settle()
        play.remove(play.members[0])
        play.settle()
        if members > 1:
            play.remove(play.members[0], crash=True)
            play.settle()
        play.finish()

    together(act, plays)


@pytest.mark.timeout(600)
@cases(RESTARTED)
def test_a_rolling_restart(plays: list[Play], members: int) -> None:
    def act(play: Play) -> None:
        play.start(members)
        play.settle()
        for member in list(play.members):
            play.restart(member)
            play.settle()
        play.finish()

    together(act, plays)


@pytest.mark.timeout(300)
@cases(COOPERATING, [(3, 12)])
def test_a_cooperative_member_reads_on_what_it_keeps(plays: list[Play], members: int) -> None:
    def act(play: Play) -> None:
        first, *_ = play.start(members - 1)
        play.start(slow_s=1.0)  # takes its time to give something back, so that the rebalance lasts as long
        play.settle(each=4)
        before, began = set(first.has), time.monotonic()
        play.start()
        play.settle(each=3)
        ended = time.monotonic()
        kept = before & set(first.has)
        gave_back = {each for at, some in first.gave_back if at > began for each in some}
        assert len(kept) == 3, play.story()
        assert gave_back == before - kept, play.story()
        began = min(at for one in play.members for at in one.gives_back if at > began)
        assert kept <= {partition for at, partition, _, _ in first.read if began < at < ended}, play.story()
        play.finish()

    together(act, plays)
