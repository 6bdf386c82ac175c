"""Pipelines tell the cluster how their flows stand; no Spark is needed for that."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from kavka.client.blocking import Client
from kavka.model.pipelines import BatchReport, FlowReport, SourcePosition
from kavka.spark.pipelines.announcing import Announcer, positions_of
from kavka.spark.pipelines.spec import Pipeline, SpecError, parse
from kavka.testing import Cluster


def pipeline(folder: Path, bootstrap: str, **more: object) -> Pipeline:
    flow = {
        "name": "orders",
        "source": {"topic": "orders", "format": "json", "schema": "id BIGINT", "dead_letters": "orders-dead"},
        "sink": {"table": {"format": "delta", "path": "tables/orders"}},
    }
    return parse({"name": "shop", "flows": [flow], **more}, folder, bootstrap)


def reports(client: Client, topic: str) -> list[FlowReport]:
    with client.consumer(topic) as consumer:
        return [FlowReport.decode(record.value) for record in consumer.until_end() if record.value is not None]


def test_flows_are_told_of_when_they_start_and_end(tmp_path: Path, node: Cluster, client: Client) -> None:
    told: list[str] = []
    topic = f"status-{tmp_path.name}"
    with Announcer(pipeline(tmp_path, node.bootstrap), topic, told.append) as announcer:
        announcer.state("orders", "running")
        announcer.batch("orders", BatchReport(0, 9, 0, 1.0, 5), [SourcePosition("orders", 0, 9, 9)])
        announcer.batch("orders", BatchReport(1, 5, 2, 1.0, 6), [SourcePosition("orders", 0, 14, 20)])
        announcer.batch("orders", BatchReport(1, 6, 1, 1.0, 7), [SourcePosition("orders", 0, 15, 20)])
        announcer.batch("another query", BatchReport(0, 1, 0, 1.0, 5), [])
        announcer.state("orders", "failed", "there is no space left")
    last = reports(client, topic)[-1]
    assert told == []
    assert (last.pipeline, last.flow, last.state, last.error) == ("shop", "orders", "failed", "there is no space left")
    assert [(batch.number, batch.rows) for batch in last.batches] == [(0, 9), (1, 6)], (
        "a batch that ran again counts once"
    )
    assert last.positions == (SourcePosition("orders", 0, 15, 20),)
    assert (last.source, last.dead_letter_topic, last.sink_topic) == ("orders", "orders-dead", None)
    assert last.table is not None
    assert (last.table.rows, last.table.committed_ms) == (0, None)
    found = client.admin.describe_topic(topic)
    assert len(found.partitions) == 1


def test_a_flow_that_has_ended_may_start_again(tmp_path: Path, node: Cluster, client: Client) -> None:
    topic = f"again-{tmp_path.name}"
    with Announcer(pipeline(tmp_path, node.bootstrap), topic, pytest.fail) as announcer:
        announcer.state("orders", "stopped")
        deadline = time.monotonic() + 60
        while topic not in [each.name for each in client.admin.list_topics()] or not reports(client, topic):
            assert time.monotonic() < deadline
        announcer.state("orders", "running")
    assert [each.state for each in reports(client, topic)] == ["stopped", "running"]


def test_a_cluster_that_is_away_is_said_once_and_stops_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    heard = threading.Event()

    def tell(line: str) -> None:
        told.append(line)
        heard.set()

    began = time.monotonic()
    with Announcer(pipeline(tmp_path, "127.0.0.1:1"), "status", tell) as announcer:
        announcer.state("orders", "running")
        assert heard.wait(60)
    assert time.monotonic() - began < 100
    assert len(told) == 1
    assert told[0].startswith("consoles are not told of this pipeline (topic status): ")


def test_the_end_of_a_flow_is_told_once_the_cluster_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.spark.pipelines.announcing.AGAIN_SECONDS", 0.2)
    monkeypatch.setattr("kavka.spark.pipelines.announcing.DELIVERY_MS", 1000)
    heard = threading.Event()
    with (
        Cluster(data_dir=tmp_path / "node") as node,
        Announcer(pipeline(tmp_path, node.bootstrap), "status", lambda _: heard.set()) as announcer,
    ):
        until_state(node, "running")
        node.kill()
        announcer.state("orders", "stopped")
        assert heard.wait(60)
        node.start()
        until_state(node, "stopped")


def until_state(node: Cluster, state: str) -> None:
    deadline = time.monotonic() + 60
    with Client(node.bootstrap) as client:
        while "status" not in [each.name for each in client.admin.list_topics()] or (
            state not in [each.state for each in reports(client, "status")]
        ):
            assert time.monotonic() < deadline, state


def test_positions_come_from_what_spark_reports() -> None:
    source = {"endOffset": '{"a": {"0": 5}}', "latestOffset": {"a": {"0": 9, "1": 3}, "@ids": {"a": "i"}}}
    assert positions_of({"sources": [source, {"endOffset": None}]}) == [
        SourcePosition("a", 0, 5, 9),
        SourcePosition("a", 1, 0, 3),
    ]


def test_a_spec_may_name_the_topic_or_switch_it_off(tmp_path: Path) -> None:
    assert pipeline(tmp_path, "h:1").status_topic == "kavka-pipelines"
    assert pipeline(tmp_path, "h:1", status_topic="ours").status_topic == "ours"
    assert pipeline(tmp_path, "h:1", status_topic=False).status_topic is None
    for wrong in (7, "", True):
        with pytest.raises(SpecError, match="status_topic"):
            pipeline(tmp_path, "h:1", status_topic=wrong)
