"""The commands against a running node: what they print, in both forms, and what they return."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.config import reachable_name
from kavka.client import blocking
from kavka.testing import Cluster
from kavka.testing.plugin import Kavka
from kavka.testing.process import NodeProcess


def kavka_command(kavka: Kavka, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "KAVKA_BOOTSTRAP": kavka.bootstrap}
    command = [sys.executable, "-m", "kavka", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, env=environment, timeout=60, check=False)


def output(kavka: Kavka, *arguments: str, stdin: bytes = b"") -> str:
    done = kavka_command(kavka, *arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def answer(kavka: Kavka, *arguments: str) -> Any:
    return json.loads(output(kavka, *arguments, "--output", "json"))


def test_topics_from_creation_to_deletion(kavka: Kavka) -> None:
    name = kavka.topic() + "-cli"
    created = answer(kavka, "topics", "create", name, "-p", "2", "-c", "retention.ms=1000")
    assert (created["topic"], created["created"], created["partitions"]) == (name, True, 2)
    assert answer(kavka, "topics", "create", name, "--if-not-exists") == {"topic": name, "created": False}
    assert name in {topic["topic"] for topic in answer(kavka, "topics", "list")}
    (described,) = answer(kavka, "topics", "describe", name)
    assert (described["id"], described["configs"]) == (created["id"], {"retention.ms": "1000"})
    assert [row["partition"] for row in described["partitions"]] == [0, 1]
    assert "retention.ms=1000" in output(kavka, "topics", "describe", name)
    assert answer(kavka, "topics", "alter", name, "-p", "3") == {"topic": name, "partitions": 3}
    assert answer(kavka, "topics", "delete", name) == {"deleted": [name]}
    done = kavka_command(kavka, "topics", "delete", name)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"kavka: ")
    assert done.stderr.count(b"\n") == 1
    assert output(kavka, "topics", "delete", name, "--if-exists") == ""


def test_records_are_deleted_and_what_is_left_is_shown(kavka: Kavka) -> None:
    topic = kavka.topic(partitions=2)
    output(kavka, "produce", topic, "--partition", "1", stdin=b"0\n1\n2\n3\n")
    arguments = ["topics", "delete-records", f"{topic}:1", "--before", "-1"]
    planned = kavka_command(kavka, *arguments)
    assert (planned.returncode, planned.stderr) == (0, b"nothing was deleted: add --execute to do it\n")
    assert answer(kavka, *arguments, "--execute") == [{"topic": topic, "partition": 1, "start": 0, "after": 3}]
    (described,) = answer(kavka, "topics", "describe", topic, "--offsets")
    assert [(row["start"], row["end"]) for row in described["partitions"]] == [(0, 0), (3, 4)]
    assert [row["size_bytes"] > 0 for row in described["partitions"]] == [False, True]
    assert "size bytes" in output(kavka, "topics", "describe", topic, "--offsets")
    assert topic in {each["topic"] for each in answer(kavka, "topics", "describe")}
    assert answer(kavka, "topics", "describe", "--under-replicated") == []
    assert output(kavka, "consume", topic) == "3\n"


def test_validation_creates_nothing(kavka: Kavka) -> None:
    name = kavka.topic() + "-cli"
    assert answer(kavka, "topics", "create", name, "--validate-only")["created"] is False
    assert name not in {topic["topic"] for topic in answer(kavka, "topics", "list")}


def test_configs_are_changed_and_shown(kavka: Kavka) -> None:
    topic = kavka.topic()
    output(kavka, "configs", "alter", "topic", topic, "--set", "cleanup.policy=compact", "--set", "retention.ms=5")
    output(kavka, "configs", "alter", "topic", topic, "--append", "cleanup.policy=delete", "--delete", "retention.ms")
    rows = {row["config"]: row for row in answer(kavka, "configs", "describe", "topic", topic)}
    assert rows["cleanup.policy"]["value"] == "compact,delete"
    assert "retention.ms" not in rows
    assert len(answer(kavka, "configs", "describe", "topic", topic, "--all")) > 20
    (row,) = answer(kavka, "configs", "describe", "topic", topic, "--key", "retention.ms")
    assert row["value"] == "604800000"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_go_in_and_come_out(kavka: Kavka, codec: str) -> None:
    topic = kavka.topic()
    lines = "".join(f"key {index}:value {index}, ahoj světe\n" for index in range(300))
    arguments = ["produce", topic, "--key-separator", ":", "--codec", codec, "--header", "a=b"]
    output(kavka, *arguments, stdin=lines.encode())
    assert output(kavka, "consume", topic, "--key-separator", ":") == lines
    first = json.loads(output(kavka, "consume", topic, "--max", "1", "--output", "json"))
    assert (first["key"], first["value"]) == ("key 0", "value 0, ahoj světe")
    assert first["headers"] == [{"name": "a", "value": "b"}]
    assert output(kavka, "consume", topic, "--from", "299") == "value 299, ahoj světe\n"
    assert output(kavka, "consume", topic, "--from", "end") == ""


def test_a_file_goes_to_one_partition(kavka: Kavka, tmp_path: Path) -> None:
    topic = kavka.topic(partitions=3)
    (tmp_path / "lines").write_text("a\nb\n")
    output(kavka, "produce", topic, "--file", str(tmp_path / "lines"), "--partition", "2", "--acks", "1")
    assert output(kavka, "consume", topic, "--partition", "2") == "a\nb\n"
    assert output(kavka, "consume", topic, "--partition", "0", "--partition", "1") == ""


def test_generated_records_are_counted(kavka: Kavka) -> None:
    topic = kavka.topic()
    sent = answer(kavka, "produce", topic, "--count", "5000", "--size", "50", "--key", "k")
    assert (sent["records"], sent["bytes"]) == (5000, 255_000)
    done = kavka_command(kavka, "consume", topic, "--output", "json")
    assert done.stdout.count(b'"key": "k"') == done.stdout.count(b"\n") == 5000


def test_a_typed_line_is_sent_before_the_next_one(kavka: Kavka) -> None:
    topic = kavka.topic()
    environment = {**os.environ, "KAVKA_BOOTSTRAP": kavka.bootstrap}
    command = [sys.executable, "-m", "kavka", "produce", topic]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as producer:
        assert producer.stdin is not None
        with kavka.client.consumer(topic) as consumer:
            for line in (b"one", b"two"):
                producer.stdin.write(line + b"\n")
                producer.stdin.flush()
                assert [record.value for record in consumer.read(timeout_ms=20_000)] == [line]
        producer.stdin.close()
        assert producer.wait(10) == 0


def test_a_bad_line_is_named_and_what_came_before_is_sent(kavka: Kavka) -> None:
    topic = kavka.topic()
    done = kavka_command(kavka, "produce", topic, "-k", ":", stdin=b"a:1\nb:2\nc\n")
    told = b"kavka: line 3 has no key separator ':'; what came before it was sent (records: 2), nothing after it\n"
    assert (done.returncode, done.stderr) == (1, told)
    assert output(kavka, "consume", topic) == "1\n2\n"


def test_a_record_that_is_refused_is_named_and_what_came_before_is_sent(kavka: Kavka) -> None:
    topic = kavka.topic()
    lines = b"one\n" + b"x" * 2_000_000 + b"\nthree\n"
    done = kavka_command(kavka, "produce", topic, "--offsets", stdin=lines)
    assert (done.returncode, done.stdout) == (1, b"0 0\n")
    assert done.stderr.startswith(b"kavka: record 2: a record of ")
    assert done.stderr.endswith(b"; what came before it was sent (records: 1), nothing after it\n")
    assert output(kavka, "consume", topic) == "one\n"


def test_a_topic_goes_through_json_to_another_with_all_it_has(kavka: Kavka) -> None:
    topic, copy = kavka.topic(), kavka.topic()
    headers = [("h", None), ("h", b"\xff")]
    with kavka.client.producer() as producer:
        producer.send(topic, None, key=b"gone", headers=headers, timestamp=1_600_000_000_000)
        producer.send(topic, b"\x00\xff", key=b"", timestamp=1_600_000_000_001)
        producer.send(topic, b"")
    lines = output(kavka, "consume", topic, "--output", "json").encode()
    assert output(kavka, "produce", copy, "--json", stdin=lines) == ""
    with kavka.client.consumer(topic) as first, kavka.client.consumer(copy) as second:
        assert [record[3:] for record in second.until_end()] == [record[3:] for record in first.until_end()]


def test_where_records_went_is_printed(kavka: Kavka, tmp_path: Path) -> None:
    topic = kavka.topic(partitions=2)
    assert output(kavka, "produce", topic, "--partition", "1", "--offsets", stdin=b"a\nb\n") == "1 0\n1 1\n"
    (tmp_path / "report").write_bytes(b"line\nline\n")
    arguments = ["produce", topic, "--file", str(tmp_path / "report"), "--whole", "--key", "r", "-H", "a", "-H", "b=c"]
    told = json.loads(output(kavka, *arguments, "--partition", "0", "--offsets", "--output", "json"))
    assert told == {"partition": 0, "offset": 0}
    assert output(kavka, "produce", topic, "--key", "r", "--tombstone", "--partition", "0") == ""
    shown = output(kavka, "consume", topic, "--partition", "0", "--format", r"%k|%v|%V|%h;")
    assert shown == "r|line\nline\n|10|a=,b=c;r||-1|;"


def test_a_rate_is_kept(kavka: Kavka) -> None:
    topic = kavka.topic()
    told = answer(kavka, "produce", topic, "--count", "11", "--rate", "20")
    assert (told["records"], told["seconds"] >= 0.5) == (11, True)


def test_reading_begins_and_ends_where_it_is_told(kavka: Kavka) -> None:
    first, second = kavka.topic(), kavka.topic()
    with kavka.client.producer() as producer:
        for number in range(10):
            headers = [("even", b"yes")] if number % 2 == 0 else []
            producer.send(first, b"%d" % number, key=b"k%d" % number, timestamp=1000 * number, headers=headers)
        producer.send(second, b"other", timestamp=5000)

    def shown(*arguments: str) -> str:
        return output(kavka, "consume", *arguments).replace("\n", " ").strip()

    assert shown(first, "--from", "-3") == "7 8 9"
    assert shown(first, "--from", "-99") == shown(first) == "0 1 2 3 4 5 6 7 8 9"
    assert shown(first, "--from", "2", "--until", "4") == "2 3"
    assert shown(first, "--from", "@2000", "--until", "1970-01-01T00:00:05") == "2 3 4"
    assert shown(first, "--until", "-8") == "0 1"
    assert shown(first, "--from", "-1d") == ""  # their times are long ago
    assert shown(first, "--key", "k[24]", "--header", "even") == "2 4"
    assert shown(first, "--value", "^[5-9]$", "--header", "even=yes", "--max", "1") == "6"
    assert sorted(shown(first, second, "--from", "-1").split()) == ["9", "other"]
    prefix = first.rpartition("-")[0]
    assert sorted(shown("--pattern", f"{prefix}-.*", "--from", "-1").split()) == ["9", "other"]
    assert shown(first, "--group", first, "--from", "-2", "--max", "1") == "8"
    assert shown(first, "--group", first, "--from", "start") == "9"
    assert shown("--pattern", f"{prefix}-.*", "--group", prefix, "--from", "@9000", "--value", "9|o") == "9"


def test_following_shows_what_comes_and_ends_quietly(kavka: Kavka) -> None:
    topic = kavka.topic()
    environment = {**os.environ, "KAVKA_BOOTSTRAP": kavka.bootstrap}
    command = [sys.executable, "-m", "kavka", "consume", topic, "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        for line in (b"one\n", b"two\n"):
            output(kavka, "produce", topic, stdin=line)
            assert follower.stdout.readline() == line
        follower.send_signal(signal.SIGINT)
        assert follower.wait(10) == 130
        assert follower.stderr.read() == b""


def test_a_reader_that_leaves_is_no_error(kavka: Kavka) -> None:
    topic = kavka.topic()
    output(kavka, "produce", topic, "--count", "20000", "--output", "json")
    environment = {**os.environ, "KAVKA_BOOTSTRAP": kavka.bootstrap}
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m kavka consume {topic} -o json | head -n 1 | wc -l"],
        capture_output=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == (b"1", b"")


def test_a_broker_in_service_is_not_forgotten(kavka: Kavka) -> None:
    done = kavka_command(kavka, "cluster", "unregister", "1")
    assert (done.returncode, done.stderr) == (1, b"kavka: node 1 is in service: stop it first\n")
    assert len(answer(kavka, "cluster", "describe")["nodes"]) == 1


def test_the_cluster_is_described(kavka: Kavka) -> None:
    described = answer(kavka, "cluster", "describe")
    assert len(described["cluster_id"]) == 22
    assert [node["address"] for node in described["nodes"]] == [kavka.bootstrap]
    assert described["quorum"]["leader"] == described["nodes"][0]["node"]
    assert described["features"]["metadata.version"] == 30
    assert f"cluster {described['cluster_id']}" in output(kavka, "cluster", "describe")


def test_a_directory_may_be_written_with_a_slash_at_its_end(kavka: Kavka) -> None:
    topic = kavka.topic()
    directory = answer(kavka, "disks", "describe")[0]["directory"]
    moved = output(kavka, "disks", "move", f"{topic}:0", "--node", "1", "--to", f"{directory}/")
    assert moved == f"1 replicas of node 1 moved to {directory}\n"


def test_a_page_of_metrics_that_is_not_there_leaves_the_rest_shown(kavka: Kavka) -> None:
    done = kavka_command(kavka, "top", "--count", "1", "--interval", "0.2", "--metrics", "127.0.0.1:1")
    assert (done.returncode, done.stdout[:3]) == (0, b"in:")
    assert done.stderr == b"not known: the clients of the node at 127.0.0.1:1 (Connection refused)\n"


def test_the_log_of_a_node_can_be_read(kavka: Kavka, tmp_path: Path) -> None:
    with Cluster(data_dir=tmp_path / "data") as cluster:
        node = Kavka(cluster.bootstrap, cluster, "t")
        topic = node.topic()
        output(node, "produce", topic, stdin=b"hello\n")
        segment = tmp_path / "data" / f"{topic}-0" / f"{'0' * 20}.log"
        header, record = map(json.loads, output(node, "log", "dump", "-d", "-o", "json", str(segment)).splitlines())
        assert (header["count"], record["value"]) == (1, "hello")
        metadata = tmp_path / "data" / "__cluster_metadata-0" / f"{'0' * 20}.log"
        rows = [
            json.loads(line) for line in output(node, "log", "dump", "-d", "-o", "json", str(metadata)).splitlines()
        ]
        assert topic in [row["record"]["name"] for row in rows if row.get("type") == "TopicRecord"]
        node.close()


@pytest.mark.parametrize(("level", "speaks"), [("info", True), ("error", False)])
def test_a_node_speaks_json_and_as_much_as_is_asked_for(level: str, speaks: bool, tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "home", os.environ, 30)
    where = ["--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--ready-file", str(node.ready_file)]
    node.spawn([sys.executable, "-m", "kavka", "serve", *where, "--log-format", "json", "--log-level", level])
    try:
        node.await_ready()
        node.ask_to_stop()
        assert node.await_end(30) == 0
    finally:
        node.kill()
    lines = [json.loads(line) for line in node.words]
    assert [line for line in lines if not {"time", "level", "logger", "message"} <= line.keys()] == []
    assert any("serves 127.0.0.1:" in line["message"] for line in lines) == bool(lines) == speaks


def test_a_node_tells_in_one_line_why_it_cannot_start(kavka: Kavka, tmp_path: Path) -> None:
    def serve(*options: str) -> tuple[int, str]:
        done = kavka_command(kavka, "serve", "--ready-file", str(tmp_path / "ready"), *options)
        return done.returncode, done.stderr.decode()

    taken = serve("--data-dir", str(tmp_path / "a"), "--listen", kavka.bootstrap)
    (tmp_path / "file").write_text("")
    foreign = serve("--data-dir", str(tmp_path / "file"), "--listen", "127.0.0.1:0")
    below = serve("--data-dir", str(tmp_path / "file" / "below"), "--listen", "127.0.0.1:0")
    wrong = serve("--override", "num.partitions=many")
    assert foreign[1] == f"kavka: log.dirs: {tmp_path}/file is a file, not a directory\n"
    assert below[1] == f"kavka: log.dirs: {tmp_path}/file/below: Not a directory\n"
    for code, told in (taken, foreign, below, wrong):
        assert "Errno" not in told
        assert code == 1
        assert told.startswith("kavka: ")
        assert told.count("\n") == 1
    assert not (tmp_path / "ready").exists()


@pytest.mark.parametrize(
    ("options", "host"),
    [
        (["--listen", "0.0.0.0:0"], reachable_name()),
        (["--listen", "[::]:0"], reachable_name()),
        (["--override", "listeners=PLAINTEXT://:0"], reachable_name()),
        (["--listen", "0.0.0.0:0", "--advertise", "localhost"], "localhost"),
    ],
    ids=["IPv4", "IPv6", "no host", "told otherwise"],
)
def test_a_node_that_listens_everywhere_tells_clients_a_name(options: list[str], host: str, tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "home", os.environ, 30)
    command = [sys.executable, "-m", "kavka", "serve", "--data-dir", str(tmp_path / "data"), *options]
    node.spawn([*command, "--ready-file", str(node.ready_file)])
    try:
        node.await_ready()
        assert node.ready["bootstrap"].rpartition(":")[0] == host
        assert f"clients are told to connect to {host}\n" in node.log
        port = node.ready["bootstrap"].rpartition(":")[2]
        by_ipv6 = [f"[::1]:{port}"] if socket.has_dualstack_ipv6() else []
        for address in (f"127.0.0.1:{port}", node.ready["bootstrap"], *by_ipv6):
            with blocking.Client(address) as client:
                assert [each.host for each in client.admin.describe_cluster().nodes] == [host]
    finally:
        node.kill()
