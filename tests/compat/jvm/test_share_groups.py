"""Kafka's share consumers and the tools for share groups against the node under test."""

from __future__ import annotations

import json

import pytest
from jvm.test_clients import produce, record
from jvm.tools import Tools, eventually


@pytest.fixture
def group(tools: Tools, topic: str) -> str:
    """A group, named as a topic of one partition with ten records, that begins at the topic's start."""
    tools.topics("--create", "--topic", topic).must_succeed()
    produce(tools, topic, 0, 10).must_succeed()
    tools.configs(
        "--alter", "--entity-type", "groups", "--entity-name", topic, "--add-config", "share.auto.offset.reset=earliest"
    ).must_succeed()
    return topic


def consume(tools: Tools, group: str, count: int, how: str = "implicit", **configs: str) -> list[str]:
    """Deliveries, each with its count."""
    given = [f"{name.replace('_', '.')}={value}" for name, value in configs.items()]
    arguments = [tools.node.bootstrap, group, group, str(count), how, *given]
    return tools.java.run("kavka.compat.ShareConsume", arguments).must_succeed().lines


def rows_of(tools: Tools, group: str) -> list[list[str]]:
    """What the tool shows of a group's offsets: partition, start offset, lag."""
    lines = tools.share_groups("--describe", "--group", group, "--offsets").must_succeed().lines
    return [line.split()[2:5] for line in lines[1:]]


def test_a_share_consumer_reads_everything_once(tools: Tools, group: str) -> None:
    assert consume(tools, group, 10) == [f"{record(number)} #1" for number in range(10)]
    assert consume(tools, group, 0) == []


@pytest.mark.parametrize("mode", ["batch_optimized", "record_limit"])
def test_a_share_consumer_in_small_fetches(tools: Tools, group: str, mode: str) -> None:
    found = consume(tools, group, 10, max_poll_records="3", share_acquire_mode=mode)
    assert sorted(found) == sorted(f"{record(number)} #1" for number in range(10))


def test_records_are_released_rejected_and_accepted(tools: Tools, group: str) -> None:
    found = consume(tools, group, 14, "ACCEPT,RELEASE,REJECT")
    assert sorted(found[:10]) == sorted(f"{record(number)} #1" for number in range(10))
    assert all(line.endswith(("#2", "#3")) for line in found[10:])


def test_a_lock_is_renewed(tools: Tools, group: str) -> None:
    assert consume(tools, group, 10, "RENEW") == [f"{record(number)} #1" for number in range(10)]
    assert consume(tools, group, 0) == []


def test_the_console_share_consumer(tools: Tools, group: str) -> None:
    options = ["--topic", group, "--group", group, "--max-messages", "10"]
    lines = tools.console_share_consumer(*options).must_succeed().lines
    assert sorted(lines) == sorted("null" if number % 4 == 3 else f"value {number}" for number in range(10))


@pytest.mark.parametrize(("how", "again"), [("--release", 10), ("--reject", 0)])
def test_the_console_share_consumer_gives_records_back(tools: Tools, group: str, how: str, again: int) -> None:
    options = ["--topic", group, "--group", group, "--max-messages", "10"]
    assert len(tools.console_share_consumer(*options, how).must_succeed().lines) == 10
    assert len(consume(tools, group, again)) == again


def test_the_verifiable_share_consumer(tools: Tools, group: str) -> None:
    arguments = ["--topic", group, "--group-id", group, "--max-messages", "10"]
    done = tools.verifiable_share_consumer(*arguments)
    said = [json.loads(line) for line in done.lines if line.startswith("{")]
    assert sum(one["count"] for one in said if one["name"] == "records_consumed") == 10
    acknowledged = [one for one in said if one["name"] == "offsets_acknowledged"]
    assert sum(one["count"] for one in acknowledged) == 10
    assert all(one["success"] for one in acknowledged)


def test_the_perf_tool(tools: Tools, group: str) -> None:
    arguments = ["--topic", group, "--group", group, "--num-records", "10", "--timeout", "30000"]
    lines = tools.share_consumer_perf_test(*arguments).must_succeed().lines
    assert "10" in lines[-1].replace(" ", "").split(",")


def test_a_group_is_listed_described_reset_and_deleted(tools: Tools, group: str) -> None:
    assert len(consume(tools, group, 10)) == 10
    assert group in tools.share_groups("--list").must_succeed().lines
    rows = [line.split() for line in tools.groups("--list").must_succeed().lines]
    assert [group, "Share", "share"] in rows
    eventually(lambda: [row[-1] for row in rows_of(tools, group)], ["0"])
    described = tools.share_groups("--describe", "--group", group, "--state").must_succeed()
    assert described.lines[1].split()[-2:] == ["Empty", "0"]
    options = ["--group", group, "--topic", group]
    tools.share_groups("--reset-offsets", *options, "--to-earliest", "--execute").must_succeed()
    assert rows_of(tools, group) == [["0", "0", "10"]]
    assert len(consume(tools, group, 10)) == 10
    tools.share_groups("--delete-offsets", *options).must_succeed()
    assert rows_of(tools, group) == []
    tools.share_groups("--delete", "--group", group).must_succeed()
    assert group not in tools.share_groups("--list").must_succeed().lines


def test_an_unknown_group_is_told(tools: Tools) -> None:
    assert "GroupIdNotFoundException" in tools.share_groups("--describe", "--group", "nobody").said
