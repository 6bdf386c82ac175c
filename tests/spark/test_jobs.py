"""Bulk jobs over whole topics: backfill, mirror, verify."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.conftest import fill

from kavka.client.blocking import Client
from kavka.spark.pipelines.jobs import backfill, mirror, verify
from kavka.spark.pipelines.spec import load
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


@pytest.mark.filterwarnings("ignore")
def test_a_backfill_of_the_same_places_is_done_once(
    client: Client, topic: Topic, spark: Any, node: Cluster, tmp_path: Path
) -> None:
    name = topic()
    topic_dead = f"{name}-dead"
    client.admin.create_topic(topic_dead, partitions=1)
    with client.producer() as producer:
        for number in range(20):
            producer.send(name, json.dumps({"number": number}).encode() if number % 10 else b"bad", partition=0)
    (tmp_path / "pipeline.yaml").write_text(SPEC.format(bootstrap=node.bootstrap, topic=name))
    pipeline = load(tmp_path)
    flow = pipeline.flow(None)
    until = {"startingOffsets": "earliest", "endingOffsets": json.dumps({name: {"0": 15, "1": 0}})}
    assert backfill(spark, pipeline, flow, until, "first") == 13
    assert backfill(spark, pipeline, flow, until, "first") == 0
    rest = {"startingOffsets": json.dumps({name: {"0": 15, "1": 0}}), "endingOffsets": "latest"}
    assert backfill(spark, pipeline, flow, rest, "second") == 5
    with client.consumer(topic_dead) as consumer:
        assert [record.value for record in consumer.until_end()] == [b"bad", b"bad"]
