"""The topics: sizes, rates and health, searched, sorted and in pages, out of the last look alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from kavka.console.pages.tiers import tiered
from kavka.console.visits import Visit
from kavka.console.watching import Watch

PER_PAGE: Final = 50
MOST_SEARCH: Final = 249


class TopicRow(NamedTuple):
    """A topic in the list."""

    name: str
    internal: bool
    partitions: int
    replicas: int
    size: int | None
    records: float | None
    bytes: float | None
    trouble: str
    """What is wrong with it, if anything."""


SORTS: Final[dict[str, Callable[[TopicRow], Any]]] = {
    "name": lambda row: row.name,
    "partitions": lambda row: (-row.partitions, row.name),
    "size": lambda row: (-(row.size or 0), row.name),
    "rate": lambda row: (-(row.records or 0), row.name),
    "trouble": lambda row: (row.trouble == "", row.name),
}


def rows(watch: Watch, search: str, *, internal: bool) -> list[TopicRow]:
    """The topics whose names have a text in them."""
    wanted = search.lower()
    sizes: Counter[str] | None = None
    if watch.look is not None and "sizes" not in watch.look.lacking:
        sizes = Counter()
        for tp, count in watch.look.sizes.items():
            sizes[tp.topic] += count
    found = []
    for name, topic in watch.view.topics.items():
        if (topic.internal and not internal) or (wanted and wanted not in name.lower()):
            continue
        offline = sum(each.leader < 0 for each in topic.partitions.values())
        lacking = sum(len(each.isr) < len(each.replicas) for each in topic.partitions.values())
        trouble = f"{offline} offline" if offline else f"{lacking} under-replicated" if lacking else ""
        records, added = watch.topic_rates.get(name, (None, None))
        replicas = max((len(each.replicas) for each in topic.partitions.values()), default=0)
        size = sizes[name] if sizes is not None else None
        found.append(TopicRow(name, topic.internal, len(topic.partitions), replicas, size, records, added, trouble))
    return found


async def show(visit: Visit) -> Response:
    """The list of topics."""
    watch = visit.seat.watch
    await watch.known()
    search, sort = visit.asked("search")[:MOST_SEARCH].strip(), visit.asked("sort")
    sort = sort if sort in SORTS else "name"
    internal = visit.asked("internal") == "1"
    found = sorted(rows(watch, search, internal=internal), key=SORTS[sort])
    pages = max(1, -(-len(found) // PER_PAGE))
    page = visit.asked_number("page", 1, 1, pages)
    here = found[(page - 1) * PER_PAGE : page * PER_PAGE]
    return visit.page(
        "topics.html",
        rows=here,
        tiered=await tiered(visit.admin, [row.name for row in here]),
        total=len(found),
        everything=len(watch.view.topics),
        search=search,
        sort=sort,
        internal=internal,
        page_number=page,
        pages=pages,
        asked={"search": search, "sort": "" if sort == "name" else sort, "internal": "1" if internal else ""},
        lacking=list(watch.look.lacking.values()) if watch.look is not None else [],
    )
