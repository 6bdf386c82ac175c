"""kafka-console-producer and kafka-console-consumer: what goes in comes out."""

from __future__ import annotations

import pytest
from jvm.tools import Tools


def formatted(*names: str) -> list[str]:
    """The options that make the consumer print these parts of a record."""
    return [part for name in names for part in ("--formatter-property", f"print.{name}=true")]


def reader(**properties: str) -> list[str]:
    """Properties of the producer's line reader."""
    return [
        part
        for name, value in properties.items()
        for part in ("--reader-property", f"{name.replace('_', '.')}={value}")
    ]


def from_start(topic: str, messages: int, partition: int = 0) -> list[str]:
    """Read so many records of a partition, by assignment: no group is involved."""
    where = ["--topic", topic, "--partition", str(partition), "--offset", "earliest"]
    return [*where, "--max-messages", str(messages)]


@pytest.fixture
def one_partition(tools: Tools, topic: str) -> str:
    """A topic with one partition."""
    tools.topics("--create", "--topic", topic, "--partitions", "1").must_succeed()
    return topic


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_comes_back(tools: Tools, one_partition: str, codec: str) -> None:
    lines = [f"{codec} line {number}" for number in range(200)]
    produced = tools.console_producer(
        "--topic", one_partition, "--compression-codec", codec, stdin="\n".join(lines).encode() + b"\n"
    )
    assert produced.must_succeed().err == ""
    assert tools.console_consumer(*from_start(one_partition, 200)).must_succeed().lines == lines


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_is_served(tools: Tools, one_partition: str, acks: str) -> None:
    options = ["--topic", one_partition, "--request-required-acks", acks]
    if acks != "all":
        options += ["--command-property", "enable.idempotence=false"]
    assert tools.console_producer(*options, "--sync", stdin=b"a\nb\n").must_succeed().err == ""
    assert tools.console_consumer(*from_start(one_partition, 2)).must_succeed().lines == ["a", "b"]


def test_keys_headers_and_tombstones_come_back(tools: Tools, one_partition: str) -> None:
    options = reader(parse_key="true", key_separator="=", parse_headers="true", null_marker="NULL")
    lines = b"a:1,b:2\tk1=v1\nNULL\tk2=NULL\nc:NULL\tNULL=v3\n"
    assert tools.console_producer("--topic", one_partition, *options, stdin=lines).must_succeed().err == ""
    shown = tools.console_consumer(*from_start(one_partition, 3), *formatted("key", "headers", "offset", "partition"))
    assert shown.must_succeed().lines == [
        "Partition:0\tOffset:0\ta:1,b:2\tk1\tv1",
        "Partition:0\tOffset:1\tNO_HEADERS\tk2\tnull",
        "Partition:0\tOffset:2\tc:null\tnull\tv3",
    ]


def test_the_timestamp_is_shown_with_its_type(tools: Tools, topic: str) -> None:
    tools.topics("--create", "--topic", topic, "--config", "message.timestamp.type=LogAppendTime").must_succeed()
    tools.console_producer("--topic", topic, stdin=b"x\n").must_succeed()
    (line,) = tools.console_consumer(*from_start(topic, 1), *formatted("timestamp")).must_succeed().lines
    assert line.startswith("LogAppendTime:1")


def test_reading_starts_at_an_offset(tools: Tools, one_partition: str) -> None:
    tools.console_producer("--topic", one_partition, stdin=b"a\nb\nc\nd\n").must_succeed()
    where = ["--topic", one_partition, "--partition", "0", "--offset", "2", "--max-messages", "2"]
    assert tools.console_consumer(*where).must_succeed().lines == ["c", "d"]


def test_reading_at_the_end_waits_until_its_timeout(tools: Tools, one_partition: str) -> None:
    tools.console_producer("--topic", one_partition, stdin=b"a\n").must_succeed()
    done = tools.console_consumer("--topic", one_partition, "--partition", "0", "--offset", "latest", timeout_ms=1000)
    assert done.lines == []
    assert "Processed a total of 0 messages" in done.err


def test_read_committed_reads_what_no_transaction_wrote(tools: Tools, one_partition: str) -> None:
    tools.console_producer("--topic", one_partition, stdin=b"a\nb\n").must_succeed()
    done = tools.console_consumer(*from_start(one_partition, 2), "--isolation-level", "read_committed")
    assert done.must_succeed().lines == ["a", "b"]


def test_a_missing_topic_is_created_by_the_first_record(tools: Tools, topic: str) -> None:
    tools.console_producer("--topic", topic, stdin=b"first\n").must_succeed()
    assert topic in tools.topics("--list").must_succeed().lines
    assert tools.console_consumer(*from_start(topic, 1)).must_succeed().lines == ["first"]


def test_a_record_over_the_topics_limit_is_refused(tools: Tools, topic: str) -> None:
    tools.topics("--create", "--topic", topic, "--config", "max.message.bytes=1000").must_succeed()
    done = tools.console_producer("--topic", topic, stdin=b"x" * 2000 + b"\n")
    assert "RecordTooLargeException" in done.err
    assert tools.get_offsets("--topic", topic).must_succeed().lines == [f"{topic}:0:0"]


def test_a_record_without_key_on_a_compacted_topic_is_refused(tools: Tools, topic: str) -> None:
    tools.topics("--create", "--topic", topic, "--config", "cleanup.policy=compact").must_succeed()
    done = tools.console_producer("--topic", topic, stdin=b"no key\n")
    assert "InvalidRecordException" in done.err


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_member_reads_from_the_beginning(tools: Tools, one_partition: str, protocol: str) -> None:
    tools.console_producer("--topic", one_partition, stdin=b"a\nb\nc\n").must_succeed()
    options = ["--topic", one_partition, "--from-beginning", "--max-messages", "3"]
    done = tools.console_consumer(
        *options, "--group", one_partition, "--command-property", f"group.protocol={protocol}"
    )
    assert done.must_succeed().lines == ["a", "b", "c"]


def test_a_group_member_reads_topics_by_pattern(tools: Tools, one_partition: str) -> None:
    tools.console_producer("--topic", one_partition, stdin=b"a\nb\n").must_succeed()
    options = ["--include", f"{one_partition[:-1]}.", "--from-beginning", "--max-messages", "2"]
    assert tools.console_consumer(*options).must_succeed().lines == ["a", "b"]
