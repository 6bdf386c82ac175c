"""Pipelines and lake tables: what flows say of themselves, and where their sources end now."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from kavka.client import KafkaError, Last, TopicPartition
from kavka.console.pipelines import known_reports, lag_of, now_ms, state_of
from kavka.console.reading import Shown, read_records
from kavka.console.visits import RefusedError, Visit
from kavka.model.pipelines import DEAD_LETTER_REASON, FlowReport

MOST_LETTERS: Final = 10
ORDER: Final = {"failed": 0, "silent": 1, "running": 2, "stopped": 3}


async def show(visit: Visit) -> Response:
    """All flows, those that need somebody first, and the tables that they write."""
    watch = visit.seat.watch
    problem = await known_reports(watch.pipelines)
    search = visit.asked("search").strip()
    found = [report for key, report in sorted(watch.pipelines.flows.items()) if search.lower() in "/".join(key).lower()]
    rows = sorted((_row(visit, report) for report in found), key=lambda row: ORDER[row["state"]])
    by_age = sorted(found, key=lambda report: report.at_ms)
    tables = {report.table.path: report for report in by_age if report.table is not None}  # as last told of
    return visit.page(
        "pipelines.html",
        rows=rows,
        tables=[(report.table, report) for _, report in sorted(tables.items())],
        search=search,
        problem=problem,
        unreadable=watch.pipelines.unreadable,
        complete=watch.pipelines.complete,
    )


def _row(visit: Visit, report: FlowReport) -> dict[str, Any]:
    look = visit.seat.watch.look
    return {
        "report": report,
        "state": state_of(report, now_ms()),
        "lag": lag_of(report, look.ends if look is not None else {}),
        "last": report.batches[-1] if report.batches else None,
        "dead": sum(batch.dead_letters for batch in report.batches),
    }


async def flow(visit: Visit) -> Response:
    """One flow: its last batches, how far its sources were read, and what it set aside."""
    watch = visit.seat.watch
    problem = await known_reports(watch.pipelines)
    report = watch.pipelines.flows.get((visit.asked("name"), visit.asked("flow")))
    if report is None:
        raise RefusedError(404, "Not there", problem or "no pipeline has told of such a flow in the last 30 days")
    look = watch.look
    ends = look.ends if look is not None else {}
    positions = [
        {
            "at": at,
            "end": (end := ends.get(TopicPartition(at.topic, at.partition), at.end)),
            "lag": max(0, end - at.read),
        }
        for at in report.positions
    ]
    letters, unread = await _letters(visit, report)
    return visit.page(
        "pipeline.html",
        **_row(visit, report),
        problem=problem,
        batches=[*reversed(report.batches)],
        most=max((batch.rows for batch in report.batches), default=0),
        positions=positions,
        letters=letters,
        unread=unread,
    )


async def _letters(visit: Visit, report: FlowReport) -> tuple[list[tuple[Shown, str]], str | None]:
    """The newest dead letters with their reasons, or why they cannot be read."""
    topic = report.dead_letter_topic
    if topic is None:
        return [], None
    if topic not in visit.pool.view.topics and topic not in visit.seat.watch.view.topics:
        return [], None  # it is created with the first of them
    try:
        found = await read_records(
            visit.pool, topic, Last(MOST_LETTERS), None, limit=MOST_LETTERS, newest_first=True, values=visit.seat.values
        )
    except KafkaError as error:
        return [], str(error) or type(error).__name__
    return [(letter, _reason(letter)) for letter in found.records], None


def _reason(letter: Shown) -> str:
    return next((content.snippet for name, content in letter.headers if name == DEAD_LETTER_REASON), "")
