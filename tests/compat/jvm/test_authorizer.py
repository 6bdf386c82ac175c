"""Random sets of rules and random questions, decided by ours and by Kafka's StandardAuthorizer: the same answers."""

from __future__ import annotations

import random

from jvm.java_tools import Java

from kavka.security.acl import Acl, Acls, Operation, PatternType, PermissionType, ResourceType
from kavka.security.authorizer import Authorizer
from scale import rounds

SETS = rounds(full=2_000, ci=200)
QUESTIONS = 50
TYPES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID)
OPERATIONS = [one for one in Operation if one != Operation.ANY]
NAMES = (
    "*",
    "*a",
    "a",
    "aa",
    "ab",
    "aab",
    "aabb",
    "b",
    "ba",
    "hardcode",
    "hard",
    "ä",
    "a*",
    "kafka-cluster",
    "Ω.x",
    "",
)
PRINCIPALS = ("User:*", "User:alice", "User:bob", "User:CN=x,O=y", "Group:alice", "User:", "User:a:b")
HOSTS = ("*", "127.0.0.1", "10.0.0.7", "0:0:0:0:0:0:0:1")


def random_acl(draw: random.Random) -> Acl:
    return Acl(
        draw.choice(TYPES),
        draw.choice([name for name in NAMES if name]),
        draw.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        draw.choice(OPERATIONS),
        draw.choice(PRINCIPALS),
        draw.choice(HOSTS),
        draw.choice((PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY)),
    )


def test_the_same_decisions_as_kafkas_authorizer(java: Java) -> None:
    draw = random.Random(20260)
    lines: list[str] = []
    ours: list[tuple[bool, str]] = []
    for _ in range(SETS):
        super_users = draw.sample([one for one in PRINCIPALS if one != "User:"], draw.choice((0, 0, 1)))
        open_by_default = draw.random() < 0.3
        rules = sorted({random_acl(draw) for _ in range(draw.choice((0, 1, 3, 8, 20, 60)))})
        authorizer, acls = Authorizer(super_users, open_by_default), Acls(rules)
        lines.append("\t".join(["new", ";".join(super_users), str(open_by_default).lower()]))
        lines += [
            "\t".join(["acl", *map(str, (int(a[0]), a[1], *map(int, a[2:4]), *a[4:6], int(a[6])))]) for a in rules
        ]
        lines.append("load")
        for _ in range(QUESTIONS):
            principal, host = draw.choice(PRINCIPALS[1:]), draw.choice(HOSTS[1:])
            operation, kind = draw.choice(OPERATIONS[1:]), draw.choice(TYPES)
            if draw.random() < 0.1:
                lines.append("\t".join(["any", principal, host, str(int(operation)), str(int(kind))]))
                decision = authorizer.decide_any(acls, principal, host, operation, kind)
            else:
                name = draw.choice(NAMES)
                lines.append("\t".join(["ask", principal, host, str(int(operation)), str(int(kind)), name]))
                decision = authorizer.decide(acls, principal, host, operation, kind, name)
            ours.append((decision.allowed, f"{lines[-1]} of {sorted(rules)}: {decision}"))
    answers = java.run("kavka.compat.Authorize", [], stdin="\n".join(lines).encode() + b"\n", timeout=300)
    theirs = answers.must_succeed().lines
    wrong = [what for (allowed, what), answer in zip(ours, theirs, strict=True) if allowed != (answer == "ALLOWED")]
    assert len(theirs) == SETS * QUESTIONS
    assert not wrong, f"{len(wrong)} of {len(theirs)} differ; the first: {wrong[0]}"
