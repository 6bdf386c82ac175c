"""Streaming reads of a real node: admission, restarts, new partitions, and data that disappears."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.conftest import fill

from kavka.client.blocking import Client
from kavka.model.types import TopicPartition
from kavka.testing import Cluster

Topic = Callable[..., str]


class Run:
    """Runs a query over what is there, as often as it is called, always with one checkpoint; keeps what it saw."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.batches: list[list[int]] = []
        self.progress: list[Any] = []

    def __call__(self, frame: Any, before_reading: Callable[[], None] = lambda: None) -> list[int]:
        seen: list[list[int]] = []

        def keep(batch: Any, _: int) -> None:
            before_reading()  # the batch is planned, and no task has begun
            seen.append(sorted(int(row.value) for row in batch.select("value").collect()))

        query = (
            frame.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        self.progress = [json.loads(each.json) for each in query.recentProgress]
        self.batches = seen
        return sorted(number for batch in seen for number in batch)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_query_reads_in_batches_of_the_size_it_is_allowed_and_reports_its_lag(
    client: Client, topic: Topic, stream: Callable[..., Any], run: Run
) -> None:
    from kavka.spark.pipelines.progress import read_progress

    name = topic()
    fill(client, name, 50)
    assert run(stream(name, maxOffsetsPerTrigger=20)) == list(range(50))
    assert [len(batch) for batch in run.batches] == [20, 20, 10]
    assert [read_progress(each).lag for each in run.progress if each["numInputRows"]] == [30, 10, 0]


def test_a_restarted_query_goes_on_where_its_checkpoint_ends_and_finds_new_partitions(
    client: Client, topic: Topic, stream: Callable[..., Any], run: Run
) -> None:
    name = topic()
    fill(client, name, 10)
    assert run(stream(name)) == list(range(10))
    client.admin.create_partitions(name, 3)
    fill(client, name, 6, start=100, partitions=3)
    assert run(stream(name)) == list(range(100, 106))
    assert run(stream(name)) == []


def test_a_query_that_begins_at_the_end_misses_nothing_that_comes_while_it_is_down(
    client: Client, topic: Topic, stream: Callable[..., Any], run: Run
) -> None:
    name = topic(partitions=1)
    fill(client, name, 3, partitions=1)
    assert run(stream(name, startingOffsets="latest")) == []
    fill(client, name, 4, start=3, partitions=1)

    def fail() -> None:
        raise RuntimeError("on purpose")

    with pytest.raises(Exception, match="on purpose"):
        run(stream(name, startingOffsets="latest"), fail)
    fill(client, name, 2, start=7, partitions=1)
    assert run(stream(name, startingOffsets="latest")) == [3, 4, 5, 6, 7, 8]
    assert run(stream(name, startingOffsets="latest")) == []
    assert run.batches == []


def test_deleted_data_fails_the_query_or_is_left_out(
    client: Client, topic: Topic, stream: Callable[..., Any], run: Run
) -> None:
    name = topic(partitions=1)
    fill(client, name, 10, partitions=1)
    assert run(stream(name)) == list(range(10))
    fill(client, name, 10, start=10, partitions=1)
    client.admin.delete_records({TopicPartition(name, 0): 15})
    with pytest.raises(Exception, match="begins at offset 15, the query is at 10") as raised:
        run(stream(name))
    assert 'option("failOnDataLoss", "false")' in str(raised.value)
    assert run(stream(name, failOnDataLoss=False)) == [15, 16, 17, 18, 19]


def test_data_that_is_deleted_under_a_running_query_fails_it_or_is_left_out(
    client: Client, topic: Topic, stream: Callable[..., Any], run: Run
) -> None:
    name = topic(partitions=1)
    fill(client, name, 10, partitions=1)
    message = f"{name}-0 at offset 0: .*; the query was to read up to offset 9. Some data may have been lost"
    with pytest.raises(Exception, match=message):
        run(stream(name), lambda: client.admin.delete_records({TopicPartition(name, 0): 4}) and None)
    with pytest.raises(Exception, match=message):
        run(stream(name))  # the batch is in the checkpoint, and is tried again as it was
    assert run(stream(name, failOnDataLoss=False)) == [4, 5, 6, 7, 8, 9]


def test_a_topic_that_is_created_anew_under_a_running_query_is_not_taken_for_the_old_one(
    client: Client, topic: Topic, stream: Callable[..., Any], run: Run
) -> None:
    name = topic(partitions=1)
    fill(client, name, 5, partitions=1)

    def anew() -> None:
        client.admin.delete_topic(name)
        client.admin.create_topic(name, partitions=1)
        fill(client, name, 8, start=50, partitions=1)

    with pytest.raises(Exception, match="was deleted and created anew"):
        run(stream(name), anew)


def test_a_checkpoint_of_another_topic_is_refused(
    client: Client, topic: Topic, stream: Callable[..., Any], run: Run
) -> None:
    first, second = topic(partitions=1), topic(partitions=1)
    for name in (first, second):
        fill(client, name, 3, partitions=1)
    assert run(stream(first)) == [0, 1, 2]
    with pytest.raises(
        Exception, match=f"{first}-0 of the checkpoint does not exist any more, or is not read"
    ) as raised:
        run(stream(second))
    assert "use a new checkpoint location" in str(raised.value)


def test_a_topic_that_was_created_anew_is_noticed(
    client: Client, topic: Topic, stream: Callable[..., Any], run: Run
) -> None:
    name = topic(partitions=1)
    fill(client, name, 5, partitions=1)
    assert run(stream(name)) == list(range(5))
    client.admin.delete_topic(name)
    client.admin.create_topic(name, partitions=1)
    fill(client, name, 8, start=50, partitions=1)
    with pytest.raises(Exception, match="was deleted and created anew"):
        run(stream(name))
    assert run(stream(name, failOnDataLoss=False)) == list(range(50, 58))


def test_a_node_that_goes_fails_the_query_clearly_and_the_next_run_goes_on(
    topic: Topic, spark: Any, run: Run, tmp_path: Path
) -> None:
    with Cluster(data_dir=tmp_path / "node") as node:
        with Client(node.bootstrap) as client:
            client.admin.create_topic("t", partitions=1)
            fill(client, "t", 5, partitions=1)

        def stream(patience: int = 1000) -> Any:
            reader = spark.readStream.format("kavka").option("kafka.bootstrap.servers", node.bootstrap)
            return reader.options(subscribe="t", startingOffsets="earliest", timeoutMs=str(patience)).load()

        def kill_for_a_moment() -> None:
            node.kill()
            threading.Timer(1, node.start).start()

        with pytest.raises(Exception, match=r"cannot connect to .* start the query again") as in_a_task:
            run(stream(), node.kill)
        assert "NetworkException" in str(in_a_task.value)
        with pytest.raises(Exception, match=r"cannot connect to .* start the query again"):
            run(stream())
        node.start()
        assert run(stream(60_000), kill_for_a_moment) == list(range(5))
        with Client(node.bootstrap) as client:
            fill(client, "t", 5, start=5, partitions=1)
        assert run(stream()) == list(range(5, 10))
