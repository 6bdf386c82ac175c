"""Lineage: tells an OpenLineage server which flow reads which topics and writes which table or topic.

A flow that starts is a run that starts; while it goes on its run is told again, once a minute at most, with the rows of
the last batch; and it completes or fails. A server that cannot be reached is no reason for a flow to stop.
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pyspark.sql.streaming.listener import StreamingQueryListener

from kavka.spark.offsets import reported
from kavka.spark.pipelines.progress import one_line, read_progress

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from kavka.spark.pipelines.spec import Flow, Pipeline

ENVIRONMENT: Final = "environment"
PRODUCER: Final = "urn:kavka:pipeline"
EVERY_S: Final = 60.0
Dataset = tuple[str, str]
"""OpenLineage's name of a dataset: its namespace, and its name there."""


class LineageError(RuntimeError):
    """Lineage was asked for and cannot be told; the message says what is missing."""


def client_of(lineage: str) -> OpenLineageClient:
    """The client for a server's URL, or the one that OpenLineage's own variables and files describe."""
    try:
        from openlineage.client import OpenLineageClient, set_producer
    except ImportError:
        raise LineageError("lineage needs one more package: pip install 'kavka[lineage]'") from None
    set_producer(PRODUCER)
    if lineage == ENVIRONMENT:
        return OpenLineageClient()
    return OpenLineageClient(config={"transport": {"type": "http", "url": lineage}})


def topic_dataset(bootstrap: str, topic: str) -> Dataset:
    """A topic, as OpenLineage names those of Kafka."""
    return f"kafka://{bootstrap.partition(',')[0].strip()}", topic


def table_dataset(path: str) -> Dataset:
    """A table, by where it is."""
    parts = urlsplit(path)
    if parts.scheme in ("", "file"):
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")


class Lineage(StreamingQueryListener):
    """Hears of every query and tells of the flow; called by Spark from a thread of its own."""

    def __init__(
        self,
        pipeline: Pipeline,
        client: OpenLineageClient,
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pipeline = pipeline
        self._flows = {flow.name: flow for flow in pipeline.flows}
        self._client = client
        self._tell = tell
        self._clock = clock
        self._runs: dict[str, Flow] = {}
        self._told: dict[str, float] = {}
        self._unsent = False

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  (Spark's name, as those below)
        """A flow runs."""
        flow = self._flows.get(event.name or "")
        if flow is not None:
            self._runs[str(event.runId)] = flow
            self._emit("START", str(event.runId), flow, [flow.source.topic] if flow.source.topic else [])

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A flow has finished a batch."""
        run = str(event.progress.runId)
        flow = self._runs.get(run)
        if flow is None or self._clock() - self._told.get(run, -EVERY_S) < EVERY_S:
            return
        document = json.loads(event.progress.json)
        progress = read_progress(document)
        if progress.rows:
            self._told[run] = self._clock()
            self._emit("RUNNING", run, flow, _topics(document), rows=progress.rows)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """A flow has nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """A flow has ended."""
        run = str(event.runId)
        flow = self._runs.pop(run, None)
        self._told.pop(run, None)
        if flow is not None:
            failure = one_line(RuntimeError(event.exception)) if event.exception else None
            known = [flow.source.topic] if flow.source.topic else []
            self._emit("FAIL" if failure else "COMPLETE", run, flow, known, failure=failure)

    def _emit(
        self,
        state: str,
        run: str,
        flow: Flow,
        topics: Iterable[str],
        *,
        rows: int | None = None,
        failure: str | None = None,
    ) -> None:
        try:
            self._client.emit(self._event(state, run, flow, topics, rows, failure))
        except Exception as error:  # whatever a transport raises: data goes on without its lineage
            if not self._unsent:
                self._tell(f"lineage cannot be told: {one_line(error)}")
            self._unsent = True
        else:
            self._unsent = False

    def _event(
        self, state: str, run: str, flow: Flow, topics: Iterable[str], rows: int | None, failure: str | None
    ) -> Any:
        from openlineage.client import event_v2, facet_v2

        kind = facet_v2.job_type_job.JobTypeJobFacet(processingType="STREAMING", integration="KAVKA", jobType="FLOW")
        facets: dict[str, Any] = {}
        if failure is not None:
            facets["errorMessage"] = facet_v2.error_message_run.ErrorMessageRunFacet(failure, "python")
        read: dict[str, Any] = {}
        if rows is not None:
            statistics = facet_v2.input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=rows)
            read["inputStatistics"] = statistics
        inputs = [topic_dataset(self._pipeline.bootstrap, topic) for topic in topics]
        table = flow.sink.table
        output = topic_dataset(self._pipeline.bootstrap, flow.sink.topic or "")
        if table is not None:
            output = table_dataset(table.path)
        return event_v2.RunEvent(
            eventTime=datetime.datetime.now(datetime.UTC).isoformat(),
            eventType=event_v2.RunState[state],
            run=event_v2.Run(run, facets),
            job=event_v2.Job(self._pipeline.name, flow.name, {"jobType": kind}),
            inputs=[event_v2.InputDataset(*each, inputFacets=read) for each in inputs],
            outputs=[event_v2.OutputDataset(*output)],
        )


def _topics(document: dict[str, Any]) -> list[str]:
    """The topics that a batch has read, by its offsets."""
    ends = (reported(source.get("endOffset"))[0] for source in document.get("sources", []))
    return sorted({tp.topic for offsets in ends for tp in offsets})
