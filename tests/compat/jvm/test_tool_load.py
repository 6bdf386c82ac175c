"""kafka-verifiable-producer and -consumer, kafka-producer-perf-test and kafka-consumer-perf-test."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jvm.java_tools import Outcome
from jvm.tools import Tools


def events(outcome: Outcome) -> list[dict[str, Any]]:
    """The JSON lines of a verifiable client."""
    return [json.loads(line) for line in outcome.must_succeed().lines]


def test_the_verifiable_producer_gets_every_ack(tools: Tools, made_topic: str) -> None:
    said = events(tools.verifiable_producer("--topic", made_topic, "--max-messages", "50", "--throughput", "-1"))
    sent = [event for event in said if event["name"] == "producer_send_success"]
    assert [event["value"] for event in sorted(sent, key=lambda event: int(event["value"]))] == [
        str(number) for number in range(50)
    ]
    assert said[0]["name"] == "startup_complete"
    assert {"sent": 50, "acked": 50}.items() <= said[-1].items()


def test_the_verifiable_producer_with_acks_1_and_keys(tools: Tools, made_topic: str) -> None:
    options = ["--acks", "1", "--repeating-keys", "5", "--message-create-time", "1700000000000"]
    said = events(tools.verifiable_producer("--topic", made_topic, "--max-messages", "20", *options))
    assert {"sent": 20, "acked": 20}.items() <= said[-1].items()
    offsets = tools.get_offsets("--topic", made_topic).must_succeed().lines
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets) == 20


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_verifiable_consumer_reads_everything(tools: Tools, made_topic: str, protocol: str) -> None:
    tools.verifiable_producer("--topic", made_topic, "--max-messages", "30", "--throughput", "-1").must_succeed()
    options = ["--group-id", made_topic, "--max-messages", "30", "--group-protocol", protocol]
    said = events(tools.verifiable_consumer("--topic", made_topic, *options))
    assert sum(event["count"] for event in said if event["name"] == "records_consumed") == 30
    assert all(event["success"] for event in said if event["name"] == "offsets_committed")


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_the_producer_perf_test_sends_all_records(tools: Tools, made_topic: str, acks: str) -> None:
    options = ["--num-records", "2000", "--record-size", "200", "--throughput", "-1"]
    done = tools.producer_perf_test(
        "--topic", made_topic, *options, "--command-property", f"acks={acks}"
    ).must_succeed()
    assert re.match(r"2000 records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency", done.lines[-1])
    offsets = tools.get_offsets("--topic", made_topic).must_succeed().lines
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets) == 2000


def test_the_consumer_perf_test_reads_all_records(tools: Tools, made_topic: str) -> None:
    options = ["--num-records", "2000", "--record-size", "200", "--throughput", "-1"]
    tools.producer_perf_test("--topic", made_topic, *options).must_succeed()
    heading, row = tools.consumer_perf_test("--topic", made_topic, "--num-records", "2000").must_succeed().lines
    cells = dict(zip(heading.split(", "), row.split(", "), strict=True))
    assert cells["data.consumed.in.nMsg"] == "2000"
