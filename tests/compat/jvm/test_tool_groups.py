"""kafka-consumer-groups and kafka-groups: list, describe, reset, delete."""

from __future__ import annotations

import pytest
from jvm.tools import Tools


@pytest.fixture(params=["classic", "consumer"])
def group(request: pytest.FixtureRequest, tools: Tools, made_topic: str) -> str:
    """An empty group, named as the topic whose four records (two each in partitions 0 and 1) it has read."""
    for partition in ("0", "1"):
        tools.java.run("kavka.compat.Produce", [tools.node.bootstrap, made_topic, partition, "2"]).must_succeed()
    options = ["--topic", made_topic, "--group", made_topic, "--from-beginning", "--max-messages", "4"]
    tools.console_consumer(*options, "--command-property", f"group.protocol={request.param}").must_succeed()
    return made_topic


def test_a_group_is_listed(tools: Tools, group: str) -> None:
    assert group in tools.consumer_groups("--list").must_succeed().lines


def test_a_group_is_listed_with_its_state(tools: Tools, group: str) -> None:
    rows = [line.split() for line in tools.consumer_groups("--list", "--state").must_succeed().lines]
    assert rows[0] == ["GROUP", "STATE"]
    assert [group, "Empty"] in rows


def test_a_group_is_listed_with_its_type(tools: Tools, group: str) -> None:
    rows = [line.split() for line in tools.groups("--list").must_succeed().lines]
    assert rows[0] == ["GROUP", "TYPE", "PROTOCOL"]
    assert [group, "Consumer" if "consumer" in group else "Classic", "consumer"] in rows


def test_describe_shows_offsets_and_lag(tools: Tools, group: str) -> None:
    done = tools.consumer_groups("--describe", "--group", group).must_succeed()
    assert f"Consumer group '{group}' has no active members." in done.err
    assert [line.split()[1:6] for line in done.lines[1:]] == [
        [group, "0", "2", "2", "0"],
        [group, "1", "2", "2", "0"],
    ]


def test_describe_shows_no_members(tools: Tools, group: str) -> None:
    done = tools.consumer_groups("--describe", "--group", group, "--members").must_succeed()
    assert [line.split() for line in done.lines] == [["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]]


def test_describe_shows_the_state(tools: Tools, group: str) -> None:
    done = tools.consumer_groups("--describe", "--group", group, "--state").must_succeed()
    assert done.lines[1].split()[:2] == [group, tools.node.bootstrap]
    assert done.lines[1].split()[-2:] == ["Empty", "0"]


def test_describe_an_unknown_group_says_so(tools: Tools) -> None:
    assert "GroupIdNotFoundException" in tools.consumer_groups("--describe", "--group", "nobody").out


@pytest.mark.parametrize(
    ("how", "offsets"),
    [
        (["--to-earliest"], ["0", "0"]),
        (["--to-latest"], ["2", "2"]),
        (["--shift-by", "-1"], ["1", "1"]),
        (["--to-offset", "1"], ["1", "1"]),
        (["--to-datetime", "2023-11-14T22:13:21.000"], ["1", "1"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_reset_offsets(tools: Tools, group: str, how: list[str], offsets: list[str]) -> None:
    selected = ["--group", group, "--topic", group]
    for mode in ("--dry-run", "--execute"):
        lines = tools.consumer_groups("--reset-offsets", *selected, *how, mode).must_succeed().lines
        rows = sorted(line.split() for line in lines[1:])
        assert rows == [[group, group, str(number), offset] for number, offset in enumerate(offsets)]
    done = tools.consumer_groups("--describe", "--group", group).must_succeed()
    assert [line.split()[3] for line in done.lines[1:]] == offsets


def test_delete_offsets(tools: Tools, group: str) -> None:
    lines = tools.consumer_groups("--delete-offsets", "--group", group, "--topic", group).must_succeed().lines
    assert lines[0] == f"Request succeeded for deleting offsets from group {group}."
    assert [line.split() for line in lines[2:]] == [[group, str(number), "Successful"] for number in (0, 1)]


def test_delete_removes_the_group(tools: Tools, group: str) -> None:
    done = tools.consumer_groups("--delete", "--group", group).must_succeed()
    assert done.lines == [f"Deletion of requested consumer groups ('{group}') was successful."]
    assert group not in tools.consumer_groups("--list").must_succeed().lines


def test_delete_an_unknown_group_says_so(tools: Tools) -> None:
    assert "GroupIdNotFoundException" in tools.consumer_groups("--delete", "--group", "nobody").out
