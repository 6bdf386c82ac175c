"""What the doctor makes of what it has seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kavka.client.admin_cluster import LogDir, Quorum, QuorumReplica
from kavka.client.admin_topics import PartitionDescription, TopicDescription
from kavka.client.view import Node
from kavka.console.checks import Health, Level, Reached, Seen, findings
from kavka.model.errors import KafkaStorageError
from kavka.model.types import Uuid

NOW = 1_800_000_000_000


def voters(*caught_up_ms: int) -> Quorum:
    rows = tuple(QuorumReplica(number, Uuid.ZERO, 9, at, at) for number, at in enumerate(caught_up_ms, 1))
    return Quorum(1, 1, 9, rows, (), {})


def topic(*partitions: tuple[int, tuple[int, ...]]) -> dict[str, TopicDescription]:
    rows = (PartitionDescription(at, leader, 0, (1, 2, 3), isr, ()) for at, (leader, isr) in enumerate(partitions))
    return {"orders": TopicDescription("orders", Uuid.ZERO, False, tuple(rows))}


def disk(free: int, error: KafkaStorageError | None = None) -> dict[int, list[LogDir]]:
    return {1: [LogDir("/data", error, 100, free, False, {})]}


def nodes(count: int, host: str = "broker") -> list[Reached]:
    return [Reached(Node(number, host, 9092, None), None, "c") for number in range(1, count + 1)]


WELL = Seen(
    "broker:9092",
    "c",
    nodes(3),
    frozenset(),
    voters(NOW, NOW, NOW),
    None,
    topic((1, (1, 2, 3))),
    {"orders": 2},
    disk(60),
    NOW,
    [Health("broker:9404", numbers={"kavka_open_files": 50.0, "kavka_max_open_files": 1000.0}, ahead_seconds=0.1)],
)


def test_a_healthy_cluster_has_a_good_word_for_each_area() -> None:
    found = findings(WELL)
    assert {finding.level for finding in found} == {Level.OK}
    assert [finding.area for finding in found] == ["nodes", "quorum", "partitions", "disks", "clock", "descriptors"]


@pytest.mark.parametrize(
    ("seen", "level", "words"),
    [
        (replace(WELL, fenced=frozenset({2})), Level.PROBLEM, "node 2 at broker:9092 is fenced"),
        (
            replace(WELL, reached=[Reached(Node(1, "b", 1, None), "refused")]),
            Level.PROBLEM,
            "cannot be reached: refused",
        ),
        (replace(WELL, reached=[Reached(Node(1, "b", 1, None), None, "d")]), Level.PROBLEM, "belongs to cluster d"),
        (replace(WELL, reached=nodes(1, "127.0.0.1")), Level.WARNING, "only its own machine can use"),
        (replace(WELL, quorum=None, quorum_error="no leader"), Level.PROBLEM, "no leader"),
        (replace(WELL, quorum=voters(NOW, NOW, NOW - 60_000)), Level.WARNING, "voter 3 was last caught up 60 s ago"),
        (replace(WELL, quorum=voters(NOW, NOW, -1)), Level.WARNING, "voter 3 has never been caught up"),
        (replace(WELL, quorum=voters(NOW, NOW, -1)), Level.WARNING, "the loss of one more voter stops the cluster"),
        (replace(WELL, quorum=voters(NOW)), Level.WARNING, "the loss of one more voter stops the cluster"),
        (replace(WELL, topics=topic((-1, (1,)))), Level.PROBLEM, "1 (orders-0) without a leader"),
        (
            replace(WELL, reached=[*nodes(2), Reached(Node(3, "b", 1, None), "refused")], topics=topic((3, (1, 2, 3)))),
            Level.PROBLEM,
            "1 (orders-0) led by a node that cannot be reached",
        ),
        (replace(WELL, topics=topic((1, (1,)))), Level.PROBLEM, "below min.insync.replicas"),
        (replace(WELL, topics=topic(*[(1, (1, 2))] * 7)), Level.WARNING, "orders-4 and 2 more) under-replicated"),
        (replace(WELL, dirs=disk(8)), Level.WARNING, "/data of node 1 has 8% left"),
        (replace(WELL, dirs=disk(3)), Level.PROBLEM, "/data of node 1 has 3% left"),
        (replace(WELL, dirs=disk(60, KafkaStorageError("gone"))), Level.PROBLEM, "has failed: gone"),
        (replace(WELL, now_ms=NOW + 60_000), Level.WARNING, "node 1 is 60 s behind this machine's"),
        (replace(WELL, pages=[Health("m:1", ahead_seconds=9.0)]), Level.WARNING, "m:1 is 9 s ahead of this machine's"),
        (replace(WELL, pages=[Health("m:1", error="refused")]), Level.PROBLEM, "m:1: refused"),
        (replace(WELL, pages=[Health("m:1", unready="it starts")]), Level.PROBLEM, "m:1 is not ready: it starts"),
        (
            replace(WELL, pages=[Health("m:1", numbers={"kavka_open_files": 9.0, "kavka_max_open_files": 10.0})]),
            Level.WARNING,
            "9 of 10 files open",
        ),
        (
            replace(WELL, pages=[Health("m:1", numbers={"kavka_unclean_leader_elections_total": 1.0})]),
            Level.WARNING,
            "records may be lost",
        ),
    ],
)
def test_what_is_wrong_is_found_and_said_with_what_to_do(seen: Seen, level: Level, words: str) -> None:
    found = [finding for finding in findings(seen) if words in finding.what]
    assert [finding.level for finding in found] == [level]
    assert found[0].do
