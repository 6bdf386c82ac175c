"""More access rules than anybody needs, for principals with odd names: decided as ever, and nobody is held up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from crash.raw import Raw
from kavka.controller.results import MAX_RECORDS
from kavka.security.acl import Operation, PatternType, PermissionType, ResourceType
from kavka.security.sasl.plain import PlainClient
from kavka.testing import Cluster
from rights import BY_STEM, build
from rights_world import CONFIG
from scale import rounds

ODD = [
    "User:",
    "User:*x",
    "User:a:b",
    "User:CN=a,O=b\\+c",
    "User:\u00e9\u4e16",
    "User:\n",
    "User: ",
    "Role:c",
    "User:" + "x" * 5000,
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config={key: text for key, text in CONFIG.items() if "controller" not in key}) as running:
        yield running


def ask(raw: Raw, stem: str, version: int, **values: Any) -> Any:
    return raw.call(build(BY_STEM[stem].request(), values), version)


def rule(topic: str, principal: str, permission: PermissionType = PermissionType.DENY) -> dict[str, Any]:
    return {
        "resource_type": ResourceType.TOPIC,
        "resource_name": topic,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": principal,
        "host": "*",
        "operation": Operation.DESCRIBE,
        "permission_type": permission,
    }


def count(raw: Raw) -> int:
    everything = {"pattern_type_filter": 1, "resource_type_filter": 1, "operation": 1, "permission_type": 1}
    return sum(len(resource.acls) for resource in ask(raw, "describe_acls", 3, **everything).resources)


def test_many_rules_change_nothing_for_others(cluster: Cluster) -> None:
    with closing(Raw(cluster.bootstrap)) as admin, closing(Raw(cluster.bootstrap)) as user:
        assert admin.log_in("PLAIN", PlainClient("admin", "admin")) == 0
        assert user.log_in("PLAIN", PlainClient("u0", "u0")) == 0
        ask(admin, "create_topics", 7, topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}])
        mine = [rule("t", "User:u0", PermissionType.ALLOW)]
        assert ask(admin, "create_acls", 3, creations=mine).results[0].error_code == 0

        def sees() -> int:
            answer = ask(user, "metadata", 9, topics=[{"name": "t"}], allow_auto_topic_creation=False)
            return int(answer.topics[0].error_code)

        assert sees() == 0
        number = rounds(20_000, 2_000)
        many = [rule("t", f"User:nobody-{one}") for one in range(number)]
        odd = [rule("t", principal) for principal in ODD]
        for creations in (many, odd, odd, many):  # what is there already is there once
            assert {row.error_code for row in ask(admin, "create_acls", 3, creations=creations).results} == {0}
        assert (count(admin), sees()) == (1 + number + len(ODD), 0)
        everything = {"pattern_type_filter": 1, "resource_type_filter": 1, "operation": 1, "permission_type": 1}
        for principal in ODD:
            exact = {**everything, "principal_filter": principal}
            assert len(ask(admin, "delete_acls", 3, filters=[exact]).filter_results[0].matching_acls) == 1
        mine_alone = {**everything, "principal_filter": "User:u0"}
        assert ask(admin, "delete_acls", 3, filters=[mine_alone]).filter_results[0].error_code == 0
        assert (count(admin), sees()) == (number, 29)
        # more than one decision may write are not deleted by one filter, as in Kafka
        refused = ask(admin, "delete_acls", 3, filters=[everything]).filter_results[0].error_code != 0
        assert (refused, count(admin)) == ((True, number) if number > MAX_RECORDS else (False, 0))
