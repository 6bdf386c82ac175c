"""What is told of batches and of failures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kavka.model.types import TopicPartition
from kavka.spark.brokers import OffsetBounds
from kavka.spark.pipelines.jobs import behind, status
from kavka.spark.pipelines.progress import lag_between, one_line, read_progress
from kavka.spark.pipelines.running import AlreadyRunningError, running
from kavka.spark.pipelines.spec import Pipeline, load


def test_a_batch_becomes_one_line() -> None:
    document = {
        "id": "x",
        "name": "orders",
        "batchId": 7,
        "numInputRows": 1200,
        "processedRowsPerSecond": 600.4,
        "durationMs": {"triggerExecution": 2000},
        "sources": [{"endOffset": {"a": {"0": 5}}, "latestOffset": {"a": {"0": 9, "1": 3}, "@ids": {"a": "i"}}}],
        "stateOperators": [{"numRowsTotal": 12}],
        "observedMetrics": {"dead_letters": {"dead_letters": 3}},
    }
    progress = read_progress(document)
    assert progress.line() == "orders batch 7: 1,200 rows in 2.0 s, 3 dead letters, 600 rows/s, lag 7, state 12 rows"


def test_the_lag_is_unknown_where_a_source_does_not_say() -> None:
    assert lag_between(None, '{"a": {"0": 1}}') is None
    assert lag_between('{"a": {"0": 3}}', '{"a": {"0": 1}}') == 0


def test_a_topic_that_was_created_anew_is_all_lag() -> None:
    assert lag_between('{"a": {"0": 9}, "@ids": {"a": "old"}}', '{"a": {"0": 4}, "@ids": {"a": "new"}}') == 4
    bounds = OffsetBounds({TopicPartition("a", 0): 1}, {TopicPartition("a", 0): 4}, {"a": "new"})
    assert behind({"a": {"0": 4}, "@ids": {"a": "new"}}, bounds) == 0
    assert behind({"a": {"0": 4}, "@ids": {"a": "old"}}, bounds) == 3
    assert behind({"a": {"0": 9}}, bounds) == 3, "an offset that the topic does not have is one of another topic"


def project(folder: Path, state: str) -> Pipeline:
    (folder / "pipeline.yaml").write_text("flows: [{name: f, source: {topic: t}, sink: {topic: u}}]")
    (folder / ".kavka").mkdir()
    (folder / ".kavka" / "status.json").write_text(json.dumps({"f": {"state": state, "batch": 3}}))
    return load(folder)


def test_a_pipeline_runs_as_long_as_its_process_does(tmp_path: Path) -> None:
    pipeline = project(tmp_path, "running")
    program = f"""
import pathlib, sys
from kavka.spark.pipelines.running import running
with running(pathlib.Path({str(tmp_path)!r})):
    print("here", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        assert status(pipeline)[0]["state"] == "running"
        with pytest.raises(AlreadyRunningError, match="runs already"), running(tmp_path):
            pass
        process.kill()
    assert status(pipeline)[0]["state"] == "died"
    with running(tmp_path):
        assert status(pipeline)[0]["state"] == "running"


def test_a_pipeline_that_was_stopped_has_not_died(tmp_path: Path) -> None:
    assert status(project(tmp_path, "stopped"))[0] == {"flow": "f", "state": "stopped", "batch": 3, "lag": None}


def test_a_failure_is_the_line_that_our_code_raised() -> None:
    text = """Job aborted
  File "x.py", line 3
kavka.spark.offsets.DataLossError: t-0 begins at offset 15. More words.
 SQLSTATE: 38000
	at org.apache.spark.Something: no"""
    assert one_line(RuntimeError(text)) == "t-0 begins at offset 15. More words."
    assert one_line(RuntimeError("ValueError: x is y")) == "ValueError: x is y"
    assert one_line(RuntimeError("plain words")) == "plain words"


def test_what_spark_says_of_a_failed_stream_is_left_out() -> None:
    said = "[STREAM_FAILED] Query [id = 6b, runId = 0e] terminated with exception: {} SQLSTATE: XXKST\n"
    details = "=== Streaming Query ===\nIdentifier: revenue [id = 6b, runId = 0e]\nCurrent State: ACTIVE"
    assert one_line(RuntimeError(said.format("it went wrong.") + details)) == "it went wrong."
    busy = one_line(RuntimeError(said.format("Python worker failed to connect back.") + details))
    assert busy.startswith("Python worker failed to connect back: the machine was too busy")
