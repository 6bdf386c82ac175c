"""Asking a cluster for the numbers of one moment, of which two make rates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Final

from kavka.client import LATEST, Admin, ClusterView, GroupListing, KafkaError, Pool, TopicPartition
from kavka.console.rates import Look, clients_of
from kavka.console.scraping import get, numbers

MOST_GROUPS: Final = 200
"""Of so many groups it is asked how far they have read."""
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
    ends = await _ends(admin, list(leaders), lacking)
    sizes = await _sizes(admin, view, leaders, lacking)
    groups = await _groups(admin, lacking)
    gate = asyncio.Semaphore(AT_ONCE)
    asked = await asyncio.gather(*(_read(admin, group, gate) for group in groups[:MOST_GROUPS]))
    scraped = await asyncio.gather(*(asyncio.to_thread(get, page, "/metrics", seconds) for page in pages))
    positions = {group.id: found for group, found in zip(groups, asked, strict=False)}
    return Look(
        monotonic(),
        ends,
        sizes,
        leaders,
        {id_: found for id_, found in positions.items() if isinstance(found, dict)},
        clients_of(numbers(text) for _, text in scraped),
        view,
        groups,
        {id_: found for id_, found in positions.items() if isinstance(found, int)},
        lacking,
    )


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


async def _read(admin: Admin, group: GroupListing, gate: asyncio.Semaphore) -> dict[TopicPartition, int] | int | None:
    """How far a group has read, or of a share group how much is left; None where it does not tell."""
    async with gate:
        try:
            if group.type == "share":
                return sum(found.lag or 0 for found in (await admin.share_group_offsets(group.id)).values())
            return {tp: found.offset for tp, found in (await admin.group_offsets(group.id)).items()}
        except KafkaError:
            return None  # it is gone, moves to another coordinator just now, or is none of the asker's business
