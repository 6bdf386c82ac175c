"""What the cases of rights meet: a node where each user has the rights of its case, and a few things to ask about."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from crash.raw import Raw
from kavka.security.acl import PatternType, PermissionType
from kavka.security.sasl.plain import PlainClient
from rights import BY_STEM, GROUP, ROWS, TOPIC, TXN, build, grants, readers, variants

ADMIN = "admin"
USERS = [ADMIN, *(variant.user for variant in variants()), *(user for _, user in readers())]
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = " ".join([MODULE, "required", "username=admin password=admin", *(f"user_{name}={name}" for name in USERS)]) + ";"
SECURED = {
    "sasl.enabled.mechanisms": "PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": "secret",
}
CONFIG = {
    **SECURED,
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
PATIENCE_S = 60.0


class Admin:
    """Asks for what the cases need until it is there."""

    def __init__(self, bootstrap: str) -> None:
        self._raw = Raw(bootstrap)
        assert self._raw.log_in("PLAIN", PlainClient(ADMIN, ADMIN)) == 0

    def ask(self, stem: str, version: int, **values: Any) -> Any:
        return self._raw.call(build(BY_STEM[stem].request(), values), version)

    def until(self, good: Any, stem: str, version: int, **values: Any) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not good(answer := self.ask(stem, version, **values)):
            assert time.monotonic() < deadline, f"{stem} answers {answer}"
            time.sleep(0.05)
        return answer

    def close(self) -> None:
        self._raw.close()


def prepare(bootstrap: str) -> None:
    """Make the topic, the group and the transactional id, a token of another owner, and everybody's rights."""
    with closing(Admin(bootstrap)) as admin:
        topics = [{"name": TOPIC, "num_partitions": 1, "replication_factor": 1}]
        admin.ask("create_topics", 7, topics=topics)
        admin.until(
            lambda answer: answer.topics[0].error_code == 0 and answer.topics[0].partitions[0].error_code == 0,
            "metadata",
            9,
            topics=[{"name": TOPIC}],
        )
        for kind, key in ((0, GROUP), (1, TXN)):
            admin.until(
                lambda answer: answer.coordinators[0].error_code == 0,
                "find_coordinator",
                4,
                key_type=kind,
                coordinator_keys=[key],
            )
        admin.until(
            lambda answer: answer.topics[0].partitions[0].error_code == 0,
            "offset_commit",
            8,
            group_id=GROUP,
            topics=[{"name": TOPIC, "partitions": ROWS}],
        )
        admin.until(
            lambda answer: answer.error_code == 0,
            "init_producer_id",
            4,
            transactional_id=TXN,
            transaction_timeout_ms=10_000,
        )
        token = admin.ask(
            "create_delegation_token", 3, owner_principal_type="User", owner_principal_name="owner", max_lifetime_ms=-1
        )
        assert token.error_code == 0
        _grant(admin)


def _grant(admin: Admin) -> None:
    creations = [
        {
            "resource_type": right.resource_type,
            "resource_name": right.name,
            "resource_pattern_type": PatternType.LITERAL,
            "principal": f"User:{user}",
            "host": "*",
            "operation": right.operation,
            "permission_type": PermissionType.ALLOW,
        }
        for user, right in grants()
    ]
    answer = admin.ask("create_acls", 3, creations=creations)
    assert {row.error_code for row in answer.results} == {0}
    everything = {"pattern_type_filter": 1, "resource_type_filter": 1, "operation": 1, "permission_type": 1}
    admin.until(
        lambda answer: sum(len(resource.acls) for resource in answer.resources) >= len(creations),
        "describe_acls",
        3,
        **everything,
    )
