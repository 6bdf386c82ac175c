"""What `kavka topics reassign` and `elect` do: plan reassignments, ask for them, and wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from kavka.cli.output import CommandError
from kavka.client import (
    Admin,
    ClusterDescription,
    Election,
    KafkaError,
    Reassignment,
    TopicDescription,
    TopicPartition,
)

LOOK_SECONDS: Final = 0.2

Moves = dict[TopicPartition, tuple[Sequence[int], Sequence[int]]]
"""The replicas of partitions before and after."""


class Cluster(Protocol):
    """What reassigns partitions and says where they are; the admin client does."""

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's brokers."""

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Topics with all their partitions."""

    async def reassign(self, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> None:
        """Reassign partitions to these brokers; None cancels a reassignment."""

    async def reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The partitions that are being reassigned."""


async def planned(
    cluster: Cluster, names: Sequence[str], nodes: Sequence[int], replication_factor: int | None
) -> Moves:
    """What `nodes` makes of topics, if all of them are in the cluster."""
    known = [node.id for node in (await cluster.describe_cluster()).nodes]
    strange = [str(node) for node in nodes if node not in known]
    if strange:
        here = ", ".join(map(str, known))
        raise CommandError(f"--to: {', '.join(strange)} is no broker in service; these are: {here}")
    return plan((await cluster.describe_topics(names)).values(), nodes, replication_factor)


async def move(cluster: Cluster, moves: Moves, *, wait: bool) -> None:
    """Move all partitions, or if one is refused none: what was begun by then is taken back."""
    try:
        await cluster.reassign({tp: after for tp, (_, after) in moves.items()})
    except KafkaError as error:
        undone = await _take_back(cluster, moves)
        told = f"{error} ({type(error).__name__}, error {error.code})"
        raise CommandError(f"{told}; {undone} partitions that had begun to move are put back") from error
    while wait and moves.keys() & (await cluster.reassignments()).keys():  # noqa: ASYNC110  (others tell nobody)
        await asyncio.sleep(LOOK_SECONDS)


async def _take_back(cluster: Cluster, moves: Moves) -> int:
    """Cancel the reassignments that are under way; those that were over at once go back to where they were."""
    under_way = moves.keys() & (await cluster.reassignments()).keys()
    now = {
        TopicPartition(name, row.index): row.replicas
        for name, topic in (await cluster.describe_topics({tp.topic for tp in moves})).items()
        for row in topic.partitions
    }
    over = {tp: before for tp, (before, _) in moves.items() if tp not in under_way and now[tp] != tuple(before)}
    if under_way or over:
        await cluster.reassign({**dict.fromkeys(under_way), **over})
    return len(under_way) + len(over)


async def cancel(cluster: Cluster, names: Sequence[str]) -> list[dict[str, Any]]:
    """Cancel the reassignments of topics that are under way; a row for each."""
    await cluster.describe_topics(names)  # raises for those that are not there
    under_way = {tp: move for tp, move in (await cluster.reassignments()).items() if tp.topic in names}
    if under_way:
        await cluster.reassign(dict.fromkeys(under_way))
    return [
        {"topic": tp.topic, "partition": tp.partition, "from": list(move.replicas), "to": None}
        for tp, move in under_way.items()
    ]


def plan(topics: Iterable[TopicDescription], nodes: Sequence[int], replication_factor: int | None) -> Moves:
    """Replicas before and after of each partition that is not on the nodes yet: in turn, so that leaders are spread."""
    moves: Moves = {}
    turn = 0
    for topic in topics:
        for row in topic.partitions:
            count = replication_factor or len(row.replicas)
            if count > len(nodes):
                raise CommandError(f"{topic.name} has {count} replicas, which {len(nodes)} nodes cannot hold")
            after = [nodes[(turn + step) % len(nodes)] for step in range(count)]
            turn += 1
            if count != len(row.replicas) or not set(row.replicas) <= set(nodes):
                moves[TopicPartition(topic.name, row.index)] = (row.replicas, after)
    return moves


async def elect(bootstrap: str, timeout_ms: int, names: Sequence[str], *, unclean: bool) -> list[dict[str, Any]]:
    """Elect leaders of topics, or of all; a row for each partition that got another one, or should have."""
    election = Election.UNCLEAN if unclean else Election.PREFERRED
    async with Admin(bootstrap, timeout_ms=timeout_ms) as admin:
        partitions = None
        if names:
            topics: Mapping[str, TopicDescription] = await admin.describe_topics(names)
            partitions = [TopicPartition(name, row.index) for name, topic in topics.items() for row in topic.partitions]
        outcomes = await admin.elect_leaders(partitions, election)
    return [
        {"topic": tp.topic, "partition": tp.partition, "outcome": "elected" if error is None else str(error)}
        for tp, error in sorted(outcomes.items())
    ]
