"""Kafka's dump-log, with its decoder for transactions, prints all that the transaction coordinator has written.

So it does with the indexes of aborted transactions and the snapshots of producers of the logs that were written to.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from jvm.java_tools import Java
from jvm.nodes import KAVKA, running
from jvm.tools import Tools, dump_log

from kavka.client.blocking import Client

RECORD = re.compile(r"^\| offset: (\d+) .* key: (.*?) payload: ?(.*)$")
WAIT_S = 30.0


class Dumped(NamedTuple):
    """What the tool printed."""

    records: list[tuple[str, str]]
    indexes: str
    snapshots: str
    data: str


def fill(tools: Tools) -> None:
    """Transactions of Java's client (version 2) and librdkafka's (version 1), committed and aborted."""
    bootstrap = tools.node.bootstrap
    for topic, how in (("committed", "commit"), ("aborted", "abort"), ("with-offsets", "offsets")):
        tools.topics("--create", "--topic", topic, "--partitions", "3").must_succeed()
        tools.java.run("kavka.compat.Transact", [bootstrap, topic, how]).must_succeed()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "librdkafka"})
    producer.init_transactions(WAIT_S)
    for commits in (True, False):
        producer.begin_transaction()
        producer.produce("committed", b"more")
        producer.flush(WAIT_S)
        if commits:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
    # An end is answered once it is decided; the record that completes it follows its markers.
    deadline = time.monotonic() + WAIT_S
    with Client(bootstrap) as client:
        while client.admin.list_transactions(states=["PrepareCommit", "PrepareAbort"]):
            assert time.monotonic() < deadline, "a transaction is not completed"
            time.sleep(0.02)


def files(data_dir: Path, topic: str, suffix: str) -> Iterator[str]:
    for folder in sorted(data_dir.glob(f"{topic}-*")):
        yield from (str(path) for path in folder.glob(f"*{suffix}") if path.stat().st_size)


@pytest.fixture(scope="module")
def dumped(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Dumped:
    with running(KAVKA, java, tmp_path_factory.mktemp("transactions")) as node:
        fill(Tools(java, node))
        node.stop()
        data_dir = Path(node.data_dir)
        logs = ",".join(files(data_dir, "__transaction_state", ".log"))
        done = dump_log(java, "--transaction-log-decoder", "--files", logs).must_succeed()
        indexes = dump_log(java, "--files", ",".join(files(data_dir, "*", ".txnindex"))).must_succeed()
        snapshots = dump_log(java, "--files", ",".join(files(data_dir, "*", ".snapshot"))).must_succeed()
        data = dump_log(
            java, "--print-data-log", "--files", ",".join(files(data_dir, "aborted", ".log"))
        ).must_succeed()
    found = [match.groups() for line in done.lines if (match := RECORD.match(line))]
    assert len(found) == sum(line.startswith("| offset:") for line in done.lines)
    return Dumped([(key, value) for _, key, value in found], indexes.out, snapshots.out, data.out)


def test_every_record_is_decoded(dumped: Dumped) -> None:
    assert dumped.records
    for key, value in dumped.records:
        assert set(json.loads(key)["data"]) == {"transactionalId"}
        assert json.loads(value)["version"] == "1"


def test_every_state_was_written_by_clients_of_both_transaction_versions(dumped: Dumped) -> None:
    values = [json.loads(value)["data"] for _, value in dumped.records]
    for version in (0, 2):
        states = {one["transactionStatus"] for one in values if one.get("clientTransactionVersion", 0) == version}
        assert states >= {1, 2, 3, 4, 5}
    assert 0 in {one["transactionStatus"] for one in values}


def test_the_aborted_transactions_are_in_the_indexes(dumped: Dumped) -> None:
    assert "producerId" in dumped.indexes
    assert "lastStableOffset" in dumped.indexes


def test_the_producers_are_in_the_snapshots(dumped: Dumped) -> None:
    assert "producerId: " in dumped.snapshots
    assert "coordinatorEpoch: 0" in dumped.snapshots


def test_the_markers_are_in_the_log(dumped: Dumped) -> None:
    assert "isTransactional: true isControl: true" in dumped.data
    assert "endTxnMarker: ABORT" in dumped.data
