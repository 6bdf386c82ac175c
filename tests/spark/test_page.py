"""The programs and specs in docs/spark.md that are parts of something: run in a session, with what they leave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.pages import Block, blocks
from kavka.client.blocking import Client
from kavka.client.registry import Schema
from kavka.client.registry.blocking import SchemaRegistry
from kavka.spark.pipelines.spec import parse
from kavka.testing import Cluster

BLOCKS = [block for block in blocks("docs/spark.md") if not block.runs]
SCHEMA = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


def code(block: Block, node: Cluster, folder: Path) -> str:
    """A program, with the places that are this test's."""
    places = {
        "127.0.0.1:9092": node.bootstrap,
        "http://127.0.0.1:8081": node.registry,
        "/data/checkpoints": str(folder),
        "s3://bucket/prefix": f"file://{folder}",
    }
    text = block.text
    for said, place in places.items():
        text = text.replace(said, place)
    return text


def test_the_programs_of_the_page(spark: Any, node: Cluster, client: Client, tmp_path: Path) -> None:
    programs = [block for block in BLOCKS if block.language == "python"]
    for topic in ("orders", "enriched", "__remote_log_metadata"):
        client.admin.create_topic(topic, partitions=1)
    with SchemaRegistry(node.registry) as registry:
        number = registry.register("orders-value", Schema(SCHEMA)).id
    framed = b"\x00" + number.to_bytes(4, "big") + b"\x0e"  # 7, as Avro has it
    names: dict[str, Any] = {"spark": spark}
    for block in programs:
        exec(code(block, node, tmp_path), names)
        if "stream" in names:
            names.setdefault("frame", names["stream"].select("value"))
        if "query" in names and "orders" not in names:
            names["query"].processAllAvailable()  # it begins at the end as it is now
            with client.producer() as producer:
                producer.send("orders", framed).result()
            names["query"].processAllAvailable()
            names["query"].stop()
    with client.consumer("enriched", isolation="read_committed") as consumer:
        assert [record.value for record in consumer.until_end()] == [framed]
    assert names["orders"].schema["value"].dataType.simpleString() == "struct<id:bigint>"
    assert [bytes(row.value) for row in names["history"].collect()] == [framed]
    prices = spark.sql("SELECT binary('a') AS _key, 1.5 AS price, 7L AS _offset, false AS _deleted, 0 AS _partition")
    assert names["named"](prices).columns == ["sku", "price", "_offset", "_deleted"]


def test_the_specs_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    whole, *parts = (yaml.safe_load(block.text) for block in BLOCKS if block.language == "yaml")
    assert parse(whole, tmp_path).flows[0].name == "orders"
    upserts = 0
    for part in parts:
        of_flow = part.keys() <= {"source", "sink"}
        spec = {**whole, "flows": [{**whole["flows"][0], **part}]} if of_flow else {**whole, **part}
        (flow,) = parse(spec, tmp_path).flows
        upserts += flow.sink.table is not None and flow.sink.table.upsert is not None
    assert upserts == 1
