"""The topics: sizes, rates and health, searched, sorted and in pages, out of the last look alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from kavka.console.pages.tiers import tiered
from kavka.console.visits import Visit
from kavka.console.watching import Watch, is_internal

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


SORTS: Final[dict[str, Callable[[Watch], Callable[[str], Any]]]] = {
    "name": lambda watch: lambda name: name,
    "partitions": lambda watch: lambda name: (-len(watch.view.topics[name].partitions), name),
    "size": lambda watch: lambda name: (-watch.topic_sizes[name], name),
    "rate": lambda watch: lambda name: (-watch.topic_rates.get(name, (0, 0))[0], name),
    "trouble": lambda watch: lambda name: (name not in watch.troubles, name),
}


def _row(watch: Watch, name: str) -> TopicRow:
    topic = watch.view.topics[name]
    records, added = watch.topic_rates.get(name, (None, None))
    known = watch.look is not None and "sizes" not in watch.look.lacking
    return TopicRow(
        name,
        is_internal(name, topic),
        len(topic.partitions),
        max((len(each.replicas) for each in topic.partitions.values()), default=0),
        watch.topic_sizes[name] if known else None,
        records,
        added,
        watch.troubles.get(name, ""),
    )


async def show(visit: Visit) -> Response:
    """The list of topics."""
    watch = visit.seat.watch
    await watch.known()
    search, sort = visit.asked("search")[:MOST_SEARCH].strip(), visit.asked("sort")
    sort = sort if sort in SORTS else "name"
    internal = visit.asked("internal") == "1"
    wanted = search.lower()
    names = (name for name, topic in watch.view.topics.items() if internal or not is_internal(name, topic))
    found = sorted((name for name in names if wanted in name.lower()), key=SORTS[sort](watch))
    pages = max(1, -(-len(found) // PER_PAGE))
    page = visit.asked_number("page", 1, 1, pages)
    here = [_row(watch, name) for name in found[(page - 1) * PER_PAGE : page * PER_PAGE]]
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
