"""kafka-streams-groups prints the same of a group on Kavka as of the same group on Apache Kafka."""

from __future__ import annotations

import re
from typing import Any

import pytest
from jvm.differential.areas.group_offsets import commit
from jvm.differential.areas.streams_groups import beat, configure, internal, joins, part, topology
from jvm.differential.areas.topics import create, topic
from jvm.differential.case import Case
from jvm.differential.talk import Talker
from jvm.java_tools import Java, Outcome
from jvm.nodes import KAVKA, Node, target
from jvm.streams_app import until

from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest

TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
GROUP = "tool-streams"
SETUP: list[Case] = [
    Case("topics", create(topic("tool-words", 3), topic("tool-streams-log-changelog", 3)), 7),
    Case("no waiting", configure(GROUP, "streams.initial.rebalance.delay.ms", "0"), 1),
    Case("no pause", configure(GROUP, "streams.assignment.interval.ms", "0"), 1),
    Case(
        "joins",
        joins(
            GROUP,
            "member-1",
            topology=topology(
                part(sources=("tool-words",), state_changelog_topics=[internal("tool-streams-log-changelog")])
            ),
        ),
        0,
    ),
]


class Both:
    """The tool, run against both nodes."""

    def __init__(self, java: Java, nodes: list[Node]) -> None:
        self._java = java
        self._nodes = nodes

    def run(self, *arguments: str) -> list[tuple[int, str]]:
        """Status and words of each, without what names the node."""
        return [self._shown(node, self._run(node, arguments)) for node in self._nodes]

    def same(self, *arguments: str) -> str:
        """What both print, if it is the same."""
        first, second = self.run(*arguments)
        assert first == second
        return first[1]

    def tell(self, case: Case) -> list[Any]:
        """The same request to both."""
        answers = []
        for node in self._nodes:
            with Talker(node.address) as talker:
                answers.append(talker.run(case).message)
        return answers

    def _run(self, node: Node, arguments: tuple[str, ...]) -> Outcome:
        return self._java.run(TOOL, ["--bootstrap-server", node.bootstrap, *arguments])

    def _shown(self, node: Node, outcome: Outcome) -> tuple[int, str]:
        words = outcome.said.replace(node.bootstrap, "<node>")
        lines = (re.sub(r"\s+", " ", line).strip() for line in words.splitlines())
        return outcome.status, "\n".join(sorted(line for line in lines if line))


@pytest.fixture(scope="module")
def both(java: Java, apache_kafka: Node, node: Node) -> Both:
    if target() != KAVKA:
        pytest.skip("there is only one Kafka to compare with itself")
    both = Both(java, [apache_kafka, node])
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP])
    until(lambda: all(one.coordinators[0].error_code == 0 for one in both.tell(Case("find", find, 4))), "coordinators")
    for case in SETUP:
        both.tell(case)
    until(lambda: all(one.error_code == 0 for one in both.tell(SETUP[-1])), "the group is there")
    return both


def stay(both: Both) -> None:
    """The member is heard of, so that it stays."""
    assert [answer.error_code for answer in both.tell(Case("beat", beat(GROUP, "member-1", 2), 0))] == [0, 0]


def test_a_group_with_a_member(both: Both) -> None:
    both.tell(Case("commits", commit(GROUP, "member-1", 2, topic="tool-words"), 9))
    assert GROUP in both.same("--list")
    assert "Stable" in both.same("--list", "--state")
    both.same("--list", "--state", "stable")
    stay(both)
    for shown in (("--offsets",), ("--members",), ("--state",), ()):
        assert GROUP in both.same("--describe", "--group", GROUP, *shown)
        assert GROUP in both.same("--describe", "--group", GROUP, *shown, "--verbose")
        stay(both)
    assert GROUP in both.same("--describe", "--all-groups", "--members")
    stay(both)
    both.same("--delete", "--group", GROUP)
    both.same("--delete-offsets", "--group", GROUP, "--input-topic", "tool-words")
    both.same("--reset-offsets", "--group", GROUP, "--to-earliest", "--input-topic", "tool-words", "--dry-run")


def test_a_group_that_is_empty(both: Both) -> None:
    both.tell(Case("leaves", beat(GROUP, "member-1", -1), 0))
    both.same("--describe", "--group", GROUP, "--state")
    both.same("--describe", "--group", GROUP, "--members")
    both.same("--reset-offsets", "--group", GROUP, "--to-earliest", "--input-topic", "tool-words", "--execute")
    both.same("--describe", "--group", GROUP, "--offsets")
    for where in (("--to-latest",), ("--to-current",), ("--to-offset", "0"), ("--by-duration", "PT1M")):
        both.same("--reset-offsets", "--group", GROUP, "--all-input-topics", *where, "--dry-run", "--export")
    both.same("--reset-offsets", "--group", GROUP, "--input-topic", "tool-words:1", "--shift-by", "1", "--execute")
    both.same("--describe", "--all-groups", "--offsets", "--verbose")
    both.same("--delete-offsets", "--group", GROUP, "--input-topic", "tool-words")
    both.same("--delete", "--group", GROUP)
    both.same("--list")
    both.same("--describe", "--group", GROUP)


def test_a_group_that_is_not_there(both: Both) -> None:
    for shown in (("--offsets",), ("--members",), ("--state",)):
        both.same("--describe", "--group", "nobody", *shown)
    both.same("--reset-offsets", "--group", "nobody", "--all-input-topics", "--to-earliest", "--dry-run")
    both.same("--delete-offsets", "--group", "nobody", "--input-topic", "tool-words")
    both.same("--delete", "--group", "nobody")
