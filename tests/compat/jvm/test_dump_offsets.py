"""Kafka's dump-log, with its decoder for offsets, prints every record that the group coordinator has written."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient
from jvm.java_tools import Java
from jvm.nodes import KAVKA, running
from jvm.tools import Tools, dump_log

RECORD = re.compile(r"^\| offset: (\d+) .* key: (.*?) payload: ?(.*)$")
KINDS = {
    1: "a committed offset",
    2: "a classic group",
    3: "a consumer group's epoch",
    5: "a member",
    6: "the epoch of the target assignment",
    7: "a member's target assignment",
    8: "a member's assignment",
    16: "a resolved pattern",
}
WAIT_S = 30


def read(bootstrap: str, group: str, protocol: str, topics: list[str], count: int, **more: str) -> None:
    """Be a member of a group until so many records are read, commit, and leave."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{key.replace("_", "."): value for key, value in more.items()},
        }
    )
    try:
        consumer.subscribe(topics)
        deadline = time.monotonic() + WAIT_S
        found = 0
        while found < count and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            found += message is not None and message.error() is None
        assert found == count
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def fill(tools: Tools) -> None:
    """Leave records of every kind behind, and tombstones of most."""
    bootstrap = tools.node.bootstrap
    tools.topics("--create", "--topic", "orders", "--partitions", "3").must_succeed()
    tools.java.run("kavka.compat.Produce", [bootstrap, "orders", "0", "10"]).must_succeed()
    read(bootstrap, "classic", "classic", ["orders"], 10)
    read(bootstrap, "static", "classic", ["orders"], 10, group_instance_id="seat-1")
    read(bootstrap, "consumer", "consumer", ["orders"], 10)
    read(bootstrap, "pattern", "consumer", ["^ord.*"], 10)
    read(bootstrap, "upgraded", "classic", ["orders"], 10)
    tools.java.run("kavka.compat.Produce", [bootstrap, "orders", "0", "5"]).must_succeed()
    read(bootstrap, "upgraded", "consumer", ["orders"], 5)
    tools.console_consumer(
        "--topic", "orders", "--group", "javas", "--from-beginning", "--max-messages", "10"
    ).must_succeed()
    simple = Consumer({"bootstrap.servers": bootstrap, "group.id": "simple", "enable.auto.commit": False})
    simple.commit(offsets=[At("orders", 1, 7, "some words", 0)], asynchronous=False)
    simple.close()
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for group in ("classic", "pattern"):
        admin.delete_consumer_groups([group])[group].result(WAIT_S)


@pytest.fixture(scope="module")
def dumped(java: Java, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """Key and value of every record, as Kafka's tool prints them."""
    with running(KAVKA, java, tmp_path_factory.mktemp("offsets")) as node:
        fill(Tools(java, node))
        node.stop()
        folders = sorted(Path(node.data_dir).glob("__consumer_offsets-*"))
        assert folders
        logs = [str(path) for folder in folders for path in folder.glob("*.log") if path.stat().st_size]
        done = dump_log(java, "--offsets-decoder", "--files", ",".join(logs)).must_succeed()
    assert "isvalid: false" not in done.out
    records = [found.groups() for line in done.lines if (found := RECORD.match(line))]
    assert len(records) == sum(line.startswith("| offset:") for line in done.lines)
    return [(key, value) for _, key, value in records]


def test_every_record_is_decoded(dumped: list[tuple[str, str]]) -> None:
    assert [key for key, _ in dumped if key.startswith(("Unknown", "Error"))] == []
    for key, value in dumped:
        assert set(json.loads(key)) == {"type", "data"}
        assert value == "<DELETE>" or set(json.loads(value)) == {"version", "data"}


def test_records_of_every_kind_were_written(dumped: list[tuple[str, str]]) -> None:
    written = {int(json.loads(key)["type"]) for key, value in dumped if value != "<DELETE>"}
    assert written == set(KINDS)


def test_what_a_deleted_group_had_is_forgotten(dumped: list[tuple[str, str]]) -> None:
    last = dict(dumped)
    gone = {
        int(json.loads(key)["type"])
        for key in last
        if (json.loads(key)["data"].get("group") or json.loads(key)["data"].get("groupId")) in ("classic", "pattern")
        and last[key] == "<DELETE>"
    }
    left = [key for key in last if '"classic"' in key or '"pattern"' in key if last[key] != "<DELETE>"]
    assert gone == {*KINDS, 4}  # 4 is what Kafka 4.0 wrote in place of a hash: only ever forgotten
    assert left == []


def test_offsets_keep_what_was_committed_with_them(dumped: list[tuple[str, str]]) -> None:
    # The client sends the zero that ends its text along.
    values = [json.loads(value)["data"] for key, value in dumped if json.loads(key)["data"].get("group") == "simple"]
    found = [(one["offset"], one["metadata"].rstrip("\0"), one["leaderEpoch"]) for one in values if "offset" in one]
    assert found == [(7, "some words", 0)]
