"""Nodes, the metadata quorum and disks."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from starlette.responses import Response

from kavka.client import KafkaError, LogDir
from kavka.console.examining import the_quorum
from kavka.console.visits import Visit
from kavka.console.watching import ASK_SECONDS


async def show(visit: Visit) -> Response:
    """All of them."""
    watch, admin = visit.seat.watch, visit.admin
    await watch.known()
    cluster = await admin.describe_cluster(include_fenced=True)
    alive = [node.id for node in cluster.nodes if node.id not in cluster.fenced]
    asked = await asyncio.gather(the_quorum(admin, ASK_SECONDS / 2), *(_dirs(visit, node) for node in alive))
    quorum, quorum_error = asked[0]
    dirs: dict[int, list[LogDir] | str] = dict(zip(alive, asked[1:], strict=True))
    led: Counter[int] = Counter()
    held: Counter[int] = Counter()
    lagging: Counter[int] = Counter()
    for topic in watch.view.topics.values():
        for partition in topic.partitions.values():
            led[partition.leader] += 1
            for replica in partition.replicas:
                held[replica] += 1
                lagging[replica] += replica not in partition.isr
    rows = []
    for node in cluster.nodes:
        found = dirs.get(node.id, [])
        own = [] if isinstance(found, str) else found
        rows.append(
            {
                "node": node,
                "fenced": node.id in cluster.fenced,
                "controller": quorum is not None and node.id == quorum.leader_id,
                "led": led[node.id],
                "held": held[node.id],
                "lagging": lagging[node.id],
                "size": sum(info.size_bytes for each in own for info in each.replicas.values()),
                "dirs": own,
                "error": found if isinstance(found, str) else None,
            }
        )
    return visit.page(
        "nodes.html",
        rows=rows,
        quorum=quorum,
        quorum_error=quorum_error,
        voters=_replicas(quorum, "voters"),
        observers=_replicas(quorum, "observers"),
        cluster_id=cluster.cluster_id,
    )


async def _dirs(visit: Visit, node: int) -> Any:
    """The log directories of a node, or why they are not known."""
    try:
        return (await visit.admin.describe_log_dirs(nodes=[node]))[node]
    except KafkaError as error:
        return str(error)


def _replicas(quorum: Any, kind: str) -> list[dict[str, Any]]:
    if quorum is None:
        return []
    end = max((voter.log_end_offset for voter in quorum.voters), default=0)
    return [
        {
            "id": replica.id,
            "leads": replica.id == quorum.leader_id,
            "end": replica.log_end_offset,
            "lag": max(0, end - replica.log_end_offset) if replica.log_end_offset >= 0 else None,
            "caught_up": replica.last_caught_up_timestamp,
            "endpoints": ", ".join(quorum.endpoints.get(replica.id, ())),
        }
        for replica in getattr(quorum, kind)
    ]
