"""Tiered topics: what of each partition is on disk, in the store, or in both."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from kavka.client import EARLIEST, LATEST, Admin, ConfigResource, KafkaError, TopicPartition
from kavka.client.offsets import EARLIEST_LOCAL, LATEST_TIERED
from kavka.console.visits import REFUSED, Visit
from kavka.console.watching import is_internal

ENABLED: Final = "remote.storage.enable"
MOST_ASKED: Final = 1000
"""Of so many topics it is asked whether they are tiered."""
MOST_PARTITIONS: Final = 500
PLACES: Final = {"start": EARLIEST, "local": EARLIEST_LOCAL, "tiered": LATEST_TIERED, "end": LATEST}


async def show(visit: Visit) -> Response:
    """The tiered topics."""
    watch = visit.seat.watch
    await watch.known()
    search = visit.asked("search").strip()
    names = [
        name
        for name, topic in sorted(watch.view.topics.items())
        if not is_internal(name, topic) and search.lower() in name.lower()
    ]
    chosen = await tiered(visit.admin, names[:MOST_ASKED])
    partitions = [TopicPartition(name, index) for name in chosen for index in watch.view.topics[name].partitions]
    return visit.page(
        "tiers.html",
        rows=await _rows(visit, sorted(partitions)[:MOST_PARTITIONS]),
        topics=len(chosen),
        hidden=max(0, len(partitions) - MOST_PARTITIONS),
        unasked=max(0, len(names) - MOST_ASKED),
        search=search,
    )


async def tiered(admin: Admin, names: list[str]) -> list[str]:
    """Which of these topics are tiered, as far as the asker may know."""
    resources = [ConfigResource.topic(name) for name in names]
    try:
        found = await admin.describe_configs(*resources, names=[ENABLED]) if resources else {}
    except REFUSED:
        return []
    return [resource.name for resource, each in found.items() if ENABLED in each and each[ENABLED].value == "true"]


async def _rows(visit: Visit, partitions: list[TopicPartition]) -> list[dict[str, Any]]:
    if not partitions:
        return []
    places = {name: await visit.admin.find_offsets(dict.fromkeys(partitions, place)) for name, place in PLACES.items()}
    rows = []
    for tp in partitions:
        at: dict[str, int | None] = {}
        for name, found in places.items():
            answer = found[tp]
            at[name] = None if isinstance(answer, KafkaError) else answer.offset
        rows.append({"tp": tp, **at, **_shares(at)})
    return rows


def _shares(at: dict[str, int | None]) -> dict[str, int]:
    """How many offsets are in the store alone, in both, and on disk alone, and in percent of all."""
    start, local, tiered, end = (at[name] if at[name] is not None else -1 for name in PLACES)
    assert start is not None
    assert local is not None
    assert tiered is not None
    assert end is not None
    if start < 0 or end <= start:
        return {"remote": 0, "both": 0, "disk": 0, "all": 0}
    in_store = max(start, tiered + 1 if tiered >= 0 else start)
    on_disk = max(start, local if local >= 0 else start)
    return {
        "remote": max(0, min(on_disk, end) - start),
        "both": max(0, min(in_store, end) - on_disk),
        "disk": max(0, end - max(in_store, on_disk)),
        "all": end - start,
    }
