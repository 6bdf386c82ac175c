"""Spark and a secured cluster: options as Spark's own connector has them, and no secret where people look."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client.blocking import Client
from kavka.client.security import SecuredBootstrap
from kavka.model.errors import TopicAlreadyExists
from kavka.spark.connecting import connection_options
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured

PASSWORD = "a-secret-that-nobody-else-has"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Secured]]:
    made = Secured(tmp_path_factory.mktemp("secured"), {"admin": PASSWORD})
    config = {"listeners": f"SASL_SSL://127.0.0.1:{free_ports(1)[0]}", **made.nodes}
    with Cluster(config=config, users=made.users) as cluster:
        yield cluster, made


def test_a_stream_reads_and_a_batch_writes_and_no_secret_is_shown(
    spark: Any, secured: tuple[Cluster, Secured], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster, made = secured
    options = {"kafka.bootstrap.servers": cluster.bootstrap}
    options |= {f"kafka.{key}": value for key, value in made.client().items()}
    with Client(cluster.bootstrap, security=made.client()) as client:
        for topic in ("in", "out"):
            with contextlib.suppress(TopicAlreadyExists):
                client.admin.create_topic(topic, partitions=2)
        with client.producer() as producer:
            for number in range(100):
                producer.send("in", b"%d" % number)
        read = spark.readStream.format("kavka").options(**options).option("subscribe", "in")
        frame = read.option("startingOffsets", "earliest").load()
        checkpoint = tmp_path / "checkpoint"
        query = (
            frame.selectExpr("key", "value")
            .writeStream.format("kavka")
            .options(**options)
            .option("topic", "out")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        with client.consumer("out") as consumer:
            assert sorted(int(record.value or b"") for record in consumer.until_end()) == list(range(100))
    batch = spark.read.format("kavka").options(**options).option("subscribe", "in").load()
    batch.explain(extended=True)
    assert batch.count() == 100
    shown = capfd.readouterr()
    assert PASSWORD not in shown.out + shown.err
    written = [path.read_bytes() for path in checkpoint.rglob("*") if path.is_file()]
    assert written
    assert not any(PASSWORD.encode() in data for data in written)


def test_plans_the_ui_logs_the_event_log_and_the_checkpoint_have_no_secret(
    secured: tuple[Cluster, Secured], tmp_path: Path
) -> None:
    cluster, made = secured
    (tmp_path / "events").mkdir()
    plain = connection_options(SecuredBootstrap(cluster.bootstrap, made.client()))
    login = "kafka.sasl.jaas.config"
    referring = {**plain, login: plain[login].replace(PASSWORD, "${env:JOB_PASSWORD}")}
    with Client(cluster.bootstrap, security=made.client()) as client:
        for topic in ("in", "out"):
            with contextlib.suppress(TopicAlreadyExists):
                client.admin.create_topic(topic, partitions=2)
        with client.producer() as producer:
            producer.send("in", b"one")
    job = Path(__file__).with_name("secured_job.py")
    done = subprocess.run(
        [sys.executable, str(job), json.dumps(referring), json.dumps(plain), str(tmp_path)],
        env={**os.environ, "JOB_PASSWORD": PASSWORD},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "read " in done.stdout
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"SparkListenerSQLExecutionStart" in data for data in written), "there is an event log to look at"
    assert "Physical Plan" in done.stdout
    for data in (done.stdout.encode(), done.stderr.encode(), *written):
        assert PASSWORD.encode() not in data


def test_what_cannot_be_honoured_is_an_error_on_the_driver(spark: Any) -> None:
    read = spark.read.format("kavka").option("kafka.bootstrap.servers", "localhost:1").option("subscribe", "x")
    with pytest.raises(Exception, match="CRAM-MD5 is not there"):
        read.option("kafka.security.protocol", "SASL_SSL").option("kafka.sasl.mechanism", "CRAM-MD5").load().count()
