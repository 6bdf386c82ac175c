"""Running a pipeline: start its queries, say how they go on, stop them between two batches when asked to."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kavka.spark.pipelines.announcing import Announcer
from kavka.spark.pipelines.flows import start_query, streaming_frame
from kavka.spark.pipelines.lineage import Lineage, LineageError, client_of
from kavka.spark.pipelines.progress import Reporter, one_line
from kavka.spark.pipelines.running import AlreadyRunningError, asked_restarts, running
from kavka.spark.pipelines.spec import Pipeline
from kavka.spark.session import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_STOP_SECONDS: Final = 60.0
_TELL_SECONDS: Final = 5.0
Tell = Callable[[str], None]


class PipelineError(RuntimeError):
    """A flow failed; the message is its cause in one line."""


@contextlib.contextmanager
def session(pipeline: Pipeline, master: str) -> Iterator[SparkSession]:
    """A Spark session for a pipeline, with what has to travel to a cluster."""
    spark = start(f"kavka-{pipeline.name}", master=master, conf=pipeline.spark, ship=pipeline.ship)
    try:
        yield spark
    finally:
        spark.stop()


def run(pipeline: Pipeline, master: str, tell: Tell, *, once: bool = False) -> None:
    """Run every flow until it is done (`once`), fails, or the process is told to stop (SIGINT, SIGTERM)."""
    stopping = threading.Event()
    with (
        _alone(pipeline),
        _signals(stopping),
        _announcing(pipeline, tell) as announcer,
        session(pipeline, master) as spark,
    ):
        reporter = Reporter(pipeline.folder, tell, _metrics(pipeline, tell), announcer)
        spark.streams.addListener(reporter)
        if pipeline.lineage is not None:
            spark.streams.addListener(Lineage(pipeline, _told_to(pipeline.lineage), tell))
        queries = {flow.name: start_query(spark, pipeline, flow, once=once) for flow in pipeline.flows}

        def restart(name: str) -> None:
            _stop([queries[name]])
            queries[name] = start_query(spark, pipeline, pipeline.flow(name), once=once)
            tell(f"{name} was asked to start again, and did")

        tell(f"running {', '.join(flow.name for flow in pipeline.flows)} on {master}; Ctrl-C stops after a batch")
        try:
            _watch(pipeline, queries, stopping, restart)
        finally:
            _stop(list(queries.values()))
            reporter.wait_for_the_end(_TELL_SECONDS)
        _raise_failure(list(queries.values()))
        tell("stopped" if stopping.is_set() else "done: everything that was there has been read")


def _told_to(lineage: str) -> Any:
    try:
        return client_of(lineage)
    except LineageError as error:
        raise PipelineError(str(error)) from None


@contextlib.contextmanager
def _alone(pipeline: Pipeline) -> Iterator[None]:
    try:
        with running(pipeline.folder):
            asked_restarts(pipeline.folder)  # those of an earlier run
            yield
    except AlreadyRunningError as error:
        raise PipelineError(str(error)) from None


def _announcing(pipeline: Pipeline, tell: Tell) -> contextlib.AbstractContextManager[Announcer | None]:
    if pipeline.status_topic is None:
        return contextlib.nullcontext()
    return Announcer(pipeline, pipeline.status_topic, tell)


def dry_run(pipeline: Pipeline, master: str) -> list[dict[str, Any]]:
    """Check everything short of running: topics, schemas, functions; what each flow would write."""
    found = []
    with session(pipeline, master) as spark:
        for flow in pipeline.flows:
            try:
                schema = streaming_frame(spark, pipeline, flow).schema
                _check_topic(pipeline, flow.source.topic)
            except Exception as error:
                raise PipelineError(f"flow {flow.name}: {one_line(error)}") from None
            target = flow.sink.topic or (flow.sink.table.path if flow.sink.table is not None else "")
            found.append({"flow": flow.name, "writes": target, "columns": schema.simpleString()[7:-1]})
    return found


def _check_topic(pipeline: Pipeline, topic: str | None) -> None:
    from kavka.client.blocking import Client

    if topic is not None:
        with Client(pipeline.bootstrap) as client:
            client.admin.describe_topic(topic)


def _watch(
    pipeline: Pipeline,
    queries: Mapping[str, StreamingQuery],
    stopping: threading.Event,
    restart: Callable[[str], None],
) -> None:
    while any(query.isActive for query in queries.values()) and not stopping.wait(0.2):
        if any(not query.isActive and query.exception() is not None for query in queries.values()):
            return
        for name in asked_restarts(pipeline.folder):
            if name in queries:
                restart(name)


def _stop(queries: Sequence[StreamingQuery]) -> None:
    """Stop between two batches, or after a while in the middle of one: the next run repeats that one."""
    deadline = time.monotonic() + _STOP_SECONDS
    for query in queries:
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(0.05)
        query.stop()


def _raise_failure(queries: Sequence[StreamingQuery]) -> None:
    for query in queries:
        error = query.exception()
        if error is not None:
            raise PipelineError(f"flow {query.name} failed: {one_line(error)}")


def _metrics(pipeline: Pipeline, tell: Tell) -> Any:
    if pipeline.metrics_port is None:
        return None
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    start_http_server(pipeline.metrics_port, addr=pipeline.metrics_host, registry=registry)
    tell(f"metrics at http://{pipeline.metrics_host}:{pipeline.metrics_port}/metrics")
    return registry


@contextlib.contextmanager
def _signals(stopping: threading.Event) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, lambda *_: stopping.set())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
