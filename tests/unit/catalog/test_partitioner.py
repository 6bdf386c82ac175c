"""The choice of metadata partition. The vectors were printed by Kafka's RemoteLogMetadataTopicPartitioner."""

from __future__ import annotations

import pytest

from kavka.catalog.partitioner import metadata_partition
from kavka.model.types import Uuid


@pytest.mark.parametrize(
    ("topic_id", "count", "expected"),
    [
        ("LWgrMmVrT0a__7a4SasuPA", 50, [1, 18, 30, 2, 37, 24]),
        ("bCqX9U--S-6U8XUM9II25Q", 3, [1, 1, 1, 2, 0, 1]),
    ],
)
def test_partitions_are_remembered_where_kafka_remembers_them(topic_id: str, count: int, expected: list[int]) -> None:
    assert [metadata_partition(Uuid.parse(topic_id), partition, count) for partition in range(6)] == expected
