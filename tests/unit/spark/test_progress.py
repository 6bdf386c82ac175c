"""What is told of batches and of failures."""

from __future__ import annotations

from kavka.spark.pipelines.progress import lag_between, one_line, read_progress


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
