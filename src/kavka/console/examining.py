"""Asking a cluster for everything that its health is judged by."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Final

from kavka.client import (
    Admin,
    ClusterView,
    ConfigResource,
    KafkaError,
    Node,
    PartitionDescription,
    Pool,
    Quorum,
    ResourceType,
    TopicDescription,
    TopicView,
)
from kavka.client.security import SecuredBootstrap
from kavka.console.checks import Health, Reached, Seen
from kavka.console.scraping import get, samples

MIN_ISR: Final = "min.insync.replicas"


async def examine(
    bootstrap: str, pool: Pool, pages: Sequence[str], seconds: float, view: ClusterView | None = None
) -> Seen:
    """What a cluster shows of itself, its topics as in `view` if one is at hand.

    Raises KafkaError, and TimeoutError or OSError if nobody answers.
    """
    admin = Admin(pool)
    async with asyncio.timeout(seconds):
        if view is None:
            view = await pool.refresh_all()
        cluster = await admin.describe_cluster(include_fenced=True)
    reached = await asyncio.gather(*(_reach(bootstrap, node, cluster.fenced, seconds) for node in cluster.nodes))
    quorum, quorum_error = await the_quorum(admin, seconds)
    topics = {name: _described(topic) for name, topic in sorted(view.topics.items())}
    in_service = [each.node.id for each in reached if each.error is None and each.node.id not in cluster.fenced]
    return Seen(
        str(bootstrap),
        cluster.cluster_id,
        reached,
        cluster.fenced,
        quorum,
        quorum_error,
        topics,
        await _min_isr(admin, topics),
        await admin.describe_log_dirs(nodes=in_service),
        int(time.time() * 1000),
        await asyncio.gather(*(asyncio.to_thread(_page, page, seconds) for page in pages)),
    )


def _described(topic: TopicView) -> TopicDescription:
    rows = [
        PartitionDescription(index, row.leader, row.leader_epoch, row.replicas, row.isr, row.offline)
        for index, row in topic.partitions.items()
    ]
    return TopicDescription(topic.name, topic.id, topic.internal, tuple(rows))


async def _reach(bootstrap: str, node: Node, fenced: frozenset[int], seconds: float) -> Reached:
    if node.id in fenced:
        return Reached(node)
    host = f"[{node.host}]" if ":" in node.host else node.host
    address = f"{host}:{node.port}"
    if isinstance(bootstrap, SecuredBootstrap):
        address = SecuredBootstrap(address, bootstrap.security)
    try:
        async with asyncio.timeout(seconds), Admin(address, timeout_ms=int(seconds * 1000)) as there:
            return Reached(node, None, (await there.describe_cluster()).cluster_id)
    except TimeoutError:
        return Reached(node, f"no answer within {seconds:g} s")
    except (KafkaError, OSError) as error:
        return Reached(node, str(error))


async def the_quorum(admin: Admin, seconds: float) -> tuple[Quorum | None, str | None]:
    """The metadata quorum, or why it is not known."""
    try:
        async with asyncio.timeout(seconds):
            return await admin.describe_quorum(), None
    except TimeoutError:
        return None, f"no leader of the metadata quorum has answered within {seconds:g} s"
    except KafkaError as error:
        return None, str(error)


async def _min_isr(admin: Admin, topics: Mapping[str, TopicDescription]) -> dict[str, int]:
    replicated = [name for name, topic in topics.items() if any(len(each.replicas) > 1 for each in topic.partitions)]
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in replicated]
    found = await admin.describe_configs(*resources, names=[MIN_ISR]) if resources else {}
    return {resource.name: int(entries[MIN_ISR].value or 1) for resource, entries in found.items()}


def _page(address: str, seconds: float) -> Health:
    """What a node's page says; it is asked in a thread."""
    try:
        status, ready = get(address, "/readyz", seconds)
        found = samples(address, seconds)
    except OSError as error:
        return Health(address, error=str(error))
    told = found.get("kavka_time_seconds")
    ahead = None if told is None else told - time.time()
    return Health(address, None, None if status == 200 else ready.strip(), found, ahead)
