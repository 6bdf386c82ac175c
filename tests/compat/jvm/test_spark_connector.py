"""Spark's own Kafka connector, unmodified, against a Kavka node: batch and stream, reading and writing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client.blocking import Client
from kavka.testing import Cluster

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from spark_jars.fetch import FetchError, jars

    from kavka.spark.session import start

    try:
        found = jars()
    except FetchError as reason:
        pytest.skip(f"the jars of Spark's Kafka connector: {reason}")
    session = start("connector", conf={"spark.jars": ",".join(map(str, found))})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster() as cluster:
        with Client(cluster.bootstrap) as client:
            client.admin.create_topic("orders", partitions=3)
            with client.producer(codec="zstd") as producer:
                for number in range(1000):
                    producer.send("orders", b"%d" % number, key=b"key-%d" % number, headers=[("n", b"%d" % number)])
        yield cluster


def reader(spark: Any, node: Cluster, source: str = "kafka", topic: str = "orders") -> Any:
    return (
        spark.read.format(source)
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
    )


@pytest.mark.filterwarnings("ignore")
def test_the_connector_reads_what_our_source_reads(spark: Any, node: Cluster) -> None:
    columns = ["partition", "offset", "key", "value", "topic", "timestamp", "timestampType", "headers"]
    theirs = reader(spark, node).select(columns).orderBy("partition", "offset").collect()
    ours = reader(spark, node, "kavka").select(columns).orderBy("partition", "offset").collect()
    assert len(theirs) == 1000
    assert ours == theirs


@pytest.mark.filterwarnings("ignore")
def test_the_connector_writes_and_streams(spark: Any, node: Cluster, tmp_path: Path) -> None:
    with Client(node.bootstrap) as client:
        client.admin.create_topic("copy", partitions=2)
    reader(spark, node).select("key", "value").write.format("kafka").option(
        "kafka.bootstrap.servers", node.bootstrap
    ).option("topic", "copy").save()
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("subscribe", "copy")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "400")
        .load()
        .select("key", "value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("topic", "copy-of-copy")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]
    assert (len(batches), sum(batches)) == (3, 1000)
    assert max(batches) <= 400
    rows = reader(spark, node, topic="copy-of-copy").selectExpr("cast(cast(value as string) as int) as n").collect()
    assert sorted(row.n for row in rows) == list(range(1000))
