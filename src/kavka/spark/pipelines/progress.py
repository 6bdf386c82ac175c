"""What a running pipeline says: a line for each batch, a status file, and numbers for Prometheus."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from kavka.model.pipelines import BatchReport
from kavka.spark.advice import BUSY, FULL, NO_SPACE, NO_WORKER, is_full_disk
from kavka.spark.offsets import reported
from kavka.spark.pipelines.announcing import positions_of
from kavka.spark.pipelines.flows import DEAD_LETTERS

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from kavka.spark.pipelines.announcing import Announcer

STATUS: Final = ".kavka/status.json"


@dataclass(frozen=True, slots=True)
class Progress:
    """One batch of one flow."""

    flow: str
    batch: int
    rows: int
    """Read from the topics, bad ones included."""
    dead_letters: int
    rows_per_second: float
    lag: int | None
    state_rows: int
    seconds: float
    at: str

    def report(self) -> BatchReport:
        """For consoles."""
        at = datetime.fromisoformat(self.at) if self.at else datetime.now(UTC)
        return BatchReport(self.batch, self.rows, self.dead_letters, self.seconds, int(at.timestamp() * 1000))

    def line(self) -> str:
        """For people."""
        parts = [f"{self.flow} batch {self.batch}: {self.rows:,} rows in {self.seconds:.1f} s"]
        if self.dead_letters:
            parts.append(f"{self.dead_letters:,} dead letter{'s' if self.dead_letters > 1 else ''}")
        if self.rows:
            parts.append(f"{self.rows_per_second:,.0f} rows/s")
        if self.lag is not None:
            parts.append(f"lag {self.lag:,}")
        if self.state_rows:
            parts.append(f"state {self.state_rows:,} rows")
        return ", ".join(parts)


def lag_between(end: Any, latest: Any) -> int | None:
    """How many offsets lie between where a query is and where its topics end."""
    if not end or not latest:
        return None
    here, ids = reported(end)
    there, ids_now = reported(latest)
    anew = {topic for topic, each in ids_now.items() if ids.get(topic, each) != each}
    return sum(max(0, offset - (0 if tp.topic in anew else here.get(tp, 0))) for tp, offset in there.items())


def read_progress(document: Mapping[str, Any]) -> Progress:
    """A batch from what Spark reports of it."""
    lags = [lag_between(each.get("endOffset"), each.get("latestOffset")) for each in document.get("sources", [])]
    known = [lag for lag in lags if lag is not None]
    return Progress(
        flow=document.get("name") or document["id"],
        batch=document["batchId"],
        rows=document.get("numInputRows", 0),
        dead_letters=document.get("observedMetrics", {}).get(DEAD_LETTERS, {}).get(DEAD_LETTERS, 0),
        rows_per_second=document.get("processedRowsPerSecond") or 0.0,
        lag=sum(known) if known else None,
        state_rows=sum(each.get("numRowsTotal", 0) for each in document.get("stateOperators", [])),
        seconds=document.get("durationMs", {}).get("triggerExecution", 0) / 1000,
        at=document.get("timestamp", ""),
    )


class Reporter(StreamingQueryListener):
    """Hears of every batch and passes it on; called by Spark from a thread of its own."""

    def __init__(
        self,
        folder: Path,
        tell: Callable[[str], None],
        registry: CollectorRegistry | None = None,
        announcer: Announcer | None = None,
    ) -> None:
        self._path = folder / STATUS
        self._tell = tell
        self._announcer = announcer
        self._lock = threading.Lock()
        self._flows: dict[str, dict[str, Any]] = {}
        self._names: dict[str, str] = {}
        self._ended = threading.Condition(self._lock)
        self._gauges = None if registry is None else _Gauges(registry)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  (Spark's name, as those below)
        """A flow runs."""
        name = event.name or str(event.id)
        self._names[str(event.id)] = name
        self._update(name, state="running")
        if self._announcer is not None:
            self._announcer.state(name, "running")

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A flow has finished a batch."""
        document = json.loads(event.progress.json)
        progress = read_progress(document)
        if progress.rows or progress.batch == 0:
            self._tell(progress.line())
        if self._gauges is not None:
            self._gauges.set(progress)
        self._update(progress.flow, state="running", **{k: v for k, v in asdict(progress).items() if k != "flow"})
        if self._announcer is not None:
            self._announcer.batch(progress.flow, progress.report(), positions_of(document))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """A flow has nothing to do."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """A flow has ended."""
        flow = self._names.pop(str(event.id), str(event.id))
        state = "failed" if event.exception else "stopped"
        self._update(flow, state=state)
        if self._announcer is not None:
            self._announcer.state(flow, state, one_line(RuntimeError(event.exception)) if event.exception else None)
        with self._ended:
            self._ended.notify_all()

    def wait_for_the_end(self, seconds: float) -> None:
        """Wait until every flow's last batch and its end have been told: Spark tells them a little later."""
        with self._ended:
            self._ended.wait_for(lambda: not self._names, seconds)

    def _update(self, flow: str, **fields: Any) -> None:
        with self._lock:
            self._flows.setdefault(flow, {}).update(fields)
            self._write()

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._path.with_suffix(".new")
        fresh.write_text(json.dumps(self._flows, indent=1) + "\n")
        fresh.replace(self._path)


class _Gauges:
    """The numbers of the last batch, by flow."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge

        labels = ("flow",)
        self._rows = Counter("kavka_pipeline_rows", "Rows read", labels, registry=registry)
        self._dead = Counter("kavka_pipeline_dead_letters", "Rows set aside as bad", labels, registry=registry)
        self._batches = Counter("kavka_pipeline_batches", "Batches finished", labels, registry=registry)
        self._rate = Gauge("kavka_pipeline_rows_per_second", "Rows per second", labels, registry=registry)
        self._lag = Gauge("kavka_pipeline_lag_offsets", "Offsets not yet read", labels, registry=registry)
        self._state = Gauge("kavka_pipeline_state_rows", "Rows kept as state", labels, registry=registry)
        self._seconds = Gauge("kavka_pipeline_batch_seconds", "Duration of a batch", labels, registry=registry)

    def set(self, progress: Progress) -> None:
        self._rows.labels(progress.flow).inc(progress.rows)
        self._dead.labels(progress.flow).inc(progress.dead_letters)
        self._batches.labels(progress.flow).inc()
        self._rate.labels(progress.flow).set(progress.rows_per_second)
        self._lag.labels(progress.flow).set(progress.lag or 0)
        self._state.labels(progress.flow).set(progress.state_rows)
        self._seconds.labels(progress.flow).set(progress.seconds)


_STREAM = re.compile(r"^\[STREAM_FAILED\].*? terminated with exception: (.+?)(?: SQLSTATE: \w+)?$")
_DETAILS: Final = "=== Streaming Query ==="
_RAISED = re.compile(r"^(?:[\w]+\.)*(\w+): (.+)$")
_OURS = re.compile(r"^kavka\.[\w.]+\.(\w+): (.+)$")


def one_line(error: BaseException) -> str:
    """The cause of a failed query in one line: what our code raised in a task, or the last that anybody did."""
    lines = [line.strip() for line in str(error).partition(_DETAILS)[0].splitlines()]
    if is_full_disk(error) and not any(map(_OURS.match, lines)):
        return f"{NO_SPACE}: {FULL}"
    if any(NO_WORKER in line for line in lines):
        return f"{NO_WORKER}: {BUSY}"
    for pattern in (_OURS, _RAISED):
        found = [match for line in lines if (match := pattern.match(line)) is not None]
        if found:
            return found[-1][2] if pattern is _OURS else found[-1][0]
    told = _STREAM.match(lines[0]) if lines else None
    if told is not None:
        return told[1]
    return lines[0] if lines else type(error).__name__
