"""What do access rules cost: tiny Produce requests with an authorizer and 10,000 ACLs beside none at all?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from bench.node import Bench, PreciseNode
from bench.pipelined import measure
from bench.report import Row, at_most
from bench.tiny_requests import TINY
from kavka.client import blocking
from kavka.security.acl import CLUSTER_NAME, Acl, Operation, PatternType, PermissionType, ResourceType
from kavka.testing import Cluster
from kavka.testing.secured import STANDARD_AUTHORIZER

RULES = 10_000
AT_ONCE = 1_000
VERSION = 13
ALLOWED_PERCENT = 5
CLIENT = "User:ANONYMOUS"
CONFIG = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}


def rows(bench: Bench) -> list[Row]:
    """Two nodes in turns; the best of each counts."""
    requests = bench.size(240_000, 80_000)
    with Cluster(timeout=120) as open_, Cluster(config=CONFIG, timeout=120) as ruled:
        nodes = PreciseNode(open_.bootstrap, open_.pid), PreciseNode(ruled.bootstrap, ruled.pid)
        with blocking.Client(ruled.bootstrap) as client:
            create_rules(client.admin)
        best = [0.0, 0.0]
        for _ in range(max(3, bench.repeats)):
            for index, node in enumerate(nodes):
                best[index] = max(best[index], measure(node, TINY, VERSION, requests).per_cpu_second)
    without, with_rules = best
    return [
        Row(f"{RULES:,} ACLs", with_rules, "requests / CPU-s", note=f"without an authorizer: {without:,.0f}"),
        Row("slower than without", 100 * (without / with_rules - 1), "%", at_most(ALLOWED_PERCENT)),
    ]


def create_rules(admin: blocking.Admin) -> None:
    """Have a node ask for rights, and give the client all that it needs."""
    creating = rules()
    admin.create_acls([next(creating)])  # from then on it takes a right
    while some := list(islice(creating, AT_ONCE)):
        admin.create_acls(some)


def rules() -> Iterator[Acl]:
    """What the client needs first of all, and then rules of others: for topics by name and by prefix, for groups."""
    mine = ((ResourceType.CLUSTER, CLUSTER_NAME), (ResourceType.TOPIC, "*"), (ResourceType.GROUP, "*"))
    for kind, name in mine:
        yield rule(kind, name, CLIENT, Operation.ALL)
    for number in range(RULES - len(mine)):
        kind = (ResourceType.TOPIC, ResourceType.GROUP)[number % 2]
        pattern = PatternType.PREFIXED if number % 5 == 0 else PatternType.LITERAL
        yield rule(kind, f"of-{number % 997}-{number}", f"User:{number % 500}", Operation.READ, pattern)


def rule(
    kind: ResourceType, name: str, principal: str, operation: Operation, pattern: PatternType = PatternType.LITERAL
) -> Acl:
    return Acl(kind, name, pattern, operation, principal, "*", PermissionType.ALLOW)
