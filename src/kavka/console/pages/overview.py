"""The first page: how the cluster is, what it is busy with, and what needs attention."""

from __future__ import annotations

import json
from typing import Final

from starlette.responses import Response

from kavka.console.checks import Level
from kavka.console.rates import lag_of
from kavka.console.visits import RefusedError, Visit
from kavka.console.watching import is_internal

MOST_ROWS: Final = 8
MOST_SERIES: Final = 6
ORDER: Final = {Level.PROBLEM: 0, Level.WARNING: 1, Level.OK: 2}


async def show(visit: Visit) -> Response:
    """The overview."""
    watch = visit.seat.watch
    await watch.known()
    look, view = watch.look, watch.view
    busy = sorted(watch.topic_rates.items(), key=lambda row: (-row[1][1], -row[1][0], row[0]))
    lags = [(group, lag_of(look, group.id)) for group in look.groups] if look is not None else []
    behind = sorted(
        ((group, lag) for group, lag in lags if lag is not None), key=lambda row: (-(row[1] or 0), row[0].id)
    )
    found = sorted(watch.findings or [], key=lambda finding: ORDER[finding.level])
    return visit.page(
        "overview.html",
        cluster_id=view.cluster_id,
        nodes=len(view.nodes),
        topics=sum(not is_internal(name, topic) for name, topic in view.topics.items()),
        partitions=sum(len(topic.partitions) for topic in view.topics.values()),
        groups=len(look.groups) if look is not None else None,
        stored=sum(look.sizes.values()) if look is not None and "sizes" not in look.lacking else None,
        rates=watch.rates,
        busy=[(name, *rates) for name, rates in busy if not is_internal(name, view.topics[name])][:MOST_ROWS]
        if all(name in view.topics for name, _ in busy)
        else [],
        behind=behind[:MOST_ROWS],
        findings=found,
        level=found[0].level.value if found else None,
        lacking=list(look.lacking.values()) if look is not None else [],
    )


async def series(visit: Visit) -> Response:
    """The numbers of a chart."""
    names = visit.request.query_params.getlist("of")
    if not 0 < len(names) <= MOST_SERIES:
        raise RefusedError(400, "That cannot be read", f"a chart has up to {MOST_SERIES} series")
    return Response(json.dumps(visit.seat.watch.series.chart(names)), media_type="application/json")


async def nothing(visit: Visit) -> Response:
    """The page for paths that there are not."""
    raise RefusedError(404, "Not there", "there is no such page")
