"""Changes of a database, and a compacted topic, become tables with one row for each key."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from kavka.client.blocking import Client
from kavka.spark.lake.iceberg import Iceberg
from kavka.spark.lake.table import TableSpec
from kavka.spark.pipelines.flows import start_query
from kavka.spark.pipelines.spec import Pipeline, load
from kavka.testing import Cluster

SPEC = """
bootstrap: {bootstrap}
flows:
  - name: customers
    source:
      topic: {topic}
      format: json
      schema: "id BIGINT NOT NULL, name STRING"
      envelope: debezium
      max_per_trigger: 3
    sink: {{table: {{format: {form}, path: table, upsert: {{key: [id]}}}}}}
"""
KEYED = """
bootstrap: {bootstrap}
flows:
  - name: prices
    source: {{topic: {topic}, format: json, schema: "price DOUBLE"}}
    transform: functions:named
    sink: {{table: {{path: table, upsert: {{key: [sku]}}}}}}
"""


def run(spark: Any, pipeline: Pipeline) -> None:
    start_query(spark, pipeline, pipeline.flow(None), once=True).awaitTermination()


def content(spec: TableSpec | None, *names: str) -> list[tuple[Any, ...]]:
    assert spec is not None
    if spec.format == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(spec.path).to_pyarrow_table()
    else:
        opened = Iceberg(spec)._open()
        assert opened is not None
        found = opened.scan().to_arrow()
    return sorted(tuple(row[name] for name in names) for row in found.to_pylist())


def change(op: str, before: Any, after: Any, *, wrapped: bool = False) -> bytes:
    told = {"before": before, "after": after, "op": op, "ts_ms": 1_700_000_000_000, "source": {"table": "customers"}}
    return json.dumps({"schema": {"type": "struct"}, "payload": told} if wrapped else told).encode()


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_debeziums_changes_become_the_table_that_they_tell_of(
    form: str, client: Client, topic: Callable[..., str], spark: Any, node: Cluster, tmp_path: Path
) -> None:
    name = topic(partitions=1)
    (tmp_path / "pipeline.yaml").write_text(SPEC.format(bootstrap=node.bootstrap, topic=name, form=form))
    pipeline = load(tmp_path)
    with client.producer() as producer:
        for value in (
            change("r", None, {"id": 1, "name": "one"}),
            change("c", None, {"id": 2, "name": "two"}),
            change("u", {"id": 1}, {"id": 1, "name": "uno"}, wrapped=True),
            change("c", None, {"id": 3, "name": "three"}),
            change("d", {"id": 2}, None),
            None,
            change("d", {"id": 3}, None),
            change("c", None, {"id": 3, "name": "again"}),
        ):
            producer.send(name, value, key=b"k")
    run(spark, pipeline)
    spec = pipeline.flows[0].sink.table
    assert content(spec, "id", "name", "_op") == [(1, "uno", "u"), (3, "again", "c")]
    run(spark, pipeline)
    assert len(content(spec, "id")) == 2


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_every_version_is_kept_where_history_is_asked_for(
    form: str, client: Client, topic: Callable[..., str], spark: Any, node: Cluster, tmp_path: Path
) -> None:
    name = topic(partitions=1)
    text = SPEC.format(bootstrap=node.bootstrap, topic=name, form=form).replace("key: [id]", "key: [id], history: true")
    (tmp_path / "pipeline.yaml").write_text(text)
    pipeline = load(tmp_path)
    with client.producer() as producer:
        for value in (
            change("c", None, {"id": 1, "name": "one"}),
            change("c", None, {"id": 2, "name": "two"}),
            change("u", {"id": 1}, {"id": 1, "name": "uno"}),
            change("u", {"id": 1}, {"id": 1, "name": "eins"}),
            change("d", {"id": 2}, None),
            change("c", None, {"id": 2, "name": "again"}),
        ):
            producer.send(name, value, key=b"k")
    run(spark, pipeline)
    spec = pipeline.flows[0].sink.table
    assert content(spec, "id", "_valid_from", "_valid_to", "_current", "name") == [
        (1, 0, 2, False, "one"),
        (1, 2, 3, False, "uno"),
        (1, 3, None, True, "eins"),
        (2, 1, 4, False, "two"),
        (2, 5, None, True, "again"),
    ]


def test_a_tombstone_deletes_the_row_of_its_key(
    client: Client, topic: Callable[..., str], spark: Any, node: Cluster, tmp_path: Path
) -> None:
    name = topic(partitions=2)
    (tmp_path / "pipeline.yaml").write_text(KEYED.format(bootstrap=node.bootstrap, topic=name))
    (tmp_path / "functions.py").write_text(
        "def named(frame):\n    return frame.selectExpr('string(_key) AS sku', 'price', '_offset', '_deleted')\n"
    )
    pipeline = load(tmp_path)

    def put(**prices: float | None) -> None:
        with client.producer() as producer:
            for key, price in prices.items():
                producer.send(name, None if price is None else json.dumps({"price": price}).encode(), key=key.encode())

    put(a=1.0, b=2.0, c=3.0)
    put(a=1.5, b=None)
    run(spark, pipeline)
    put(c=None, d=4.0)
    run(spark, pipeline)
    assert content(pipeline.flows[0].sink.table, "sku", "price") == [("a", 1.5), ("d", 4.0)]


def test_a_deletion_without_a_place_in_the_order_stops_the_flow(
    client: Client, topic: Callable[..., str], spark: Any, node: Cluster, tmp_path: Path
) -> None:
    name = topic(partitions=1)
    spec = KEYED.format(bootstrap=node.bootstrap, topic=name).replace("key: [sku]", "key: [sku], order_by: price")
    (tmp_path / "pipeline.yaml").write_text(spec)
    (tmp_path / "functions.py").write_text(
        "def named(frame):\n    return frame.selectExpr('string(_key) AS sku', 'price', '_offset', '_deleted')\n"
    )
    with client.producer() as producer:
        producer.send(name, b'{"price": 1}', key=b"a")
        producer.send(name, None, key=b"b")
    with pytest.raises(StreamingQueryException, match="price is null in a row that deletes"):
        run(spark, load(tmp_path))


def test_a_topic_that_was_created_anew_does_not_go_into_a_table_that_is_merged_by_offsets(
    client: Client, topic: Callable[..., str], spark: Any, node: Cluster, tmp_path: Path
) -> None:
    name = topic(partitions=1)
    spec = SPEC.format(bootstrap=node.bootstrap, topic=name, form="delta")
    (tmp_path / "pipeline.yaml").write_text(spec)
    pipeline = load(tmp_path)
    value = change("c", None, {"id": 1, "name": "one"})
    with client.producer() as producer:
        for _ in range(3):
            producer.send(name, value)
    run(spark, pipeline)
    client.admin.delete_topic(name)
    client.admin.create_topic(name, partitions=1)
    with client.producer() as producer:
        producer.send(name, change("u", None, {"id": 1, "name": "uno"}))
    shutil.rmtree(pipeline.checkpoint_of(pipeline.flows[0]))  # "to begin anew, use a new checkpoint location"
    with pytest.raises(StreamingQueryException, match="was deleted and created anew, and the offsets"):
        run(spark, pipeline)
    assert content(pipeline.flows[0].sink.table, "name") == [("one",)]


def test_a_change_without_a_row_stops_the_flow(
    client: Client, topic: Callable[..., str], spark: Any, node: Cluster, tmp_path: Path
) -> None:
    for number, (value, op) in enumerate(
        ((b'{"id": 1, "name": "flat"}', "null"), (change("d", None, None), "d"), (change("t", None, None), "t"))
    ):
        name = topic(partitions=1)
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "pipeline.yaml").write_text(SPEC.format(bootstrap=node.bootstrap, topic=name, form="delta"))
        with client.producer() as producer:
            producer.send(name, change("m", None, None))
            producer.send(name, value)
        with pytest.raises(StreamingQueryException, match=f"{name}-0 at offset 1 is a change .* op is {op}"):
            run(spark, load(folder))
