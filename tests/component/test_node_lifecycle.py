"""A node's life: starts, stops, crashes, several listeners, changes at run time; asked over plain sockets."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crash.raw import HangupError, Raw
from kavka.protocol.header import encode_request, parse_response
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kavka.protocol.schemas.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kavka.protocol.schemas.delete_topics import DeleteTopicsRequest
from kavka.protocol.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.protocol.schemas.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kavka.protocol.schemas.metadata import MetadataRequest
from kavka.protocol.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.builder import BatchBuilder
from kavka.testing import Cluster

PATIENCE_S = 30.0
EARLIEST, LATEST = -2, -1
BROKER, TOPIC = 4, 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(data_dir=tmp_path / "data") as cluster:
        yield cluster


@contextlib.contextmanager
def talk(bootstrap: str) -> Iterator[Raw]:
    raw = Raw(bootstrap)
    try:
        yield raw
    finally:
        raw.close()


def create(raw: Raw, name: str, partitions: int = 1, **configs: object) -> int:
    texts = [CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=texts)
    (row,) = raw.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics
    code: int = row.error_code
    return code


def delete(raw: Raw, name: str) -> None:
    (row,) = raw.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5).responses
    assert row.error_code == 0


def offset(raw: Raw, topic: str, timestamp: int) -> int:
    wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    answer = raw.call(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7)
    (row,) = answer.topics[0].partitions
    assert row.error_code == 0
    found: int = row.offset
    return found


def delete_records(raw: Raw, topic: str, before: int) -> int:
    wanted = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=before)])
    answer = raw.call(DeleteRecordsRequest(topics=[wanted], timeout_ms=10_000), 2)
    (row,) = answer.topics[0].partitions
    assert row.error_code == 0
    low: int = row.low_watermark
    return low


def configure(raw: Raw, kind: int, name: str, **configs: object) -> None:
    changes = [
        AlterableConfig(name=key.replace("_", "."), config_operation=0, value=str(value))
        for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    (row,) = raw.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1).responses
    assert row.error_code == 0, row.error_message


def long_poll(topic: str, from_offset: int, wait_ms: int) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=from_offset, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[wanted])])


def stopped_within(cluster: Cluster, seconds: float) -> None:
    began = time.monotonic()
    assert cluster.stop() == 0
    assert time.monotonic() - began < seconds


# -- stopping and starting ------------------------------------------------------------------------


def test_what_was_written_is_there_after_a_stop_and_after_a_crash(cluster: Cluster) -> None:
    with talk(cluster.bootstrap) as raw:
        assert create(raw, "orders") == 0
        assert raw.produce("orders", b"one") == (0, 0)
    cluster.restart()
    assert (cluster.data_dir / ".kafka_cleanshutdown").exists() is False
    with talk(cluster.bootstrap) as raw:
        assert raw.produce("orders", b"two") == (0, 1)
    cluster.kill()
    cluster.start()
    with talk(cluster.bootstrap) as raw:
        assert raw.produce("orders", b"three") == (0, 2)
        _, records = raw.fetch("orders", 0)
        assert [value in records for value in (b"one", b"two", b"three")] == [True] * 3
    cluster.stop()
    assert (cluster.data_dir / ".kafka_cleanshutdown").exists()


def test_a_stop_does_not_wait_for_clients_that_wait(cluster: Cluster) -> None:
    with talk(cluster.bootstrap) as raw, talk(cluster.bootstrap) as idle:
        create(raw, "orders")
        assert idle.produce("orders", b"x") == (0, 0)
        raw._socket.sendall(encode_request(12, 1, "test", long_poll("orders", 1, 600_000)))
        time.sleep(0.2)
        stopped_within(cluster, 6)


def test_a_stop_under_load_is_clean_and_loses_nothing(cluster: Cluster) -> None:
    with talk(cluster.bootstrap) as raw:
        create(raw, "orders")
    acknowledged = []

    def produce() -> None:
        with contextlib.suppress(HangupError, OSError), talk(cluster.bootstrap) as raw:
            while True:
                code, at = raw.produce("orders", b"x" * 100)
                assert code == 0
                acknowledged.append(at)

    threads = [threading.Thread(target=produce) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 200:
        time.sleep(0.01)
    stopped_within(cluster, 10)
    for thread in threads:
        thread.join()
    assert (cluster.data_dir / ".kafka_cleanshutdown").exists()
    cluster.start()
    with talk(cluster.bootstrap) as raw:
        assert offset(raw, "orders", LATEST) > max(acknowledged)
        assert len(set(acknowledged)) == len(acknowledged)


def test_a_stop_while_the_logs_are_loaded_is_obeyed_and_loses_nothing(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "data") as cluster:
        with talk(cluster.bootstrap) as raw:
            for number in range(5):
                create(raw, f"topic-{number}", 100)
            assert raw.produce("topic-4", b"kept", 99) == (0, 0)
        cluster.kill()
        command = [sys.executable, "-m", "kavka", "serve", "--data-dir", str(cluster.data_dir)]
        command += ["--listen", "127.0.0.1:0", "--console", "off", "--ready-file", str(tmp_path / "ready")]
        for delay in (0.15, 0.25, 0.4):
            node = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(delay)
            node.send_signal(signal.SIGTERM)
            _, words = node.communicate(timeout=PATIENCE_S)
            assert node.returncode in (0, -signal.SIGTERM), words
        cluster.start()
        with talk(cluster.bootstrap) as raw:
            assert raw.produce("topic-4", b"more", 99) == (0, 1)
            assert b"kept" in raw.fetch("topic-4", 0, 99)[1]
        assert not list(cluster.data_dir.glob("*-stray"))


def test_a_stop_while_a_log_is_compacted_ends_the_worker_too(tmp_path: Path) -> None:
    config = {"log.cleaner.backoff.ms": "50"}
    with Cluster(data_dir=tmp_path / "data", config=config) as cluster:
        with talk(cluster.bootstrap) as raw:
            assert create(raw, "kept", cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, segment_ms=1) == 0
        children = Path(f"/proc/{cluster.pid}/task/{cluster.pid}/children")
        with talk(cluster.bootstrap) as raw:
            began = time.monotonic()
            while not children.read_text():
                produce_keyed(raw, "kept", b"key", os.urandom(5_000))
                assert time.monotonic() - began < PATIENCE_S
            workers = [int(pid) for pid in children.read_text().split()]
        stopped_within(cluster, 6)
        for pid in workers:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)
        cluster.start()
        assert "Traceback" not in cluster.log


def produce_keyed(raw: Raw, topic: str, key: bytes, value: bytes) -> None:
    builder = BatchBuilder()
    builder.append(key, value, int(time.time() * 1000))
    rows = [PartitionProduceData(index=0, records=builder.build())]
    topics = [TopicProduceData(name=topic, partition_data=rows)]
    answer = raw.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_a_scraper_that_dawdles_does_not_keep_the_node_from_stopping(tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "data", config={"kavka.metrics.listener": "127.0.0.1:0"}) as cluster:
        host, _, port = str(cluster.node(1).ready["metrics"]).rpartition(":")
        with socket.create_connection((host, int(port))) as scraper:
            scraper.sendall(b"GET /met")
            time.sleep(0.1)
            stopped_within(cluster, 5)


def test_a_second_node_on_the_same_data_leaves_the_first_ones_ready_file(cluster: Cluster, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.write_text("somebody else's")
    command = [sys.executable, "-m", "kavka", "serve", "--data-dir", str(cluster.data_dir), "--listen", "127.0.0.1:0"]
    done = subprocess.run([*command, "--ready-file", str(ready)], capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert b"in use by another node" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert ready.read_text() == "somebody else's"


# -- listeners --------------------------------------------------------------------------------------


def test_each_listener_advertises_its_own_address(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    command = [sys.executable, "-m", "kavka", "serve", "--data-dir", str(tmp_path / "data"), "--console", "off"]
    for override in (
        "listeners=INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
        "advertised.listeners=OUTSIDE://localhost:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name=INSIDE",
    ):
        command += ["--override", override]
    node = subprocess.Popen([*command, "--ready-file", str(ready)], stdin=subprocess.DEVNULL)
    try:
        began = time.monotonic()
        while not ready.exists():
            assert node.poll() is None
            assert time.monotonic() - began < PATIENCE_S
            time.sleep(0.01)
        outside = json.loads(ready.read_bytes())["bootstrap"]
        assert outside.startswith("localhost:")
        assert seen_through(outside) == outside
        taken = outside.replace("localhost", "127.0.0.1")
        inside = next(address for address in listening_on(node.pid) if address != taken)
        assert seen_through(inside) == inside
    finally:
        node.send_signal(signal.SIGTERM)
        assert node.wait(PATIENCE_S) == 0


def seen_through(bootstrap: str) -> str:
    """The one broker's address as the metadata says through an address."""
    with talk(bootstrap) as raw:
        (broker,) = raw.call(MetadataRequest(topics=[], allow_auto_topic_creation=False), 9).brokers
        return f"{broker.host}:{broker.port}"


def listening_on(pid: int) -> list[str]:
    """Where a process listens on the IPv4 loopback."""
    inodes = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(fd))
    found = []
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
            found.append(f"127.0.0.1:{int(fields[1].partition(':')[2], 16)}")
    return found


# -- topics that come and go --------------------------------------------------------------------------


@pytest.mark.parametrize("restart", ["stop", "kill"])
def test_deleted_records_stay_deleted_over_a_restart(cluster: Cluster, restart: str) -> None:
    with talk(cluster.bootstrap) as raw:
        create(raw, "orders")
        for _ in range(5):
            raw.produce("orders", b"x")
        assert delete_records(raw, "orders", 3) == 3
    getattr(cluster, restart)()
    cluster.start()
    with talk(cluster.bootstrap) as raw:
        assert (offset(raw, "orders", EARLIEST), offset(raw, "orders", LATEST)) == (3, 5)
        assert delete_records(raw, "orders", -1) == 5
    getattr(cluster, restart)()
    cluster.start()
    with talk(cluster.bootstrap) as raw:
        assert (offset(raw, "orders", EARLIEST), offset(raw, "orders", LATEST)) == (5, 5)


def test_a_topic_of_the_same_name_inherits_nothing_not_even_after_a_crash(cluster: Cluster) -> None:
    with talk(cluster.bootstrap) as raw:
        create(raw, "orders", flush_messages=1)
        for _ in range(5):
            raw.produce("orders", b"old")
        assert delete_records(raw, "orders", 3) == 3
        delete(raw, "orders")
        create(raw, "orders")
        for number in range(5):
            assert raw.produce("orders", b"new") == (0, number)
    cluster.kill()
    cluster.start()
    with talk(cluster.bootstrap) as raw:
        assert (offset(raw, "orders", EARLIEST), offset(raw, "orders", LATEST)) == (0, 5)
        code, records = raw.fetch("orders", 0)
        assert (code, records.count(b"new"), records.count(b"old")) == (0, 5, 0)


def test_a_long_poll_on_a_topic_ends_when_the_topic_does(cluster: Cluster) -> None:
    with talk(cluster.bootstrap) as raw, talk(cluster.bootstrap) as other:
        create(raw, "orders")
        raw._socket.sendall(encode_request(12, 1, "test", long_poll("orders", 0, 60_000)))
        time.sleep(0.1)
        began = time.monotonic()
        delete(other, "orders")
        answer = receive(raw, 12)
        assert answer.responses[0].partitions[0].error_code == 3
        assert time.monotonic() - began < 10


def receive(raw: Raw, version: int) -> Any:
    (size,) = struct.unpack(">i", raw._receive(4))
    return parse_response(API[ApiKey.FETCH], version, raw._receive(size))[1]


# -- configuration at run time ------------------------------------------------------------------------


def test_changed_configurations_are_in_force_at_once_and_after_a_restart(cluster: Cluster) -> None:
    with talk(cluster.bootstrap) as raw:
        create(raw, "plain")
        create(raw, "own", max_message_bytes=50_000)
        assert raw.produce("plain", b"x" * 20_000)[0] == 0
        configure(raw, BROKER, "", message_max_bytes=10_000)
        assert raw.produce("plain", b"x" * 20_000)[0] == 10
        assert raw.produce("own", b"x" * 20_000)[0] == 0
        configure(raw, TOPIC, "own", max_message_bytes=5_000)
        assert raw.produce("own", b"x" * 20_000)[0] == 10
    cluster.kill()
    cluster.start()
    with talk(cluster.bootstrap) as raw:
        assert raw.produce("plain", b"x" * 20_000)[0] == 10
        configure(raw, BROKER, "", message_max_bytes=30_000)
        assert raw.produce("plain", b"x" * 20_000)[0] == 0


def test_the_caps_on_connections_can_be_changed_while_the_node_runs(cluster: Cluster) -> None:
    with talk(cluster.bootstrap) as raw:
        create(raw, "orders")
        configure(raw, BROKER, "", max_connections_per_ip=2)
        with talk(cluster.bootstrap) as second:
            assert second.produce("orders", b"x")[0] == 0
            with talk(cluster.bootstrap) as third, pytest.raises(HangupError):
                third.produce("orders", b"x")
            configure(raw, BROKER, "", max_connections_per_ip=100)
            with talk(cluster.bootstrap) as third:
                assert third.produce("orders", b"x")[0] == 0


def test_a_cap_on_connections_that_was_set_while_the_node_ran_holds_after_a_restart(cluster: Cluster) -> None:
    with talk(cluster.bootstrap) as raw:
        create(raw, "orders")
        configure(raw, BROKER, "", max_connections_per_ip=1)
    cluster.restart()
    with talk(cluster.bootstrap) as raw:
        assert raw.produce("orders", b"x")[0] == 0
        with talk(cluster.bootstrap) as second, pytest.raises(HangupError):
            second.produce("orders", b"x")


def test_retention_that_is_switched_on_takes_old_segments_with_a_reader_at_work(tmp_path: Path) -> None:
    config = {"log.retention.check.interval.ms": "200", "log.segment.delete.delay.ms": "0"}
    with Cluster(data_dir=tmp_path / "data", config=config) as cluster, talk(cluster.bootstrap) as raw:
        create(raw, "orders", segment_bytes=1 << 20, retention_ms=-1)  # by size alone: these records have old times
        for _ in range(40):
            assert raw.produce("orders", os.urandom(100_000))[0] == 0
        with talk(cluster.bootstrap) as reader:
            reader._socket.sendall(encode_request(12, 1, "test", long_poll("orders", 0, 0)))
            reader._socket.recv(4, socket.MSG_PEEK)  # the answer is under way, and nobody reads it
            configure(raw, TOPIC, "orders", retention_bytes=1 << 20)
            began = time.monotonic()
            while offset(raw, "orders", EARLIEST) == 0:
                assert time.monotonic() - began < PATIENCE_S
                time.sleep(0.05)
            row = receive(reader, 12).responses[0].partitions[0]
            assert (row.error_code, len(row.records) > 100_000) == (0, True)
        assert raw.fetch("orders", 0)[0] == 1
        assert raw.fetch("orders", offset(raw, "orders", EARLIEST))[0] == 0
        assert "Traceback" not in cluster.log


def test_clients_that_take_every_connection_leave_the_logs_their_descriptors(tmp_path: Path) -> None:
    program = ["sh", "-c", f'ulimit -n 256; exec {sys.executable} -m kavka "$@"', "kavka"]
    with Cluster(data_dir=tmp_path / "data", program=program) as cluster, talk(cluster.bootstrap) as raw:
        assert create(raw, "orders", 40) == 0
        host, _, port = cluster.bootstrap.rpartition(":")
        # More than may, but the backlog takes the rest.
        crowd = [socket.create_connection((host, int(port)), timeout=PATIENCE_S) for _ in range(140)]
        while "max.connections reached" not in cluster.log:
            time.sleep(0.01)
        assert create(raw, "more", 40) == 0
        for topic in ("orders", "more"):
            for index in range(40):
                assert raw.produce(topic, b"x", index)[0] == 0
                assert raw.fetch(topic, 0, index)[0] == 0
        for sock in crowd:
            sock.close()
        with talk(cluster.bootstrap) as newcomer:
            assert newcomer.produce("orders", b"x")[0] == 0
        assert "Too many open files" not in cluster.log


# -- several directories ------------------------------------------------------------------------------


def test_several_log_directories_share_the_partitions_and_are_all_marked_after_a_clean_stop(tmp_path: Path) -> None:
    roots = [tmp_path / name for name in ("one", "two", "metadata")]
    ready = tmp_path / "ready"
    command = [sys.executable, "-m", "kavka", "serve", "--listen", "127.0.0.1:0", "--console", "off"]
    command += ["--override", f"log.dirs={roots[0]},{roots[1]}", "--override", f"metadata.log.dir={roots[2]}"]
    for start in range(2):
        node = subprocess.Popen(
            [*command, "--ready-file", str(ready)], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            began = time.monotonic()
            while not ready.exists():
                assert node.poll() is None
                assert time.monotonic() - began < PATIENCE_S
                time.sleep(0.01)
            assert not any((root / ".kafka_cleanshutdown").exists() for root in roots)
            with talk(json.loads(ready.read_bytes())["bootstrap"]) as raw:
                if start == 0:
                    assert create(raw, "orders", 4) == 0
                for index in range(4):
                    assert raw.produce("orders", b"x", index) == (0, start)
        finally:
            node.send_signal(signal.SIGTERM)
            _, words = node.communicate(timeout=PATIENCE_S)
        assert node.returncode == 0
        assert b"WARN" not in words, words.decode()
        assert all((root / ".kafka_cleanshutdown").exists() for root in roots)
        assert [len(list(root.glob("orders-*"))) for root in roots] == [2, 2, 0]
