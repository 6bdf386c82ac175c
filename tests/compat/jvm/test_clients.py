"""The Java producer, consumer and admin client (drivers in java/) against the node under test."""

from __future__ import annotations

import pytest
from jvm.java_tools import Outcome
from jvm.tools import Tools

FIRST_TIMESTAMP = 1_700_000_000_000


def produce(tools: Tools, topic: str, partition: int, count: int, **configs: str) -> Outcome:
    """Write the records of Clients.record."""
    given = [f"{name.replace('_', '.')}={value}" for name, value in configs.items()]
    return tools.java.run("kavka.compat.Produce", [tools.node.bootstrap, topic, str(partition), str(count), *given])


def consume(tools: Tools, topic: str, how: str, where: str, count: int, **configs: str) -> list[str]:
    """Read records; a line of positions and then one per record."""
    given = [f"{name.replace('_', '.')}={value}" for name, value in configs.items()]
    arguments = [tools.node.bootstrap, topic, how, where, str(count), *given]
    return tools.java.run("kavka.compat.Consume", arguments).must_succeed().lines


def admin(tools: Tools, topic: str, call: str) -> list[str]:
    """Run a group of admin calls."""
    return tools.java.run("kavka.compat.AdminCalls", [tools.node.bootstrap, topic, call]).must_succeed().lines


def record(number: int, offset: int | None = None, partition: int = 0) -> str:
    """What Clients.print says of record number of Clients.record."""
    value = "null" if number % 4 == 3 else f"value {number}"
    headers = f" number:{number} empty:null" if number % 3 == 2 else ""
    at = number if offset is None else offset
    return f"{partition}@{at} CreateTime:{FIRST_TIMESTAMP + number * 1000} key {number}={value}{headers}"


@pytest.fixture
def ten_records(tools: Tools, topic: str) -> str:
    """A topic of one partition with ten records."""
    tools.topics("--create", "--topic", topic).must_succeed()
    assert produce(tools, topic, 0, 10).must_succeed().lines == ["10 acknowledged, offsets 0 to 9"]
    return topic


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", ["true", "false"])
def test_the_producer_and_the_consumer_agree(tools: Tools, topic: str, codec: str, idempotent: str) -> None:
    tools.topics("--create", "--topic", topic).must_succeed()
    done = produce(tools, topic, 0, 100, compression_type=codec, enable_idempotence=idempotent, linger_ms="20")
    assert done.must_succeed().lines == ["100 acknowledged, offsets 0 to 99"]
    lines = consume(tools, topic, "assign", "beginning", 100)
    assert lines == [f"from {topic}-0 0 to 100", *(record(number) for number in range(100))]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_the_producer_with_each_acks(tools: Tools, topic: str, acks: str) -> None:
    tools.topics("--create", "--topic", topic).must_succeed()
    idempotent = "true" if acks == "all" else "false"
    last = "-1 to -1" if acks == "0" else "0 to 19"
    done = produce(tools, topic, 0, 20, acks=acks, enable_idempotence=idempotent)
    assert done.must_succeed().lines == [f"20 acknowledged, offsets {last}"]
    assert len(consume(tools, topic, "assign", "beginning", 20)) == 21


def test_a_record_over_the_limit_is_refused_and_the_rest_is_kept(tools: Tools, topic: str) -> None:
    tools.topics("--create", "--topic", topic, "--config", "max.message.bytes=80").must_succeed()
    done = produce(tools, topic, 0, 3, batch_size="0")
    assert done.must_succeed().lines == ["RecordTooLargeException", "2 acknowledged, offsets 0 to 1"]


def test_a_timestamp_outside_the_bounds_is_refused(tools: Tools, topic: str) -> None:
    tools.topics("--create", "--topic", topic, "--config", "message.timestamp.before.max.ms=1000").must_succeed()
    done = produce(tools, topic, 0, 1)
    assert done.must_succeed().lines == ["InvalidTimestampException", "0 acknowledged, offsets -1 to -1"]


@pytest.mark.parametrize(
    ("where", "first"),
    [("beginning", 0), ("offset:6", 6), ("time:1700000004500", 5), ("time:1700000004000", 4), ("end", 10)],
)
def test_the_consumer_starts_where_it_is_told(tools: Tools, ten_records: str, where: str, first: int) -> None:
    lines = consume(tools, ten_records, "assign", where, 10 - first)
    assert lines == [f"from {ten_records}-0 {first} to 10", *(record(number) for number in range(first, 10))]


def test_the_consumer_is_reset_when_its_offset_is_out_of_range(tools: Tools, ten_records: str) -> None:
    lines = consume(tools, ten_records, "assign", "offset:5000", 10)
    assert lines[1:] == [record(number) for number in range(10)]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("fetch", ["1", "100"])
def test_the_consumer_in_small_fetches(tools: Tools, ten_records: str, isolation: str, fetch: str) -> None:
    sizes = {"max_partition_fetch_bytes": fetch, "fetch_max_bytes": fetch, "max_poll_records": "3"}
    lines = consume(tools, ten_records, "assign", "beginning", 10, isolation_level=isolation, **sizes)
    assert lines[1:] == [record(number) for number in range(10)]


@pytest.mark.parametrize("fetch", ["1", "100", "150", "250"])
@pytest.mark.parametrize("limit", ["fetch_max_bytes", "max_partition_fetch_bytes"])
def test_the_consumer_of_many_partitions_in_small_fetches(tools: Tools, topic: str, limit: str, fetch: str) -> None:
    tools.topics("--create", "--topic", topic, "--partitions", "10").must_succeed()
    for partition in range(10):
        produce(tools, topic, partition, 1).must_succeed()
    lines = consume(tools, topic, "assign", "beginning", 10, **{limit: fetch})
    assert sorted(lines[10:]) == [record(0, partition=partition) for partition in range(10)]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_of_a_group_reads_and_commits(tools: Tools, ten_records: str, protocol: str) -> None:
    group = {"group_id": ten_records, "group_protocol": protocol}
    assert consume(tools, ten_records, "subscribe", "-", 10, **group) == [record(number) for number in range(10)]
    assert consume(tools, ten_records, "subscribe", "-", 0, **group) == []


@pytest.mark.parametrize(("end", "seen"), [("commit", 4), ("abort", 0)])
def test_a_transaction_is_read_as_it_ended(tools: Tools, made_topic: str, end: str, seen: int) -> None:
    done = tools.java.run("kavka.compat.Transact", [tools.node.bootstrap, made_topic, end])
    assert done.must_succeed().lines == ["done"]
    lines = consume(tools, made_topic, "assign", "beginning", seen, isolation_level="read_committed")
    assert len(lines) == 2 + seen
    assert len(consume(tools, made_topic, "assign", "beginning", 4)) == 2 + 4


def test_a_transaction_commits_offsets(tools: Tools, made_topic: str) -> None:
    done = tools.java.run("kavka.compat.Transact", [tools.node.bootstrap, made_topic, "offsets"])
    assert done.must_succeed().lines == ["done"]
    rows = tools.consumer_groups("--describe", "--group", made_topic).must_succeed().lines
    assert rows[1].split()[1:4] == [made_topic, "0", "1"]


def test_a_second_producer_of_a_transactional_id_fences_the_first(tools: Tools, made_topic: str) -> None:
    done = tools.java.run("kavka.compat.Transact", [tools.node.bootstrap, made_topic, "fence"])
    assert done.must_succeed().lines == ["fenced", "done"]


def test_admin_creates_topics(tools: Tools, topic: str) -> None:
    assert admin(tools, topic, "createTopics") == [
        "validated ok partitions 3",
        "listed false",
        "created ok other InvalidTopicException",
        "partitions 3 replicas 1",
        "retention 5000",
        "configs 33",
        "id set",
        "again TopicExistsException",
        "again validated TopicExistsException",
    ]


def test_admin_knows_topics_by_id(tools: Tools, topic: str) -> None:
    assert admin(tools, topic, "topicIds") == [
        f"by id {topic} 2 internal false",
        "same id true",
        "unknown id UnknownTopicIdException",
        "deleted ok",
        "deleted again UnknownTopicIdException",
        "by name UnknownTopicOrPartitionException",
    ]


def test_admin_adds_partitions(tools: Tools, topic: str) -> None:
    assert admin(tools, topic, "createPartitions") == [
        "validated ok",
        "count 1",
        "increased ok",
        "count 4",
        "fewer InvalidPartitionsException",
        "misplaced InvalidReplicaAssignmentException",
        "unknown UnknownTopicOrPartitionException",
    ]


def test_admin_changes_configs(tools: Tools, topic: str) -> None:
    assert admin(tools, topic, "configs") == [
        "set ok",
        "append ok",
        "policy compact,delete DYNAMIC_TOPIC_CONFIG",
        "subtract ok",
        "policy delete DYNAMIC_TOPIC_CONFIG",
        "append to a number InvalidConfigurationException",
        "validated ok",
        "retention 604800000 DEFAULT_CONFIG",
        "wrong InvalidConfigurationException",
        "unknown name InvalidConfigurationException",
        "deleted ok",
        "policy delete DEFAULT_CONFIG",
        "unknown topic UnknownTopicOrPartitionException",
        "describe unknown UnknownTopicOrPartitionException",
    ]


def test_admin_sees_the_details_of_configs(tools: Tools, topic: str) -> None:
    assert admin(tools, topic, "configDetails") == [
        "message.max.bytes=1048588 INT DEFAULT_CONFIG sensitive false read-only false synonyms 1 documented true",
        "log.retention.ms=null LONG DEFAULT_CONFIG sensitive false read-only false synonyms 0 documented true",
        "broker.id=1 INT STATIC_BROKER_CONFIG sensitive false read-only true synonyms 2 documented true",
        "ssl.key.password=null PASSWORD DEFAULT_CONFIG sensitive true read-only false synonyms 0 documented true",
        "log.cleaner.threads=1 INT DEFAULT_CONFIG sensitive false read-only false synonyms 1 documented true",
        "types [BOOLEAN, CLASS, DOUBLE, INT, LIST, LONG, PASSWORD, SHORT, STRING]",
    ]


def test_admin_lists_what_has_configs(tools: Tools, topic: str) -> None:
    assert admin(tools, topic, "configResources") == ["this topic true", "brokers [BROKER:1]"]


def test_admin_finds_offsets(tools: Tools, ten_records: str) -> None:
    assert admin(tools, ten_records, "offsets") == [
        "earliest 0 -1 Optional[0]",
        "earliest local 0 -1 Optional[0]",
        "latest 10 -1 Optional[0]",
        "latest tiered -1 -1 Optional.empty",
        "max timestamp 9 1700000009000 Optional[0]",
        "time 0 0 1700000000000 Optional[0]",
        "time 1700000003500 4 1700000004000 Optional[0]",
        "time too late -1 -1 Optional.empty",
        "committed 10 -1 Optional[0]",
        "deleted ok",
        "earliest 4 -1 Optional[0]",
        "time 0 4 1700000004000 Optional[0]",
    ]


def test_admin_describes_the_cluster(tools: Tools, topic: str) -> None:
    lines = admin(tools, topic, "cluster")
    assert lines[0] == "nodes [1 127.0.0.1 null]"
    assert lines[1] == "controller 1"
    assert lines[2] == (
        "operations [CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE]"
    )
    assert lines[3] == "leader 1 voters 1 observers 0"
    assert lines[4] == "voter 1 directory set"
    assert "metadata.version=FinalizedVersionRange[min_version_level:30, max_version_level:30]" in lines[5]
    assert lines[6] == "dirs [null total true usable true]"
