"""Random streams groups, assigned by ours and by Kafka's sticky assignor: the same tasks for the same members.

Kafka goes through members and processes in the order of hash tables, ours in that of their names. The names here are
such that both are the same: one letter, whose last bits are the place in a table of Java.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from jvm.java_tools import Java

from kavka.coordinator.assignors.sticky import SubtopologySpec, TaskAssignment, TaskMember, Tasks, assign_stickily
from scale import rounds

GROUPS = rounds(full=50_000, ci=4_000)
MEMBERS = "abcdefghijkl"
PROCESSES = "pqrs"


class Group(NamedTuple):
    members: dict[str, TaskMember]
    subtopologies: dict[str, SubtopologySpec]
    replicas: int


Found = dict[str, TaskAssignment]


def changed(draw: random.Random, group: Group, found: Found) -> Group:
    """The group after an assignment: members have gone and come, topics have grown, a setting has changed."""
    members = {id_: TaskMember(one.process_id, *found[id_]) for id_, one in group.members.items()}
    for id_ in draw.sample(sorted(members), min(len(members) - 1, draw.choice((0, 0, 1, 1, 2)))):
        del members[id_]
    for _ in range(draw.choice((0, 0, 1, 1, 2, 3))):
        members.setdefault(draw.choice(MEMBERS), TaskMember(draw.choice(PROCESSES), {}, {}))
    subtopologies = {
        id_: SubtopologySpec(one.tasks + draw.choice((0, 0, 0, 1)), one.stateful)
        for id_, one in group.subtopologies.items()
    }
    return Group(members, subtopologies, draw.choice((group.replicas, group.replicas, 0, 1, 2)))


def drawn(draw: random.Random) -> Group:
    """A group that nothing was assigned to."""
    members = {id_: TaskMember(draw.choice(PROCESSES), {}, {}) for id_ in draw.sample(MEMBERS, draw.randint(1, 12))}
    subtopologies = {
        str(number): SubtopologySpec(draw.randint(1, 8), draw.random() < 0.6) for number in range(draw.randint(1, 3))
    }
    return Group(members, subtopologies, draw.choice((0, 0, 1, 2)))


def text(tasks: Tasks) -> str:
    return ",".join(f"{id_}:{each}" for id_ in sorted(tasks) for each in sorted(tasks[id_]))


def question(group: Group) -> list[str]:
    lines = [
        "\t".join(["topology", id_, str(one.tasks), str(one.stateful).lower()])
        for id_, one in group.subtopologies.items()
    ]
    lines += [
        "\t".join(["member", id_, one.process_id, text(one.active), text(one.standby)])
        for id_, one in group.members.items()
    ]
    return [*lines, f"assign\t{group.replicas}"]


def shown(found: Found) -> str:
    return ";".join(f"{id_} {text(found[id_].active)} {text(found[id_].standby)}" for id_ in sorted(found))


def test_the_same_assignments_as_kafkas_assignor(java: Java) -> None:
    draw = random.Random(1071)
    lines: list[str] = []
    ours: list[tuple[Group, str]] = []
    group = drawn(draw)
    for number in range(GROUPS):
        found = assign_stickily(*group)
        lines += question(group)
        ours.append((group, shown(found)))
        group = drawn(draw) if number % 8 == 7 else changed(draw, group, found)
    answers = java.run("kavka.compat.AssignTasks", [], stdin="\n".join(lines).encode() + b"\n", timeout=300)
    theirs = answers.must_succeed().out.splitlines()
    wrong = [f"{group}:\n{mine}\n{his}" for (group, mine), his in zip(ours, theirs, strict=True) if mine != his]
    assert not wrong, f"{len(wrong)} of {GROUPS} differ; the first: {wrong[0]}"
