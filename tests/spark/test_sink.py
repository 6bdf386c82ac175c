"""Writing topics from Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kavka.client.blocking import Client
from kavka.client.partitioner import partition_for_key
from kavka.testing import Cluster


def write(frame: Any, node: Cluster, **options: str) -> None:
    frame.write.format("kavka").option("kafka.bootstrap.servers", node.bootstrap).options(**options).mode(
        "append"
    ).save()


def test_rows_arrive_with_key_value_headers_and_the_partition_of_their_key(
    spark: Any, node: Cluster, client: Client, topic: Callable[..., str]
) -> None:
    name = topic(partitions=3)
    frame = spark.range(100).selectExpr(
        "concat('k', id) as key",
        "cast(id as string) as value",
        "array(named_struct('key', 'h', 'value', cast('x' as binary))) as headers",
    )
    write(frame, node, topic=name, **{"kafka.compression.type": "lz4"})
    with client.consumer(name) as consumer:
        records = list(consumer.until_end())
    assert sorted(int(record.value or b"") for record in records) == list(range(100))
    for record in records:
        assert record.key == b"k" + (record.value or b"")
        assert record.partition == partition_for_key(record.key, 3)
        assert record.headers == (("h", b"x"),)


def test_a_column_names_topic_and_partition_and_may_give_the_time(
    spark: Any, node: Cluster, client: Client, topic: Callable[..., str]
) -> None:
    first, second = topic(), topic()
    frame = spark.range(10).selectExpr(
        f"if(id < 4, '{first}', '{second}') as topic",
        "cast(1 as int) as partition",
        "cast(id as string) as value",
        "timestamp_millis(1700000000000 + id) as timestamp",
    )
    write(frame, node, useTimestampColumn="true")
    for name, expected in ((first, range(4)), (second, range(4, 10))):
        with client.consumer(name) as consumer:
            records = sorted(consumer.until_end(), key=lambda record: record.timestamp)
        assert [(record.partition, int(record.value or b"")) for record in records] == [(1, n) for n in expected]
        assert [record.timestamp for record in records] == [1_700_000_000_000 + n for n in expected]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["cast(id as string) as text"], "needs a column value"),
        (["id as value"], "column value must be string or binary, not bigint"),
        (["cast(id as string) as value"], "say where to write"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(
    spark: Any, node: Cluster, columns: list[str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        write(spark.range(1).selectExpr(*columns), node)


def test_a_stream_is_written_and_its_checkpoint_remembers_it(
    spark: Any, node: Cluster, client: Client, topic: Callable[..., str], stream: Callable[..., Any], tmp_path: Path
) -> None:
    from tests.spark.conftest import fill

    source, target = topic(), topic()
    for round_ in range(2):
        fill(client, source, 30, start=30 * round_)
        query = (
            stream(source)
            .select("key", "value")
            .writeStream.format("kavka")
            .option("kafka.bootstrap.servers", node.bootstrap)
            .option("topic", target)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    with client.consumer(target) as consumer:
        assert sorted(int(record.value or b"") for record in consumer.until_end()) == list(range(60))
