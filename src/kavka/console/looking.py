"""Asking a cluster for the numbers of one moment, of which two make rates."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from time import monotonic
from typing import Final

from kavka.client import LATEST, Admin, ClusterView, GroupListing, KafkaError, Pool, TopicPartition
from kavka.console.rates import Look, clients_of
from kavka.console.scraping import samples

MOST_SHARE_GROUPS: Final = 200
"""Of so many share groups it is asked how much they have left: each takes a request."""
AT_ONCE: Final = 16


async def look(
    pool: Pool, pages: Sequence[str], seconds: float, *, internal: bool = False, view: ClusterView | None = None
) -> Look:
    """The numbers of this moment, of the topics of `view` if one is at hand.

    What the asker may not see, or nobody answers, is named in `lacking`.
    """
    admin, lacking = Admin(pool), dict[str, str]()
    if view is None:
        view = await pool.refresh_all()
    leaders = {
        TopicPartition(topic.name, index): partition.leader
        for topic in view.topics.values()
        if internal or not topic.internal
        for index, partition in topic.partitions.items()
        if partition.leader >= 0
    }
    ends, sizes, groups = await asyncio.gather(  # together: each takes all its time if a node is away
        _ends(admin, list(leaders), lacking), _sizes(admin, view, leaders, lacking), _groups(admin, lacking)
    )
    committed = await admin.offsets_of_groups(group for group in groups if group.type != "share")
    shared = await _left(admin, [group.id for group in groups if group.type == "share"], lacking)
    scraped = await asyncio.gather(*(_page(page, seconds, lacking) for page in pages))
    return Look(
        monotonic(),
        ends,
        sizes,
        leaders,
        committed,
        clients_of(scraped),
        view,
        groups,
        shared,
        lacking,
    )


async def _page(address: str, seconds: float, lacking: dict[str, str]) -> dict[str, float]:
    try:
        return await asyncio.to_thread(samples, address, seconds)
    except OSError as error:
        lacking[f"page {address}"] = f"the clients of the node at {address} ({error})"
        return {}


async def _ends(admin: Admin, partitions: list[TopicPartition], lacking: dict[str, str]) -> dict[TopicPartition, int]:
    found = await admin.find_offsets(dict.fromkeys(partitions, LATEST)) if partitions else {}
    failed = [f"{tp}: {answer}" for tp, answer in found.items() if isinstance(answer, KafkaError)]
    if failed:
        lacking["ends"] = f"where {len(failed)} partitions end ({failed[0]})"
    return {tp: answer.offset for tp, answer in found.items() if not isinstance(answer, KafkaError)}


async def _sizes(
    admin: Admin, view: ClusterView, leaders: dict[TopicPartition, int], lacking: dict[str, str]
) -> dict[TopicPartition, int]:
    async def ask(node: int) -> dict[TopicPartition, int]:
        try:
            dirs = (await admin.describe_log_dirs(nodes=[node]))[node]
        except KafkaError as error:
            lacking["sizes"] = f"the sizes of logs ({error})"
            return {}
        return {
            tp: info.size_bytes
            for each in dirs
            for tp, info in each.replicas.items()
            if leaders.get(tp) == node and not info.is_future
        }

    sizes: dict[TopicPartition, int] = {}
    for found in await asyncio.gather(*map(ask, view.nodes)):
        sizes |= found
    return sizes


async def _groups(admin: Admin, lacking: dict[str, str]) -> list[GroupListing]:
    try:
        return await admin.list_groups()
    except KafkaError as error:
        lacking["groups"] = f"some groups ({error})"
        return []


async def _left(admin: Admin, groups: Sequence[str], lacking: dict[str, str]) -> dict[str, int]:
    """How much share groups have left; those that do not tell are left out."""
    gate = asyncio.Semaphore(AT_ONCE)
    left: dict[str, int] = {}

    async def ask(group: str) -> None:
        async with gate:
            # It may be gone, move to another coordinator just now, or be none of the asker's business.
            with contextlib.suppress(KafkaError):
                left[group] = sum(found.lag or 0 for found in (await admin.share_group_offsets(group)).values())

    await asyncio.gather(*map(ask, groups[:MOST_SHARE_GROUPS]))
    if len(groups) > MOST_SHARE_GROUPS:
        lacking["share groups"] = f"how much {len(groups) - MOST_SHARE_GROUPS} of {len(groups)} share groups have left"
    return left
