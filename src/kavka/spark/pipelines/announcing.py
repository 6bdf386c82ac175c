"""Tells the cluster how the flows of a pipeline stand, so that any console of it can show them, from whatever machine.

Reports are records of a compacted topic. They are written by a thread of their own: neither a cluster that is away nor
a table that takes long to look at holds a batch up, and a pipeline runs whether anybody can be told of it or not.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self

from kavka.client.blocking import Client, Producer
from kavka.model.errors import KafkaError, TopicAlreadyExists, UnknownTopicOrPartition
from kavka.model.pipelines import (
    MOST_BATCHES,
    MOST_POSITIONS,
    STATUS_CONFIGS,
    BatchReport,
    FlowReport,
    SourcePosition,
    TableReport,
)
from kavka.model.settings import SettingError
from kavka.spark.lake.table import TableSpec, open_table
from kavka.spark.offsets import reported
from kavka.spark.pipelines.spec import Flow, Pipeline

logger = logging.getLogger(__name__)

EVERY_SECONDS: Final = 30.0
"""A flow that runs is told of at least so often."""
LEAST_SECONDS: Final = 5.0
"""And no more often than this, unless it has started or ended."""
AGAIN_SECONDS: Final = 30.0
"""When the cluster does not take a report, the next attempt is made after this time."""
END_SECONDS: Final = 10.0
DELIVERY_MS: Final = 10_000
LOOK_SHARE: Final = 0.05
"""Of the time, at most so much is spent on looking at tables."""


@dataclass(slots=True)
class _Standing:
    """A flow, what is to be told of it, and when."""

    flow: Flow
    report: FlowReport
    due: float
    news: bool = True
    """Whether there is something that was not told."""
    told_at: float = float("-inf")
    look_at: float = float("-inf")


def positions_of(document: Mapping[str, Any]) -> list[SourcePosition]:
    """How far the sources of a query were read, from what Spark reports of a batch."""
    found = []
    for source in document.get("sources", []):
        (ends, _), (latest, _) = (reported(source.get(name)) for name in ("endOffset", "latestOffset"))
        for tp in sorted({*ends, *latest}):
            read = max(0, ends.get(tp, 0))
            found.append(SourcePosition(tp.topic, tp.partition, read, max(read, latest.get(tp, 0))))
    return found


class Announcer:
    """Keeps the reports of a pipeline's flows up to date."""

    def __init__(self, pipeline: Pipeline, topic: str, tell: Callable[[str], None]) -> None:
        self._pipeline = pipeline
        self._topic = topic
        self._tell = tell
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._closing = False
        self._troubled = False
        host, now = socket.gethostname(), time.monotonic()
        self._standings = {flow.name: _Standing(flow, _first(pipeline, flow, host), now) for flow in pipeline.flows}
        self._thread = threading.Thread(target=self._run, name="kavka-announcer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(END_SECONDS)

    def state(self, flow: str, state: str, error: str | None = None) -> None:
        """A flow runs, has stopped or has failed."""
        self._update(flow, at_once=True, state=state, error=error)

    def batch(self, flow: str, batch: BatchReport, positions: list[SourcePosition]) -> None:
        """A flow has finished a batch."""
        with self._lock:
            known = self._standings.get(flow)
            before = known.report.batches if known is not None else ()
        kept = tuple(each for each in before if each.number < batch.number)  # an older one is run again
        self._update(
            flow,
            batches=(*kept, batch)[-MOST_BATCHES:],
            positions=tuple(positions[:MOST_POSITIONS]),
            more_positions=max(0, len(positions) - MOST_POSITIONS),
        )

    def _update(self, flow: str, *, at_once: bool = False, **fields: Any) -> None:
        with self._changed:
            standing = self._standings.get(flow)
            if standing is None:  # a query of the session that is no flow
                return
            standing.report, standing.news = replace(standing.report, **fields), True
            standing.due = min(standing.due, 0.0 if at_once else standing.told_at + LEAST_SECONDS)
            self._changed.notify_all()

    # -- the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                with Client(self._pipeline.bootstrap, client_id="kavka-pipeline") as client:
                    self._have_topic(client)
                    with client.producer(idempotence=False, delivery_timeout_ms=DELIVERY_MS) as producer:
                        self._tell_all(producer)
                return
            except (KafkaError, SettingError, OSError) as error:
                if not self._troubled:
                    self._troubled = True
                    self._tell(f"consoles are not told of this pipeline (topic {self._topic}): {error}")
            with self._changed:
                for standing in self._standings.values():  # nobody knows which of them were told
                    standing.news, standing.due = True, 0.0
                if self._changed.wait_for(lambda: self._closing, AGAIN_SECONDS):
                    return

    def _have_topic(self, client: Client) -> None:
        """See that the topic is there; to be told of, a pipeline needs the right to create it only if it is not."""
        try:
            client.admin.describe_topic(self._topic)
        except UnknownTopicOrPartition:
            with contextlib.suppress(TopicAlreadyExists):
                client.admin.create_topic(self._topic, partitions=1, configs=STATUS_CONFIGS)

    def _tell_all(self, producer: Producer) -> None:
        """Write reports when they are due, and at the end those that say something new."""
        while True:
            with self._changed:
                while not self._closing and (left := self._next_due() - time.monotonic()) > 0:
                    self._changed.wait(min(left, EVERY_SECONDS))  # nothing is due where all flows have ended
                closing, now = self._closing, time.monotonic()
                chosen = [each for each in self._standings.values() if each.due <= now or (closing and each.news)]
                for standing in chosen:
                    standing.news, standing.told_at, standing.due = False, now, now + EVERY_SECONDS
                    if standing.report.state != "running":
                        standing.due = float("inf")
            for standing in chosen:
                report = self._complete(standing, now)
                producer.send(self._topic, report.encode(), key=report.key).result(DELIVERY_MS / 1000)
            if closing:
                return

    def _next_due(self) -> float:
        return min(each.due for each in self._standings.values())

    def _complete(self, standing: _Standing, now: float) -> FlowReport:
        """What is told now: with the time, and with the table as it is."""
        table, report = standing.flow.sink.table, standing.report
        if table is not None and (now >= standing.look_at or report.state != "running"):
            began = time.monotonic()
            looked = _looked_at(table) or report.table
            standing.look_at = now + (time.monotonic() - began) / LOOK_SHARE
            with self._lock:  # a batch may have come meanwhile
                standing.report = replace(standing.report, table=looked)
            report = replace(report, table=looked)
        return replace(report, at_ms=int(time.time() * 1000))


def _first(pipeline: Pipeline, flow: Flow, host: str) -> FlowReport:
    return FlowReport(
        pipeline=pipeline.name,
        flow=flow.name,
        state="running",
        at_ms=0,
        every_ms=int(EVERY_SECONDS * 1000),
        host=host,
        source=flow.source.topic or flow.source.pattern or "",
        sink_topic=flow.sink.topic,
        dead_letter_topic=flow.source.dead_letters,
    )


def _looked_at(spec: TableSpec) -> TableReport | None:
    """A table as it is now, if it can be looked at: a batch that cannot write to it says why, and this is no batch."""
    try:
        fresh = open_table(spec).freshness()
    except Exception as error:  # each format's library has its own, and none of them is a reason to stop telling
        logger.info("the table %s cannot be looked at: %s", spec.path, error)
        return None
    return TableReport(
        spec.format, spec.path, fresh.rows, fresh.files, fresh.bytes, fresh.version, fresh.last_commit_ms
    )
