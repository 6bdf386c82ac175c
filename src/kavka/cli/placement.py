"""What `kavka topics reassign` and `elect` do: plan moves, ask for them, and wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kavka.cli.output import CommandError
from kavka.client import Admin, Election, TopicDescription, TopicPartition

LOOK_SECONDS: Final = 0.2


async def reassign(
    bootstrap: str,
    timeout_ms: int,
    names: Sequence[str],
    nodes: Sequence[int],
    replication_factor: int | None,
    *,
    wait: bool,
) -> list[dict[str, Any]]:
    """Move topics to nodes, or without nodes cancel their moves; a row for each partition that is moved."""
    async with Admin(bootstrap, timeout_ms=timeout_ms) as admin:
        topics = await admin.describe_topics(names)
        if not nodes:
            return await _cancel(admin, names)
        wanted = plan(topics.values(), nodes, replication_factor)
        rows = [
            {"topic": tp.topic, "partition": tp.partition, "from": list(before), "to": list(after)}
            for tp, (before, after) in wanted.items()
        ]
        if wanted:
            await admin.reassign({tp: after for tp, (_, after) in wanted.items()})
        while wait and wanted.keys() & (await admin.reassignments()).keys():  # noqa: ASYNC110  (others tell nobody)
            await asyncio.sleep(LOOK_SECONDS)
    return rows


def plan(
    topics: Iterable[TopicDescription], nodes: Sequence[int], replication_factor: int | None
) -> dict[TopicPartition, tuple[Sequence[int], Sequence[int]]]:
    """Replicas before and after of each partition that is not on the nodes yet: in turn, so that leaders are spread."""
    moves: dict[TopicPartition, tuple[Sequence[int], Sequence[int]]] = {}
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


async def _cancel(admin: Admin, names: Sequence[str]) -> list[dict[str, Any]]:
    under_way = {tp: move for tp, move in (await admin.reassignments()).items() if tp.topic in names}
    if under_way:
        await admin.reassign(dict.fromkeys(under_way))
    return [
        {"topic": tp.topic, "partition": tp.partition, "from": list(move.replicas), "to": None}
        for tp, move in under_way.items()
    ]


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
