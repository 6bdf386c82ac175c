"""kafka-leader-election and kafka-reassign-partitions: what they print against the node under test."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jvm.tools import Tools, eventually


def assignment_file(folder: Path, topic: str, replicas: list[int]) -> str:
    """Wanted replicas of partition 0."""
    path = folder / "assignment.json"
    row = {"topic": topic, "partition": 0, "replicas": replicas}
    path.write_text(json.dumps({"version": 1, "partitions": [row]}))
    return str(path)


def test_the_preferred_leader_is_there_already(tools: Tools, made_topic: str) -> None:
    done = tools.leader_election("--election-type", "preferred", "--topic", made_topic, "--partition", "0")
    assert done.must_succeed().lines == [f"Valid replica already elected for partitions {made_topic}-0"]


def test_an_election_in_all_partitions_has_nothing_to_do(tools: Tools) -> None:
    assert tools.leader_election("--election-type", "unclean", "--all-topic-partitions").must_succeed().lines == []


def test_an_election_in_an_unknown_topic_fails(tools: Tools) -> None:
    done = tools.leader_election("--election-type", "preferred", "--topic", "nowhere", "--partition", "0").must_fail()
    assert "UnknownTopicOrPartitionException" in done.out
    assert "1 replica(s) could not be elected" in done.err


def test_a_reassignment_to_where_it_is_completes(tools: Tools, made_topic: str, tmp_path: Path) -> None:
    wanted = ["--reassignment-json-file", assignment_file(tmp_path, made_topic, [1])]
    started = tools.reassign_partitions(*wanted, "--execute").must_succeed()
    assert started.lines[-1] == f"Successfully started partition reassignment for {made_topic}-0"
    assert tools.reassign_partitions(*wanted, "--verify").must_succeed().lines == [
        "Status of partition reassignment:",
        f"Reassignment of partition {made_topic}-0 is completed.",
        "Clearing broker-level throttles on broker 1",
        f"Clearing topic-level throttles on topic {made_topic}",
    ]


def test_a_reassignment_to_an_unknown_broker_is_refused(tools: Tools, made_topic: str, tmp_path: Path) -> None:
    wanted = ["--reassignment-json-file", assignment_file(tmp_path, made_topic, [7])]
    assert "Unknown broker id 7" in tools.reassign_partitions(*wanted, "--execute").must_fail().said


def test_no_reassignment_is_under_way(tools: Tools) -> None:
    assert tools.reassign_partitions("--list").must_succeed().lines == ["No partition reassignments found."]


def test_cancelling_what_is_not_under_way(tools: Tools, made_topic: str, tmp_path: Path) -> None:
    wanted = ["--reassignment-json-file", assignment_file(tmp_path, made_topic, [1])]
    done = tools.reassign_partitions(*wanted, "--cancel").must_succeed()
    assert done.lines[0] == "None of the specified partition reassignments are active."


def test_a_reassignment_is_proposed(tools: Tools, made_topic: str, tmp_path: Path) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": made_topic}]}))
    done = tools.reassign_partitions("--topics-to-move-json-file", str(topics), "--broker-list", "1", "--generate")
    title, current, proposed_title, proposed = done.must_succeed().lines
    assert title == "Current partition replica assignment"
    assert proposed_title == "Proposed partition reassignment configuration"
    folder = str(tools.node.data_dir)
    rows = [{"topic": made_topic, "partition": number, "replicas": [1]} for number in (0, 1)]
    assert json.loads(current)["partitions"] == [{**row, "log_dirs": [folder]} for row in rows]
    assert json.loads(proposed)["partitions"] == [{**row, "log_dirs": ["any"]} for row in rows]


@pytest.mark.parametrize("throttle", ["--throttle", "--replica-alter-log-dirs-throttle"])
def test_a_throttled_reassignment_sets_and_clears_the_throttles(
    tools: Tools, made_topic: str, tmp_path: Path, throttle: str
) -> None:
    wanted = ["--reassignment-json-file", assignment_file(tmp_path, made_topic, [1])]
    started = tools.reassign_partitions(*wanted, "--execute", throttle, "10000000").must_succeed()
    assert re.search(r"limit was set to 10000000 B/s", started.out)
    assert "Clearing broker-level throttles" in tools.reassign_partitions(*wanted, "--verify").must_succeed().out
    entity = ["--entity-type", "brokers", "--entity-name", "1"]
    eventually(lambda: tools.configs("--describe", *entity).lines, ["Dynamic configs for broker 1 are:"])
