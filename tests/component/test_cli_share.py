"""`kavka consume --share` and `kavka share` against a running node."""

from __future__ import annotations

import json

from component.test_cli_groups import output, run
from json_names import documented
from kavka.testing.plugin import Kavka


def test_a_share_group_is_read_looked_at_moved_and_deleted(kavka: Kavka) -> None:
    topic = kavka.topic()
    output(kavka, "produce", topic, stdin="1\n2\n3\n")
    output(kavka, "share", "reset-offsets", topic, "--topic", topic, "--to", "start", "--execute")
    assert output(kavka, "share", "peek", topic, "--max", "2") == "1\n2\n"
    documented("kavka share peek pickers", output(kavka, "share", "peek", topic, "--output", "json"))
    assert output(kavka, "consume", topic, "--share", topic, "--max", "1") == "1\n"
    assert output(kavka, "consume", topic, "--share", topic, "--release") == "2\n3\n"
    assert output(kavka, "consume", topic, "--share", topic, "--max", "1", "--reject") == "2\n"
    (described,) = json.loads(output(kavka, "share", "describe", topic, "--output", "json"))
    (row,) = described["partitions"]
    assert (row["lag"], row["oldest"] is not None) == (1, True)
    assert output(kavka, "consume", topic, "--share", topic) == "3\n"
    (described,) = json.loads(output(kavka, "share", "describe", topic, "--output", "json"))
    assert [row["lag"] for row in described["partitions"]] == [0]
    moved = json.loads(output(kavka, "share", "reset-offsets", topic, "--to", "-1", "--execute", "--output", "json"))
    assert [one["after"] for one in moved] == [2]
    assert f"{topic} is a share group: `kavka share describe" in run(kavka, "groups", "describe", topic).stderr
    assert output(kavka, "share", "delete", topic) == f"group {topic} deleted\n"
    for command in (("share", "describe"), ("share", "peek"), ("groups", "describe")):
        assert f"Group {topic} not found" in run(kavka, *command, topic).stderr
    assert run(kavka, "consume", topic, "--share", topic, "--group", topic).returncode == 2
    assert run(kavka, "consume", topic, "--share", topic, "--ack", "--reject").returncode == 2
    assert run(kavka, "consume", topic, "--reject").returncode == 2


def test_what_is_done_with_amid_others_is_not_shown(kavka: Kavka) -> None:
    topic = kavka.topic()
    output(kavka, "produce", topic, stdin="1\n2\n3\n4\n")
    output(kavka, "share", "reset-offsets", topic, "--topic", topic, "--to", "start", "--execute")
    times = [json.loads(line)["timestamp"] for line in output(kavka, "consume", topic, "-o", "json").splitlines()]
    with kavka.client.share_consumer(topic, topic, acknowledgement="explicit") as member:
        records = member.read(10_000)
        while len(records) < 4:
            records += member.read(10_000)
        for record, say in zip(records, (member.release, member.accept, member.reject, member.release), strict=True):
            say(record)
        member.commit()
        assert output(kavka, "share", "peek", topic) == "1\n4\n"
        assert oldest(kavka, topic) == times[0]
        records = member.read(10_000)
        member.accept(records[0])
        member.commit()
        assert output(kavka, "share", "peek", topic) == "4\n"
        assert oldest(kavka, topic) == times[3]


def oldest(kavka: Kavka, group: str) -> int:
    (described,) = json.loads(output(kavka, "share", "describe", group, "--output", "json"))
    (row,) = described["partitions"]
    found: int = row["oldest"]
    return found


def test_dead_letters_go_back_to_where_they_came_from(kavka: Kavka) -> None:
    topic, dead = kavka.topic(), kavka.topic()
    output(kavka, "produce", topic, stdin="1\n2\n3\n")
    named = [f"errors.deadletterqueue.topic.name={dead}", "share.auto.offset.reset=earliest"]
    output(kavka, "configs", "alter", "group", topic, *(part for one in named for part in ("--set", one)))
    assert output(kavka, "consume", topic, "--share", topic, "--reject") == "1\n2\n3\n"
    assert output(kavka, "share", "redrive", dead, "--value", "[12]", "--max", "1") == "1 records sent\n"
    assert output(kavka, "share", "redrive", dead, "--value", "[12]", "--rate", "50") == "1 records sent\n"
    assert output(kavka, "share", "redrive", dead) == "0 records sent\n"
    documented("kavka share redrive dlq.pickers", output(kavka, "share", "redrive", dead, "--output", "json"))
    assert output(kavka, "consume", topic, "--share", topic) == "1\n2\n"
