"""`kavka consume --share` and `kavka share` against a running node."""

from __future__ import annotations

import json

from component.test_cli_groups import output, run
from kavka.testing.plugin import Kavka


def test_a_share_group_is_read_looked_at_moved_and_deleted(kavka: Kavka) -> None:
    topic = kavka.topic()
    output(kavka, "produce", topic, stdin="1\n2\n3\n")
    output(kavka, "share", "reset-offsets", topic, "--topic", topic, "--to", "start", "--execute")
    assert output(kavka, "share", "peek", topic, "--max", "2") == "1\n2\n"
    assert output(kavka, "consume", topic, "--share", topic, "--max", "1") == "1\n"
    assert output(kavka, "consume", topic, "--share", topic, "--acknowledge", "release") == "2\n3\n"
    assert output(kavka, "consume", topic, "--share", topic, "--max", "1", "--acknowledge", "reject") == "2\n"
    (described,) = json.loads(output(kavka, "share", "describe", topic, "--output", "json"))
    (row,) = described["partitions"]
    assert (row["lag"], row["oldest"] is not None) == (1, True)
    assert output(kavka, "consume", topic, "--share", topic) == "3\n"
    (described,) = json.loads(output(kavka, "share", "describe", topic, "--output", "json"))
    assert [row["lag"] for row in described["partitions"]] == [0]
    moved = json.loads(output(kavka, "share", "reset-offsets", topic, "--to", "-1", "--execute", "--output", "json"))
    assert [one["after"] for one in moved] == [2]
    assert output(kavka, "share", "delete", topic) == f"group {topic} deleted\n"
    assert run(kavka, "share", "describe", topic).returncode == 1
    assert run(kavka, "consume", topic, "--share", topic, "--group", topic).returncode == 2


def test_dead_letters_go_back_to_where_they_came_from(kavka: Kavka) -> None:
    topic, dead = kavka.topic(), kavka.topic()
    output(kavka, "produce", topic, stdin="1\n2\n3\n")
    named = [f"errors.deadletterqueue.topic.name={dead}", "share.auto.offset.reset=earliest"]
    output(kavka, "configs", "alter", "group", topic, *(part for one in named for part in ("--set", one)))
    assert output(kavka, "consume", topic, "--share", topic, "--acknowledge", "reject") == "1\n2\n3\n"
    assert output(kavka, "share", "redrive", dead, "--value", "[12]", "--max", "1") == "1 records sent\n"
    assert output(kavka, "share", "redrive", dead, "--value", "[12]", "--rate", "50") == "1 records sent\n"
    assert output(kavka, "share", "redrive", dead) == "0 records sent\n"
    assert output(kavka, "consume", topic, "--share", topic) == "1\n2\n"
