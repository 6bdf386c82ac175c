"""Batch reads of a real node by `spark.read.format("kavka")`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.spark.conftest import fill

from kavka.client.blocking import Client
from kavka.spark.session import start
from kavka.testing import Cluster

Topic = Callable[..., str]
Read = Callable[..., Any]
TIME = 1_700_000_000_000


def numbers(frame: Any) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def failure(frame: Any) -> str:
    with pytest.raises(Exception) as raised:
        frame.collect()
    return str(raised.value)


def test_the_schema_and_the_rows_are_those_of_sparks_kafka_source(client: Client, topic: Topic, read: Read) -> None:
    name = topic()
    fill(client, name, 20, codec="zstd")
    frame = read(name, includeHeaders=True)
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows = frame.orderBy("partition", "offset").collect()
    assert len(rows) == 20
    row = rows[11]
    assert (bytes(row.key), bytes(row.value), row.topic, row.partition, row.offset) == (b"key-3", b"3", name, 1, 1)
    assert (row.timestamp.timestamp(), row.timestampType) == ((TIME + 3) / 1000, 0)
    assert [(each.key, each.value) for each in row.headers] == [("number", b"3"), ("none", None)]
    assert rows[0].headers is None


def test_only_the_columns_asked_for_are_read(client: Client, topic: Topic, read: Read) -> None:
    name = topic()
    fill(client, name, 10)
    frame = read(name, columns="offset,value")
    assert frame.columns == ["offset", "value"]
    assert numbers(frame) == list(range(10))
    assert frame.count() == 10


def test_a_read_begins_and_ends_where_it_is_told_to(client: Client, topic: Topic, read: Read) -> None:
    name = topic()
    fill(client, name, 20)
    start, end = json.dumps({name: {"0": 2, "1": -2}}), json.dumps({name: {"0": 4, "1": -1}})
    assert numbers(read(name, startingOffsets=start, endingOffsets=end)) == [1, 3, 4, 5, 6, 7, 9, 11, 13, 15, 17, 19]
    assert numbers(read(name, startingTimestamp=TIME + 15)) == [15, 16, 17, 18, 19]
    assert numbers(read(name, endingTimestamp=TIME + 3)) == [0, 1, 2]
    by_partition = json.dumps({name: {"0": TIME + 18, "1": TIME + 90}})
    assert numbers(
        read(name, startingOffsetsByTimestamp=by_partition, startingOffsetsByTimestampStrategy="latest")
    ) == [18]


def test_topics_are_chosen_by_name_pattern_or_partition(client: Client, topic: Topic, read: Read) -> None:
    first, second = topic(), topic()
    fill(client, first, 4)
    fill(client, second, 4, start=10)
    assert numbers(read(f"{first},{second}")) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert numbers(read("", subscribePattern=f"{first}|{second}|nothing.*")) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert numbers(read("", assign=json.dumps({second: [1]}))) == [11, 13]


def test_ranges_are_split_for_more_tasks(client: Client, topic: Topic, read: Read) -> None:
    name = topic()
    fill(client, name, 40)
    frame = read(name, minPartitions=5)
    assert frame.rdd.getNumPartitions() == 5
    assert numbers(frame) == list(range(40))
    assert read(name, maxRecordsPerPartition=7).rdd.getNumPartitions() == 6


def test_filters_on_a_dataframe_that_is_used_twice_do_not_touch_each_other(
    client: Client, topic: Topic, read: Read
) -> None:
    name = topic()
    fill(client, name, 40)
    frame = read(name)
    assert frame.where("offset < 5").count() == 10
    assert frame.count() == 40
    few, many = frame.where("partition = 1 and offset >= 15"), frame.where("partition = 0")
    assert numbers(few) == [31, 33, 35, 37, 39]
    assert few.union(many).count() == 5 + 20
    assert frame.where("topic = 'another'").count() == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": '{"TOPIC": {"0": 99, "1": 0}}'}, "has offsets 0 to 2, not 99"),
        ({"startingOffsets": '{"TOPIC": {"0": 1}}'}, "says nothing of TOPIC-1"),
        ({"startingOffsets": "latest"}, "cannot be latest in a batch read"),
        ({"startingTimestamp": TIME + 10_000}, "no record of TOPIC-0"),
        ({"value.format": "json"}, "needs option value.schema"),
        ({"value.format": "json", "value.schema": "id NUMBERS"}, "no type 'numbers'"),
        ({"startingOffset": "earliest"}, "there is no option 'startingoffset'"),
        ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_named(
    client: Client, topic: Topic, read: Read, options: dict[str, Any], message: str
) -> None:
    name = topic()
    fill(client, name, 4)
    given = {key.replace(".", "__"): str(value).replace("TOPIC", name) for key, value in options.items()}
    with pytest.raises(Exception) as raised:
        read(name, **given).collect()
    assert message.replace("TOPIC", name) in str(raised.value)


def test_an_unknown_topic_is_named(read: Read) -> None:
    assert "there is no topic 'nowhere'" in failure(read("nowhere"))


JSON_VALUES = [b'{"id": 1, "name": "a", "at": "2026-01-01T00:00:00Z"}', b"no json", b'{"id": "x"}', None, b'{"id": 4}']


def test_json_becomes_columns_and_bad_values_dead_letters(client: Client, topic: Topic, read: Read) -> None:
    name, dead = topic(), topic()
    with client.producer() as producer:
        for number, value in enumerate(JSON_VALUES):
            producer.send(name, value, key=b"k%d" % number, partition=0)
    options = {"value__format": "json", "value__schema": "id BIGINT, name STRING, at TIMESTAMP", "columns": "value,key"}
    frame = read(name, deadLetterTopic=dead, **options)
    rows = sorted(frame.select("key", "value.*").collect(), key=lambda row: bytes(row.key))
    assert [(bytes(row.key), row.id, row.name) for row in rows] == [
        (b"k0", 1, "a"),
        (b"k3", None, None),
        (b"k4", 4, None),
    ]
    letters = read(dead, includeHeaders=True).orderBy("key").collect()
    assert [bytes(row.value) for row in letters] == [b"no json", b'{"id": "x"}']
    headers = {each.key: bytes(each.value).decode() for each in letters[0].headers}
    assert (headers["kavka.topic"], headers["kavka.offset"]) == (name, "1")
    assert "JSONDecodeError" in headers["kavka.error"]
    assert f"{name}-0 at offset 1: the value is not json" in failure(read(name, **options))
    marked = read(name, **{**options, "columns": "key,value,error"}).orderBy("key").collect()
    assert [row.error is not None for row in marked] == [False, True, True, False, False]
    assert marked[1].value is None
    assert "JSONDecodeError" in marked[1].error


def test_avro_becomes_columns(client: Client, topic: Topic, read: Read) -> None:
    import fastavro

    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {"name": "note", "type": ["null", "string"]},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
    name = topic()
    with client.producer() as producer:
        for number in range(3):
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, {"id": number, "tags": ["a"], "note": None, "at": TIME})
            producer.send(name, b"\0\0\0\0\7" + out.getvalue())
    options = {"value.format": "avro", "value.schema": json.dumps(schema), "value.framing": "confluent"}
    frame = read(name, **options, **{"value.schema.id": "7"})
    assert "was written with schema 7, and value.schema is 8" in failure(
        read(name, **options, **{"value.schema.id": "8"})
    )
    assert frame.select("value.*").dtypes == [
        ("id", "bigint"),
        ("tags", "array<string>"),
        ("note", "string"),
        ("at", "timestamp"),
    ]
    assert sorted((row.id, row.tags) for row in frame.select("value.*").collect()) == [(n, ["a"]) for n in range(3)]


def test_protobuf_becomes_columns(client: Client, topic: Topic, read: Read) -> None:
    import base64

    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Order")
    message.field.add(name="id", number=1, type=3, label=1)
    message.field.add(name="items", number=2, type=9, label=3)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    order = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    described = base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()).decode()
    name = topic()
    with client.producer() as producer:
        for number in range(3):
            producer.send(name, order(id=number, items=["x"] * number).SerializeToString())
    frame = read(name, value__format="protobuf", value__schema=described, value__message="shop.Order")
    rows = sorted((row.id, row.items_) for row in frame.selectExpr("value.id", "value.items as items_").collect())
    assert rows == [(0, []), (1, ["x"]), (2, ["x", "x"])]


def test_a_corrupt_batch_fails_the_read_and_says_where(client: Client, topic: Topic, read: Read, node: Cluster) -> None:
    name = topic(partitions=1)
    fill(client, name, 10, partitions=1)
    path = node.data_dir / f"{name}-0" / "00000000000000000000.log"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 3)
        file.write(b"\xff\xff")
    message = failure(read(name))
    assert f"{name}-0 at offset" in message
    assert "CRC does not match" in message
    assert "`kavka pipeline verify` shows how much of a topic is damaged" in message


def test_a_session_that_is_there_already_keeps_its_settings(spark: Any) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Prague")
    try:
        assert start("another", conf={"spark.sql.shuffle.partitions": "3"}) is spark
        assert spark.conf.get("spark.sql.session.timeZone") == "Europe/Prague"
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.shuffle.partitions", "2")
