"""What the cases of rights meet: a node where each user has the rights of its case, and a few things to ask about."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from crash.raw import Raw
from kavka.model.types import Uuid
from kavka.security.acl import PatternType, PermissionType
from kavka.security.sasl.plain import PlainClient
from rights import (
    BY_STEM,
    CONTROLLER_VARIANTS,
    GROUP,
    LIVE_CONSUMERS,
    LIVE_SHARE,
    LIVE_STREAMS,
    MEMBER,
    ROWS,
    TOPIC,
    TXN,
    TXN_TOPICS,
    Right,
    build,
)
from rights_asked import variants
from rights_in_part import OPEN_TXN
from rights_told import readers

ADMIN = "admin"
USERS = [
    ADMIN,
    *(variant.user for variant in variants()),
    *(user for _, user in readers()),
    *sorted({user for _, _, user in CONTROLLER_VARIANTS}),
]
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = " ".join([MODULE, "required", "username=admin password=admin", *(f"user_{name}={name}" for name in USERS)]) + ";"
SECURED = {
    "sasl.enabled.mechanisms": "PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": "secret",
    "transaction.two.phase.commit.enable": "true",
    "unstable.api.versions.enable": "true",  # InitProducerId v6
    # members stay although they do not speak again
    **{
        f"group.{kind}.{most}session.timeout.ms": "3600000"
        for kind in ("consumer", "share", "streams")
        for most in ("", "max.")
    },
}
LISTENERS = {
    **SECURED,
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
    "listener.name.controller.plain.sasl.jaas.config": JAAS,
}
CONFIG = {
    **LISTENERS,
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


def prepare(bootstrap: str) -> Uuid:
    """Make the topic, the groups and the transactional id, a token of another owner, and everybody's rights.

    The id of the topic.
    """
    with closing(Admin(bootstrap)) as admin:
        topics = [{"name": TOPIC, "num_partitions": 1, "replication_factor": 1}]
        admin.ask("create_topics", 7, topics=topics)
        there = admin.until(
            lambda answer: answer.topics[0].error_code == 0 and answer.topics[0].partitions[0].error_code == 0,
            "metadata",
            12,
            topics=[{"name": TOPIC}],
        )
        for kind, key in ((0, GROUP), (1, TXN), (1, OPEN_TXN)):
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
        _begin(admin)
        token = admin.ask(
            "create_delegation_token", 3, owner_principal_type="User", owner_principal_name="owner", max_lifetime_ms=-1
        )
        assert token.error_code == 0
        _join(admin)
        _grant(admin)
        return Uuid(there.topics[0].topic_id)


def _begin(admin: Admin) -> None:
    """A transaction that stays open."""
    producer = admin.until(
        lambda answer: answer.error_code == 0,
        "init_producer_id",
        4,
        transactional_id=OPEN_TXN,
        transaction_timeout_ms=900_000,
    )
    admin.until(
        lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0,
        "add_partitions_to_txn",
        3,
        v3_and_below_transactional_id=OPEN_TXN,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=TXN_TOPICS,
    )


def is_in(answer: Any) -> bool:
    """Whether a member was taken."""
    return answer.error_code == 0


def has_its_part(answer: Any) -> bool:
    """Whether a member was given its partitions."""
    return is_in(answer) and answer.assignment is not None and bool(answer.assignment.topic_partitions)


def _join(admin: Admin) -> None:
    """A member in each of the groups that are to be described with what they read."""
    subscribed = {"member_id": MEMBER, "subscribed_topic_names": [TOPIC]}
    consumer = {**subscribed, "rebalance_timeout_ms": 10_000, "topic_partitions": []}
    streams = {
        "member_id": MEMBER,
        "rebalance_timeout_ms": 10_000,
        "process_id": "p",
        "topology": {"subtopologies": [{"subtopology_id": "0", "source_topics": [TOPIC]}]},
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
    }
    for stem, version, group, body in (
        ("consumer_group_heartbeat", 1, LIVE_CONSUMERS, consumer),
        ("share_group_heartbeat", 1, LIVE_SHARE, subscribed),
        ("streams_group_heartbeat", 0, LIVE_STREAMS, streams),
    ):
        admin.until(
            has_its_part if group != LIVE_STREAMS else is_in,
            stem,
            version,
            group_id=group,
            **body,
        )


def grants() -> Iterator[tuple[str, Right]]:
    """The rights of all users."""
    yield from ((variant.user, right) for variant in variants() for right in variant.rights)
    yield from ((user, right) for case, user in readers() for right in case.rights)
    yield from ((user, case.needs[0]) for case, missing, user in CONTROLLER_VARIANTS[:2] if not missing)


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
