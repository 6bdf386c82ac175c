"""A group goes from the classic protocol to KIP-848's and back under load, with members of both kinds in it.

Not with librdkafka's cooperative assignor: its leader puts user data into the assignments, and a group of which that is
so is not upgraded, by Apache Kafka neither.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from confluent_kafka.admin import AdminClient
from groups.play import HEARTBEAT_MS, QUICK, SESSION_MS, Play

from kavka.testing import Cluster
from scale import FULL, rounds

MEMBERS = rounds(full=5, ci=2)
PARTITIONS = rounds(full=20, ci=5)
CONFLUENT: dict[str, Any] = {
    "client": "confluent",
    "group.protocol": "classic",
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": HEARTBEAT_MS,
}
PYTHON: dict[str, Any] = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
KAVKA: dict[str, Any] = {"client": "kavka", "protocol": "classic", **PYTHON}
COOPERATIVE = {**KAVKA, "assignor": "cooperative-sticky"}
TO_CONFLUENT: dict[str, Any] = {"client": "confluent", "group.protocol": "consumer"}
TO_KAVKA: dict[str, Any] = {"client": "kavka", "protocol": "consumer"}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "confluent": (CONFLUENT, TO_CONFLUENT),
    "kavka-cooperative": (COOPERATIVE, TO_CONFLUENT),
    "kavka": (KAVKA, TO_KAVKA),
    "aiokafka": ({"client": "aiokafka", "rebalance_timeout_ms": 10_000, **PYTHON}, TO_CONFLUENT),
    "kafka-python": ({"client": "kafka_python", **PYTHON}, TO_KAVKA),
}


def type_of(bootstrap: str, group: str) -> str:
    """The type of a group as it is listed."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = admin.list_consumer_groups(request_timeout=30).result().valid
    return str(next(one.type.name for one in listed if one.group_id == group))


def replace_all(play: Play, by: dict[str, Any]) -> None:
    """Replace the members one by one."""
    for old in list(play.members):
        play.start(**by)
        play.settle()
        play.remove(old)
        play.settle()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS if FULL else ["kavka-cooperative"])
def test_a_group_migrates_and_comes_back_under_load(kind: str) -> None:
    classic, consumer = KINDS[kind]
    with Cluster(config=QUICK) as node:
        play = Play(node.bootstrap, PARTITIONS)
        try:
            play.start(MEMBERS, **classic)
            play.settle()
            assert type_of(node.bootstrap, play.group) == "CLASSIC"
            replace_all(play, by=consumer)
            assert type_of(node.bootstrap, play.group) == "CONSUMER"
            replace_all(play, by=classic)
            assert type_of(node.bootstrap, play.group) == "CLASSIC"
            play.finish()
        finally:
            play.close()


@pytest.mark.timeout(600)
def test_a_crashed_member_of_either_kind_is_replaced_in_a_mixed_group() -> None:
    with Cluster(config=QUICK) as node:
        play = Play(node.bootstrap, PARTITIONS)
        try:
            first, *_ = play.start(2, **COOPERATIVE)
            play.settle()
            second, *_ = play.start(2, **TO_CONFLUENT)
            play.settle()
            play.remove(first, crash=True)
            play.settle()
            play.remove(second, crash=True)
            play.settle()
            play.finish()
        finally:
            play.close()
