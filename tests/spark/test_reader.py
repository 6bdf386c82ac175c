"""What the driver plans for a stream, asked as Spark asks it, on a real node and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.spark.conftest import fill

from kavka.client.blocking import Client
from kavka.model.types import TopicPartition
from kavka.spark.offsets import DataLossError
from kavka.spark.options import source_options
from kavka.spark.pipelines.jobs import create_targets, topic_configs
from kavka.spark.pipelines.spec import SpecError
from kavka.spark.source import BatchReader, StreamReader, TaskRanges
from kavka.testing import Cluster

Open = Callable[..., StreamReader]


@pytest.fixture
def opened(node: Cluster) -> Iterator[Open]:
    readers: list[StreamReader] = []

    def reader(topic: str, start: str = "earliest", **options: str) -> StreamReader:
        given = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": topic, "startingOffsets": start, **options}
        readers.append(StreamReader(source_options(given, streaming=True)))
        return readers[-1]

    yield reader
    for each in readers:
        each.stop()


def next_end(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def planned(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int, int]]:
    parts = [each for each in reader.partitions(start, end) if isinstance(each, TaskRanges)]
    return [(each.topic_partition.partition, each.start, each.end) for part in parts for each in part.ranges]


def test_a_first_batch_that_is_tried_again_begins_where_it_began(
    client: Client, topic: Callable[..., str], opened: Open
) -> None:
    name = topic(partitions=1)
    fill(client, name, 3, partitions=1)
    reader = opened(name, "latest")
    start = reader.initialOffset()
    fill(client, name, 2, partitions=1)
    end = next_end(reader, start)
    assert planned(reader, start, end) == [(0, 3, 5)]
    fill(client, name, 4, partitions=1)
    again = opened(name, "latest")
    assert planned(again, again.initialOffset(), end) == [(0, 3, 5)]
    following = next_end(again, end)
    assert planned(again, end, following) == [(0, 5, 9)]
    assert next_end(again, following) == following, "nothing new is no batch"


def test_a_new_partition_is_planned_from_its_first_record_also_when_that_is_gone_since(
    client: Client, topic: Callable[..., str], opened: Open
) -> None:
    name = topic(partitions=1)
    reader = opened(name)
    start = reader.initialOffset()
    first = next_end(reader, start)
    assert planned(reader, start, first) == []
    client.admin.create_partitions(name, 2)
    fill(client, name, 8, partitions=2)
    second = next_end(reader, first)
    assert planned(reader, first, second) == [(0, 0, 4), (1, 0, 4)]
    client.admin.delete_records({TopicPartition(name, 1): 3})
    assert planned(opened(name), first, second) == [(0, 0, 4), (1, 0, 4)], "so that the loss is noticed"


def test_what_comes_between_fixing_the_end_and_the_beginning_is_not_taken_for_loss(
    client: Client, topic: Callable[..., str], opened: Open
) -> None:
    name = topic(partitions=1)
    fill(client, name, 3, partitions=1)
    reader = opened(name, "latest")
    reader.prepareForTriggerAvailableNow()
    fill(client, name, 2, partitions=1)
    start = reader.initialOffset()
    end = next_end(reader, start)
    assert planned(reader, start, end) == []
    assert planned(reader, end, next_end(opened(name), end)) == []


@pytest.mark.parametrize("once", [True, False])
def test_a_checkpoint_beyond_the_end_of_a_topic_is_loss(
    client: Client, topic: Callable[..., str], opened: Open, once: bool
) -> None:
    name = topic(partitions=1)
    fill(client, name, 3, partitions=1)
    reader = opened(name)
    if once:
        reader.prepareForTriggerAvailableNow()
    with pytest.raises(DataLossError, match="ends at offset 3, the query is at 7"):
        next_end(reader, {name: {"0": 7}})


def test_a_dead_letter_is_the_record_with_its_own_headers(
    client: Client, topic: Callable[..., str], node: Cluster
) -> None:
    name, dead = topic(partitions=1), topic(partitions=1)
    with client.producer() as producer:
        for value, headers in (
            (b"bad", [("trace", b"7"), ("empty", None)]),
            (b"{}", [("trace", b"8")]),
            (b"worse", []),
        ):
            producer.send(name, value, key=b"k", timestamp=1_700_000_000_000, headers=headers)
    given = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": name, "deadLetterTopic": dead, "columns": "value"}
    options = source_options({**given, "value.format": "json", "value.schema": "id INT"}, streaming=False)
    reader = BatchReader(options)
    batches = [batch for each in reader.partitions() for batch in reader.read(each)]
    assert [batch.num_rows for batch in batches] == [1]
    with client.consumer(dead) as consumer:
        letters = list(consumer.until_end())
    assert [(each.key, each.value, each.timestamp) for each in letters] == [
        (b"k", b"bad", 1_700_000_000_000),
        (b"k", b"worse", 1_700_000_000_000),
    ]
    assert list(letters[0].headers[:2]) == [("trace", b"7"), ("empty", None)]
    assert [key for key, _ in letters[0].headers[2:]] == [
        "kavka.error",
        "kavka.topic",
        "kavka.partition",
        "kavka.offset",
    ]
    assert len(letters[1].headers) == 4


def test_a_mirror_of_a_topic_onto_itself_is_refused(client: Client, topic: Callable[..., str], node: Cluster) -> None:
    made = (topic(partitions=1, cleanup_policy="compact", segment_bytes="2000000"), topic(partitions=1))
    first, second = sorted(made)  # as the message names them
    port = node.bootstrap.rpartition(":")[2]
    options = source_options(
        {"kafka.bootstrap.servers": node.bootstrap, "subscribe": f"{first},{second}"}, streaming=True
    )
    for target in (node.bootstrap, f"localhost:{port}"):
        with pytest.raises(SpecError, match=f"{first}, {second} would be copied onto itself"):
            create_targets(options, target, {})
        with pytest.raises(SpecError, match="would be copied onto itself"):
            create_targets(options, target, {first: second, second: first})
    create_targets(options, node.bootstrap, {first: f"{first}-copy", second: f"{second}-copy"})
    assert {f"{first}-copy", f"{second}-copy"} <= {each.name for each in client.admin.list_topics()}
    copied = topic_configs(node.bootstrap, {f"{each}-copy": each for each in made})
    assert copied == {made[0]: {"cleanup.policy": "compact", "segment.bytes": "2000000"}, made[1]: {}}
