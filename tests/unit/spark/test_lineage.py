"""What a lineage server hears of flows."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openlineage.client", reason="openlineage-python is not installed")

from kavka.spark.pipelines.lineage import Lineage, client_of, table_dataset, topic_dataset
from kavka.spark.pipelines.spec import Pipeline, SpecError, parse

RUN = uuid.UUID(int=7)


@pytest.fixture
def server() -> Iterator[tuple[str, list[Any]]]:
    """An HTTP server, and the events that it was sent."""
    events: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            events.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *given: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}", events
        listening.shutdown()
        thread.join()


def pipeline(folder: Path, lineage: str, sink: dict[str, Any] | None = None) -> Pipeline:
    flow = {"name": "orders", "source": {"pattern": "orders-.*"}, "sink": sink or {"table": {"path": "tables/orders"}}}
    document = {"name": "shop", "bootstrap": "one:9092,two:9092", "lineage": lineage, "flows": [flow]}
    return parse(document, folder)


def started() -> Any:
    from pyspark.sql.streaming.listener import QueryStartedEvent

    return QueryStartedEvent(uuid.UUID(int=1), RUN, "orders", "2026-01-01T00:00:00Z", set())


def ended(exception: str | None) -> Any:
    from pyspark.sql.streaming.listener import QueryTerminatedEvent

    return QueryTerminatedEvent(uuid.UUID(int=1), RUN, exception, None)


def batch(rows: int) -> Any:
    class Told:
        class progress:  # noqa: N801
            runId = RUN  # noqa: N815
            json = ""

    document = {"id": "x", "name": "orders", "batchId": 1, "numInputRows": rows}
    document["sources"] = [{"endOffset": '{"orders-a": {"0": 5}, "orders-b": {"0": 1}}', "latestOffset": None}]
    Told.progress.json = json.dumps(document)
    return Told


def test_a_run_is_told_from_its_start_to_its_end(server: tuple[str, list[Any]], tmp_path: Path) -> None:
    url, events = server
    now, said = [0.0], list[str]()
    made = pipeline(tmp_path, url)
    told = Lineage(made, client_of(made.lineage or ""), said.append, lambda: now[0])
    told.onQueryStarted(started())
    told.onQueryProgress(batch(0))
    told.onQueryProgress(batch(12))
    told.onQueryProgress(batch(13))
    now[0] = 61
    told.onQueryProgress(batch(14))
    told.onQueryTerminated(ended(None))
    assert [event["eventType"] for _, event in events] == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    assert {path for path, _ in events} == {"/api/v1/lineage"}
    assert {event["run"]["runId"] for _, event in events} == {str(RUN)}
    running = events[1][1]
    assert running["job"]["namespace"] == "shop"
    assert running["job"]["name"] == "orders"
    assert [(each["namespace"], each["name"]) for each in running["inputs"]] == [
        ("kafka://one:9092", "orders-a"),
        ("kafka://one:9092", "orders-b"),
    ]
    assert running["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"] == 12
    assert [(each["namespace"], each["name"]) for each in running["outputs"]] == [
        ("file", str(tmp_path / "tables" / "orders"))
    ]
    assert not said


def test_a_failure_is_told_with_its_cause(server: tuple[str, list[Any]], tmp_path: Path) -> None:
    url, events = server
    made = pipeline(tmp_path, url, {"topic": "clean"})
    told = Lineage(made, client_of(url), list[str]().append)
    told.onQueryStarted(started())
    told.onQueryTerminated(ended("ValueError: no such thing"))
    failed = events[-1][1]
    assert failed["eventType"] == "FAIL"
    assert failed["run"]["facets"]["errorMessage"]["message"] == "ValueError: no such thing"
    assert [(each["namespace"], each["name"]) for each in failed["outputs"]] == [("kafka://one:9092", "clean")]


def test_a_server_that_cannot_be_reached_is_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    made = pipeline(tmp_path, "http://127.0.0.1:1")
    told = Lineage(made, client_of(made.lineage or ""), said.append)
    told.onQueryStarted(started())
    told.onQueryTerminated(ended(None))
    assert len(said) == 1
    assert said[0].startswith("lineage cannot be told: ")


def test_places_have_the_names_that_openlineage_gives_them() -> None:
    assert topic_dataset("a:1, b:2", "t") == ("kafka://a:1", "t")
    assert table_dataset("s3://bucket/lake/orders/") == ("s3://bucket", "lake/orders")
    assert table_dataset("file:///lake/orders") == ("file", "/lake/orders")


def test_what_is_no_place_for_lineage_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="lineage is a URL"):
        pipeline(tmp_path, "marquez")
    assert pipeline(tmp_path, "environment").lineage == "environment"
