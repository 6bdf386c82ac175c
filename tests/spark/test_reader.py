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
from kavka.spark.source import RangePartition, StreamReader
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
    parts = [each for each in reader.partitions(start, end) if isinstance(each, RangePartition)]
    return [(each.range.topic_partition.partition, each.range.start, each.range.end) for each in parts]


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
