"""Bulk jobs over whole topics: backfill, mirror, verify."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.spark.conftest import fill

from kavka.client import LATEST, TopicPartition
from kavka.client.blocking import Client
from kavka.spark.pipelines.backfill import backfill
from kavka.spark.pipelines.flows import start_query
from kavka.spark.pipelines.jobs import Compared, compare, mirror, topic_configs, verify
from kavka.spark.pipelines.mirroring import Place, codec_of, translate
from kavka.spark.pipelines.replay import replay
from kavka.spark.pipelines.spec import Pipeline, SpecError, load
from kavka.testing import Cluster

Topic = Callable[..., str]
SPEC = """
bootstrap: {bootstrap}
flows:
  - name: numbers
    source: {{topic: {topic}, format: json, schema: "number BIGINT", dead_letters: {topic}-dead}}
    sink: {{table: {{path: table}}}}
"""


def test_a_mirror_keeps_partitions_keys_headers_and_times(
    client: Client, topic: Topic, spark: Any, node: Cluster, tmp_path: Path
) -> None:
    name = topic(partitions=3)
    fill(client, name, 30, partitions=3, codec="zstd")
    source = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": name}
    for _ in range(2):  # the second time there is nothing to do
        mirror(
            spark, source, node.bootstrap, {name: f"{name}-copy"}, str(tmp_path / "checkpoint"), once=True
        ).awaitTermination()
    seen = []
    for each in (name, f"{name}-copy"):
        with client.consumer(each) as consumer:
            records = consumer.until_end()
            seen.append(sorted((r.partition, r.offset, r.timestamp, r.key, r.value, r.headers) for r in records))
    assert len(seen[0]) == 30
    assert seen[0] == seen[1]


def test_a_copys_times_and_records_are_those_that_were_committed(
    client: Client, topic: Topic, spark: Any, node: Cluster, tmp_path: Path
) -> None:
    stamped = {"message_timestamp_type": "LogAppendTime", "message_timestamp_before_max_ms": "3600000"}
    name = topic(partitions=1, retention_bytes="1000000", min_insync_replicas="1", **stamped)
    fill(client, name, 3, partitions=1)
    with client.producer(transactional_id=f"writer-of-{name}") as producer:
        producer.begin()
        producer.send(name, b"nobody's", partition=0).result()
        producer.abort()
    names = {name: f"{name}-copy"}
    assert topic_configs(node.bootstrap, names) == {f"{name}-copy": {"retention.bytes": "1000000"}}
    source = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": name}
    mirror(spark, source, node.bootstrap, names, str(tmp_path / "checkpoint"), once=True).awaitTermination()
    assert compare(spark, source, node.bootstrap, names) == [Compared(name, 0, 3, 3, True)]


def test_a_key_is_no_value_and_two_headers_are_not_one(client: Client, topic: Topic, spark: Any, node: Cluster) -> None:
    name = topic(partitions=3)
    client.admin.create_topic(f"{name}-copy", partitions=3)
    at = 1_700_000_000_000
    headers: list[list[tuple[str, bytes | None]]] = [[("a", None), ("b", None)], [("a", b"b")]]
    with client.producer() as producer:
        for to, swapped in ((name, False), (f"{name}-copy", True)):
            key, value = (b"x", None) if swapped else (None, b"x")
            producer.send(to, value, key=key, partition=0, timestamp=at)
            producer.send(to, b"x", headers=headers[swapped], partition=1, timestamp=at)
            producer.send(to, b"x", key=b"", headers=[("a", None)], partition=2, timestamp=at)
    source = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": name}
    assert [each.equal for each in compare(spark, source, node.bootstrap, {name: f"{name}-copy"})] == [
        False,
        False,
        True,
    ]
    with pytest.raises(SpecError, match="two topics have one copy"):
        compare(spark, {**source, "subscribe": f"{name},{name}-copy"}, node.bootstrap, {name: f"{name}-copy"})


def test_an_exact_mirror_has_what_was_committed_and_both_sides_are_compared(
    client: Client, topic: Topic, spark: Any, node: Cluster, tmp_path: Path
) -> None:
    name = topic(partitions=2)
    fill(client, name, 20)
    with client.producer(transactional_id=f"writer-of-{name}") as producer:
        producer.begin()
        producer.send(name, b"nobody's", partition=0).result()
        producer.abort()
    source = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": name}
    names = {name: f"{name}-exact"}
    mirror(
        spark,
        source,
        node.bootstrap,
        names,
        str(tmp_path / "checkpoint"),
        once=True,
        compression="zstd",
        exactly_once=True,
    ).awaitTermination()
    log = (node.data_dir / f"{name}-exact-0" / "00000000000000000000.log").read_bytes()
    assert log[22] & 7 == 4, "the attributes of the first batch say zstd"
    assert compare(spark, source, node.bootstrap, names) == [
        Compared(name, 0, 10, 10, True),
        Compared(name, 1, 10, 10, True),
    ]
    with client.producer() as producer:
        producer.send(f"{name}-exact", b"of nobody", partition=1)
        producer.send(name, b"mine", partition=0)
        producer.send(f"{name}-exact", b"yours", partition=0)
    assert compare(spark, source, node.bootstrap, names) == [
        Compared(name, 0, 11, 11, False),
        Compared(name, 1, 10, 11, False),
    ]


def test_groups_go_on_in_a_mirror_after_the_records_that_they_have_read(
    client: Client, topic: Topic, spark: Any, node: Cluster, tmp_path: Path
) -> None:
    name = topic(partitions=2)
    with client.producer(transactional_id=f"writer-of-{name}") as producer:
        for number in range(6):  # markers and aborted records lie between, and the copy has not those
            producer.begin()
            producer.send(name, b"%d" % number, partition=0).result()
            if number % 2:
                producer.abort()
            else:
                producer.commit()
    fill(client, name, 40, codec="zstd")
    client.admin.delete_records({TopicPartition(name, 1): 5})  # these are not copied
    names, checkpoint = {name: f"{name}-copy"}, tmp_path / "checkpoint"
    source = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": name}
    assert codec_of(source) == "zstd"
    some = {TopicPartition(name, 0): 5, TopicPartition(name, 1): 12}
    client.admin.alter_group_offsets(f"some-{name}", some)
    end = client.admin.list_offsets({TopicPartition(name, 0): LATEST})[TopicPartition(name, 0)].offset
    client.admin.alter_group_offsets(f"done-{name}", {TopicPartition(name, 0): end})
    mirror(spark, source, node.bootstrap, names, str(checkpoint), once=True, exactly_once=True).awaitTermination()
    groups = [f"some-{name}", f"done-{name}"]
    found = translate(spark, source, node.bootstrap, names, checkpoint, groups)
    there = client.admin.list_offsets({TopicPartition(f"{name}-copy", 0): LATEST})[TopicPartition(f"{name}-copy", 0)]
    assert found == [
        Place(groups[1], name, 0, end, f"{name}-copy", there.offset),
        Place(groups[0], name, 0, 5, f"{name}-copy", 2),
        Place(groups[0], name, 1, 12, f"{name}-copy", 7),
    ]
    committed = client.admin.group_offsets(groups[0])
    assert {tp: each.offset for tp, each in committed.items() if tp.topic != name} == {
        TopicPartition(f"{name}-copy", 0): 2,
        TopicPartition(f"{name}-copy", 1): 7,
    }
    with client.producer() as producer:
        producer.send(f"{name}-copy", b"of nobody", partition=1)
    found = translate(spark, source, node.bootstrap, names, checkpoint, groups[:1])
    assert [each.there for each in found] == [2, None], "the copy has another record"
    with pytest.raises(SpecError, match="group nobody has committed nothing"):
        translate(spark, source, node.bootstrap, names, checkpoint, ["nobody"])


def test_verification_counts_what_is_sound_and_names_what_is_not(
    client: Client, topic: Topic, spark: Any, node: Cluster
) -> None:
    sound, damaged = topic(partitions=2), topic(partitions=1)
    fill(client, sound, 100)
    fill(client, damaged, 10, partitions=1)
    path = node.data_dir / f"{damaged}-0" / "00000000000000000000.log"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 3)
        file.write(b"\xff\xff")
    options = {"kafka.bootstrap.servers": node.bootstrap, "subscribe": f"{sound},{damaged}"}
    found = verify(spark, options)
    good = [each for each in found if each.topic == sound]
    assert sum(each.records for each in good) == 100
    assert not any(each.fault or each.gaps for each in good)
    faults = [each.fault or "" for each in found if each.topic == damaged]
    assert any("CRC does not match" in fault for fault in faults)


@pytest.fixture
def numbers(client: Client, topic: Topic, node: Cluster, tmp_path: Path) -> tuple[Pipeline, str]:
    """A pipeline with one flow into a table, and its topic with twenty records, two of them bad."""
    name = topic()
    client.admin.create_topic(f"{name}-dead", partitions=1)
    produce(client, name, range(20))
    (tmp_path / "pipeline.yaml").write_text(SPEC.format(bootstrap=node.bootstrap, topic=name))
    return load(tmp_path), name


def produce(client: Client, topic: str, numbers: range) -> None:
    with client.producer() as producer:
        for number in numbers:
            producer.send(topic, json.dumps({"number": number}).encode() if number % 10 else b"bad", partition=0)


def stream(spark: Any, pipeline: Pipeline, start: str = "earliest") -> None:
    """Let the stream read what is there."""
    (flow,) = pipeline.flows
    query = start_query(spark, pipeline, replace(flow, source=replace(flow.source, start=start)), once=True)
    query.awaitTermination()


def rows(pipeline: Pipeline) -> list[int]:
    from deltalake import DeltaTable

    table = pipeline.flows[0].sink.table
    assert table is not None
    return sorted(DeltaTable(table.path).to_pyarrow_table().column("number").to_pylist())


def until(name: str, first: int, after: int) -> dict[str, str]:
    edges = [json.dumps({name: {"0": offset, "1": 0}}) for offset in (first, after)]
    return {"startingOffsets": edges[0], "endingOffsets": edges[1]}


GOOD = [number for number in range(20) if number % 10]


def test_a_backfill_leaves_out_what_an_earlier_one_has_written(
    client: Client, spark: Any, numbers: tuple[Pipeline, str]
) -> None:
    pipeline, name = numbers
    flow = pipeline.flow(None)
    assert backfill(spark, pipeline, flow, until(name, 3, 8)).rows == 5
    again = backfill(spark, pipeline, flow, until(name, 3, 8))
    assert (again.rows, again.said[-1]) == (0, "nothing to do: nothing is left")
    more = backfill(spark, pipeline, flow, until(name, 0, 15))
    assert (more.rows, len(more.said)) == (8, 1)
    assert backfill(spark, pipeline, flow, {"startingOffsets": "earliest", "endingOffsets": "latest"}).rows == 5
    assert rows(pipeline) == GOOD
    with client.consumer(f"{name}-dead") as consumer:
        assert [record.value for record in consumer.until_end()] == [b"bad", b"bad"]
    with pytest.raises(Exception, match=r"begins .*-0 at offset 0, and a backfill has written 15 to 19 already"):
        stream(spark, pipeline)
    assert rows(pipeline) == GOOD


def test_a_backfill_ends_where_the_stream_began(client: Client, spark: Any, numbers: tuple[Pipeline, str]) -> None:
    pipeline, name = numbers
    flow = pipeline.flow(None)
    stream(spark, pipeline, "latest")
    produce(client, name, range(21, 25))
    stream(spark, pipeline, "latest")
    assert rows(pipeline) == [21, 22, 23, 24]
    with pytest.raises(SpecError, match=f"the stream of flow numbers writes {name}-0 from offset 20 on, too"):
        backfill(spark, pipeline, flow, {"startingOffsets": "earliest", "endingOffsets": "latest"})
    shutil.rmtree(Path(pipeline.checkpoint_of(flow)) / "offsets")  # Spark keeps those of the last hundred batches
    assert backfill(spark, pipeline, flow, {"startingOffsets": "earliest"}).rows == 18
    assert backfill(spark, pipeline, flow, {"startingOffsets": "earliest"}).rows == 0
    assert rows(pipeline) == [*GOOD, 21, 22, 23, 24]


def test_a_stream_that_reads_everything_leaves_nothing_to_a_backfill(spark: Any, numbers: tuple[Pipeline, str]) -> None:
    pipeline, _ = numbers
    flow = pipeline.flow(None)
    for _ in range(2):  # before its first run, and after it
        done = backfill(spark, pipeline, flow, {"startingOffsets": "earliest"})
        assert (done.rows, done.said) == (0, ("nothing to do: the flow's stream writes all of it",))
        stream(spark, pipeline)
        assert rows(pipeline) == GOOD


def test_a_flow_whose_checkpoint_is_lost_goes_on_where_its_table_ends(
    client: Client, spark: Any, numbers: tuple[Pipeline, str]
) -> None:
    pipeline, name = numbers
    flow = pipeline.flow(None)
    stream(spark, pipeline)
    shutil.rmtree(pipeline.checkpoint_of(flow))
    produce(client, name, range(21, 25))
    stream(spark, pipeline)
    stream(spark, pipeline)
    assert rows(pipeline) == [*GOOD, 21, 22, 23, 24]
    assert backfill(spark, pipeline, flow, {"startingOffsets": "earliest"}).rows == 0, "it is still the same stream"


def test_too_many_bad_records_stop_a_flow_and_none_of_them_is_set_aside(
    client: Client, spark: Any, numbers: tuple[Pipeline, str]
) -> None:
    pipeline, name = numbers
    flow = pipeline.flow(None)
    strict = replace(pipeline, flows=(replace(flow, source=replace(flow.source, max_bad_records=1)),))
    with pytest.raises(Exception, match=r"-0: 2 of 20 records from offset 0 on are not json"):
        stream(spark, strict)
    with client.consumer(f"{name}-dead") as consumer:
        assert not list(consumer.until_end())
    stream(spark, replace(pipeline, flows=(replace(flow, source=replace(flow.source, max_bad_records=2)),)))
    assert rows(pipeline) == GOOD
    with client.consumer(f"{name}-dead") as consumer:
        assert len(list(consumer.until_end())) == 2


def test_dead_letters_that_can_be_read_by_now_are_added_once(
    client: Client, spark: Any, numbers: tuple[Pipeline, str]
) -> None:
    pipeline, name = numbers
    flow = pipeline.flow(None)
    with client.producer() as producer:
        for value in (b'{"number": "1"}', b'{"number": "2"}'):
            producer.send(name, value, partition=1)
    stream(spark, pipeline)
    assert replay(spark, pipeline, flow).rows == 0, "nothing has changed"
    (pipeline.folder / "mended.py").write_text(
        "def whole(frame):\n    return frame.selectExpr('bigint(number) AS number', '_partition', '_offset')\n"
    )
    read_as_text = replace(flow, source=replace(flow.source, schema="number STRING"), transform="mended:whole")
    mended = replace(pipeline, flows=(read_as_text,))
    done = replay(spark, mended, mended.flow(None))
    assert (done.letters, done.rows) == (4, 2), "two more are no JSON at all"
    again = replay(spark, mended, mended.flow(None))
    assert (again.letters, again.rows) == (2, 0)
    assert rows(pipeline) == [1, 1, 2, 2, *GOOD[2:]]
    other = replace(mended.flow(None), name="other")
    with pytest.raises(SpecError, match="flows numbers and other read the same records and have the same dead letters"):
        replay(spark, replace(mended, flows=(mended.flow(None), other)), mended.flow(None))
    with client.consumer(f"{name}-dead") as consumer:
        last = list(consumer.until_end())[-1]
    assert [value for key, value in last.headers if key == "kavka.topic"] == [name.encode()], "it keeps its place"


def test_a_column_of_a_batch_is_as_wide_as_the_tables(
    client: Client, spark: Any, numbers: tuple[Pipeline, str]
) -> None:
    pipeline, name = numbers
    flow = pipeline.flow(None)
    stream(spark, pipeline)
    produce(client, name, range(21, 23))
    narrow = replace(flow, source=replace(flow.source, schema="number INT, more STRUCT<a: INT>"))
    stream(spark, replace(pipeline, flows=(narrow,)))
    assert rows(pipeline) == [*GOOD, 21, 22]
