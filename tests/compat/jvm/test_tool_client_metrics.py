"""kafka-client-metrics, and Kafka's own clients pushing what it asked them for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

from jvm.java_tools import Java
from jvm.nodes import KAVKA, running
from jvm.tools import Tools, eventually

from kavka.testing.local import free_ports


def test_a_subscription_is_set_shown_listed_and_deleted(tools: Tools, topic: str) -> None:
    name = ("--name", topic)
    options = ("--metrics", "org.apache.kafka.producer.,org.apache.kafka.consumer.", "--interval", "5000")
    altered = tools.client_metrics("--alter", *name, *options, "--match", "client_id=a.*,client_software_version=4.*")
    assert altered.must_succeed().lines == [f"Altered client metrics config for {topic}."]
    eventually(lambda: topic in tools.client_metrics("--list").must_succeed().lines, True)
    heading, *rows = tools.client_metrics("--describe", *name).must_succeed().lines
    assert heading == f"Client metrics configs for {topic} are:"
    assert sorted(rows) == [
        "  interval.ms=5000",
        "  match=client_id=a.*,client_software_version=4.*",
        "  metrics=org.apache.kafka.producer.,org.apache.kafka.consumer.",
    ]
    deleted = tools.client_metrics("--delete", *name).must_succeed()
    assert deleted.lines == [f"Deleted client metrics config for {topic}."]
    gone = [f"The client metric resource {topic} doesn't exist and doesn't have dynamic config."]
    eventually(lambda: tools.client_metrics("--describe", *name).must_succeed().lines, gone)


def test_what_no_subscription_may_be_is_refused(tools: Tools, topic: str) -> None:
    for bad in (("--interval", "50"), ("--interval", "3600001"), ("--match", "colour=red"), ("--match", "client_id=[")):
        tools.client_metrics("--alter", "--name", topic, *bad).must_fail()
    assert topic not in tools.client_metrics("--list").must_succeed().lines


def test_kafkas_producer_and_consumer_push_what_they_are_asked_for(java: Java, topic: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with running(KAVKA, java, tmp_path, {"kavka.metrics.listener": f"127.0.0.1:{port}"}) as node:
        tools = Tools(java, node)
        tools.topics("--create", "--topic", topic, "--partitions", "2").must_succeed()
        wanted = "org.apache.kafka.producer.,org.apache.kafka.consumer."
        tools.client_metrics("--alter", "--name", "all", "--metrics", wanted, "--interval", "100").must_succeed()
        options = ["--num-records", "300", "--record-size", "100", "--throughput", "150"]
        tools.producer_perf_test("--topic", topic, *options, "--command-property", "client.id=loader").must_succeed()
        tools.console_consumer(
            "--topic", topic, "--from-beginning", "--max-messages", "300", "--command-property", "client.id=reader"
        ).must_succeed()

        def page() -> str:
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                return str(answer.read().decode())

        until(lambda: 'client_id="reader"' in page())
        shown = page()
    java_client = r'client_software_name="apache-kafka-java"'
    assert re.search(rf'^kavka_client_producer_\w+\{{.*client_id="loader".*{java_client}.*\}} ', shown, re.M)
    assert re.search(rf'^kavka_client_consumer_\w+\{{.*client_id="reader".*{java_client}.*\}} ', shown, re.M)
    assert re.search(r"^kavka_telemetry_unreadable_pushes_total 0.0$", shown, re.M)


def until(look: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not look():
        assert time.monotonic() < ends
        time.sleep(0.1)
