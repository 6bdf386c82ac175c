"""kafka-topics: what it prints against the node under test."""

from __future__ import annotations

import re

import pytest
from jvm.tools import Tools

HEADER = r"Topic: {name}\tTopicId: [\w-]{{22}}\tPartitionCount: {partitions}\tReplicationFactor: 1\tConfigs: {configs}"
PARTITION = "\tTopic: {name}\tPartition: {partition}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr:"
# The cluster-wide default that a fresh cluster with eligible leader replicas has.
INHERITED = "min.insync.replicas=1"


def described(lines: list[str], name: str, partitions: int) -> None:
    """Assert that the lines are the description of one topic."""
    header = HEADER.format(name=re.escape(name), partitions=partitions, configs=INHERITED)
    assert re.fullmatch(header, lines[0]), lines[0]
    assert lines[1:] == [PARTITION.format(name=name, partition=number) for number in range(partitions)]


def test_create_says_so(tools: Tools, topic: str) -> None:
    done = tools.topics("--create", "--topic", topic, "--partitions", "3").must_succeed()
    assert done.lines == [f"Created topic {topic}."]


def test_create_twice_is_refused(tools: Tools, made_topic: str) -> None:
    assert "TopicExistsException" in tools.topics("--create", "--topic", made_topic).must_fail().err


def test_create_if_not_exists_is_silent_the_second_time(tools: Tools, made_topic: str) -> None:
    assert tools.topics("--create", "--topic", made_topic, "--if-not-exists").must_succeed().lines == []


def test_create_with_configs_shows_them(tools: Tools, topic: str) -> None:
    configs = ["--config", "cleanup.policy=compact", "--config", "retention.ms=3600000"]
    tools.topics("--create", "--topic", topic, *configs).must_succeed()
    lines = tools.topics("--describe", "--topic", topic).must_succeed().lines
    shown = lines[0].split("Configs: ")[1].split(",")
    assert sorted(shown) == ["cleanup.policy=compact", INHERITED, "retention.ms=3600000"]


def test_create_with_a_manual_assignment(tools: Tools, topic: str) -> None:
    tools.topics("--create", "--topic", topic, "--replica-assignment", "1,1,1").must_succeed()
    described(tools.topics("--describe", "--topic", topic).must_succeed().lines, topic, 3)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--topic", "a/b"], "InvalidTopicException"),
        (["--topic", "x" * 250], "InvalidTopicException"),
        (["--topic", ".."], "InvalidTopicException"),
        (["--topic", "too-many-replicas", "--replication-factor", "3"], "InvalidReplicationFactorException"),
        (["--topic", "no-replicas", "--replication-factor", "0"], "The replication factor must be between 1 and 32767"),
        (["--topic", "no-partitions", "--partitions", "0"], "The partitions must be greater than 0"),
        (["--topic", "elsewhere", "--replica-assignment", "1,9"], "InvalidReplicaAssignmentException"),
        (["--topic", "twice", "--replica-assignment", "1:1"], "may not contain duplicate entries"),
        (
            ["--topic", "odd-config", "--config", "cleanup.policy=shrink"],
            "InvalidConfigurationException|ConfigException",
        ),
    ],
    ids=lambda value: value[1][:20] if isinstance(value, list) else "",
)
def test_create_refuses_bad_arguments(tools: Tools, arguments: list[str], error: str) -> None:
    assert re.search(error, tools.topics("--create", *arguments).must_fail().said)


def test_create_warns_of_a_colliding_name_and_the_second_is_refused(tools: Tools, topic: str) -> None:
    dotted, underscored = f"{topic}.x", f"{topic}_x"
    assert "WARNING" in tools.topics("--create", "--topic", underscored).must_succeed().out
    assert "InvalidTopicException" in tools.topics("--create", "--topic", dotted).must_fail().said


def test_describe_shows_leader_replicas_and_isr(tools: Tools, made_topic: str) -> None:
    described(tools.topics("--describe", "--topic", made_topic).must_succeed().lines, made_topic, 2)


def test_describe_by_topic_id(tools: Tools, made_topic: str) -> None:
    first = tools.topics("--describe", "--topic", made_topic).must_succeed().lines[0]
    topic_id = re.search(r"TopicId: (\S+)", first)
    assert topic_id is not None
    lines = tools.topics("--describe", "--topic-id", topic_id[1]).must_succeed().lines
    described([line.replace("N/A", "").rstrip() for line in lines], made_topic, 2)  # asked by id, the tool knows no ELR


def test_describe_in_pages_of_one_partition(tools: Tools, made_topic: str) -> None:
    paged = tools.topics("--describe", "--topic", made_topic, "--partition-size-limit-per-response", "1")
    described(paged.must_succeed().lines, made_topic, 2)


def test_describe_an_unknown_topic_fails(tools: Tools) -> None:
    done = tools.topics("--describe", "--topic", "nowhere").must_fail()
    assert "Topic 'nowhere' does not exist as expected" in done.out


def test_describe_an_unknown_topic_id_fails(tools: Tools) -> None:
    done = tools.topics("--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAbQ").must_fail()
    assert "does not exist as expected" in done.out


def test_describe_what_is_under_replicated_is_nothing(tools: Tools, made_topic: str) -> None:
    for option in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert tools.topics("--describe", "--topic", made_topic, option).must_succeed().lines == []


def test_describe_what_is_at_min_isr_is_everything(tools: Tools, made_topic: str) -> None:
    lines = tools.topics("--describe", "--topic", made_topic, "--at-min-isr-partitions").must_succeed().lines
    assert lines == [PARTITION.format(name=made_topic, partition=number) for number in range(2)]


def test_describe_topics_with_overrides(tools: Tools, made_topic: str) -> None:
    lines = tools.topics("--describe", "--topics-with-overrides", "--topic", made_topic).must_succeed().lines
    assert len(lines) == 1
    described(lines + [PARTITION.format(name=made_topic, partition=n) for n in range(2)], made_topic, 2)


def test_list_names_topics_in_order(tools: Tools, made_topic: str) -> None:
    lines = tools.topics("--list").must_succeed().lines
    assert made_topic in lines
    assert lines == sorted(lines)


def test_list_by_pattern(tools: Tools, made_topic: str) -> None:
    assert tools.topics("--list", "--topic", made_topic[:-2] + ".*").must_succeed().lines == [made_topic]


def test_alter_adds_partitions(tools: Tools, made_topic: str) -> None:
    assert tools.topics("--alter", "--topic", made_topic, "--partitions", "5").must_succeed().lines == []
    described(tools.topics("--describe", "--topic", made_topic).must_succeed().lines, made_topic, 5)


def test_alter_adds_partitions_where_it_is_told(tools: Tools, made_topic: str) -> None:
    arguments = ["--partitions", "3", "--replica-assignment", "1,1,1"]
    tools.topics("--alter", "--topic", made_topic, *arguments).must_succeed()
    described(tools.topics("--describe", "--topic", made_topic).must_succeed().lines, made_topic, 3)


def test_alter_refuses_fewer_partitions(tools: Tools, made_topic: str) -> None:
    done = tools.topics("--alter", "--topic", made_topic, "--partitions", "1").must_fail()
    assert "InvalidPartitionsException" in done.err


def test_alter_an_unknown_topic_fails(tools: Tools) -> None:
    done = tools.topics("--alter", "--topic", "nowhere", "--partitions", "2").must_fail()
    assert "Topic 'nowhere' does not exist as expected" in done.out


def test_delete_removes_the_topic(tools: Tools, made_topic: str) -> None:
    assert tools.topics("--delete", "--topic", made_topic).must_succeed().lines == []
    assert made_topic not in tools.topics("--list").must_succeed().lines


def test_delete_an_unknown_topic_fails(tools: Tools) -> None:
    done = tools.topics("--delete", "--topic", "nowhere").must_fail()
    assert "Topic 'nowhere' does not exist as expected" in done.out


def test_delete_if_exists_is_silent(tools: Tools) -> None:
    assert tools.topics("--delete", "--topic", "nowhere", "--if-exists").must_succeed().lines == []


def test_a_deleted_name_can_be_used_again_with_a_new_id(tools: Tools, made_topic: str) -> None:
    before = tools.topics("--describe", "--topic", made_topic).must_succeed().lines[0]
    tools.topics("--delete", "--topic", made_topic).must_succeed()
    tools.topics("--create", "--topic", made_topic, "--partitions", "2").must_succeed()
    after = tools.topics("--describe", "--topic", made_topic).must_succeed().lines
    described(after, made_topic, 2)
    assert after[0] != before
