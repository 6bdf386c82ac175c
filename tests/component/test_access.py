"""A node with an authorizer, asked by a client that nobody here wrote; and one that refuses what it cannot honour."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from kavka.broker.config import ConfigError, node_config
from kavka.security.acl import Acls, Operation
from kavka.security.acl import ResourceType as Resource
from kavka.security.authorizer import DEFAULT_DENY, Authorizer, Decision
from kavka.testing import Cluster

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANONYMOUS = "User:ANONYMOUS"


class NoDeletions(Authorizer):
    """Nobody deletes a topic, whatever the rules say."""

    def decide(
        self, acls: Acls, principal: str, host: str, operation: Operation, kind: Resource, name: str
    ) -> Decision:
        if operation == Operation.DELETE and kind in (Resource.TOPIC, Resource.CLUSTER):
            return DEFAULT_DENY
        return super().decide(acls, principal, host, operation, kind, name)


def denied(name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, ResourcePatternType.LITERAL, ANONYMOUS, "*", operation, AclPermissionType.DENY
    )


def wait(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(30)


def code_of(futures: dict[Any, Any]) -> int:
    (future,) = futures.values()
    with pytest.raises(KafkaException) as raised:
        future.result(30)
    code: int = raised.value.args[0].code()
    return code


def produced(bootstrap: str, topic: str) -> int:
    """The error code of one record, 0 if it was taken."""
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 30_000})
    producer.produce(topic, b"x", on_delivery=lambda error, _: codes.append(error.code() if error else 0))
    producer.flush(30)
    return codes[0]


def first_answer(bootstrap: str, topic: str) -> int:
    """The error code of the first answer that a consumer gets, 0 for a record."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "group.protocol": "consumer",
        }
    )
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        return error.code() if error else 0
    finally:
        consumer.close()


def test_rules_decide_what_a_client_may_do_and_take_effect_at_once() -> None:
    config = {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"}
    with Cluster(config=config) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        wait(admin.create_topics([NewTopic("open", 1, 1), NewTopic("closed", 1, 1)]))
        assert produced(cluster.bootstrap, "closed") == 0
        wait(admin.create_acls([denied("closed", AclOperation.WRITE)]))
        assert produced(cluster.bootstrap, "closed") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert produced(cluster.bootstrap, "open") == 0
        anything: Any = None
        every = AclBindingFilter(
            ResourceType.ANY,
            anything,
            ResourcePatternType.ANY,
            anything,
            anything,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        assert [one.name for one in admin.describe_acls(every).result(30)] == ["closed"]
        cluster.restart()
        assert produced(cluster.bootstrap, "closed") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        wait(admin.delete_acls([every]))
        assert produced(cluster.bootstrap, "closed") == 0
        wait(admin.create_acls([denied("closed", AclOperation.ALL)]))
        assert first_answer(cluster.bootstrap, "closed") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert first_answer(cluster.bootstrap, "open") == 0
        assert "closed" not in admin.list_topics(timeout=30).topics


def test_a_pattern_finds_only_topics_that_its_client_may_see() -> None:
    config = {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"}
    with Cluster(config=config) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        wait(admin.create_topics([NewTopic(name, 1, 1) for name in ("orders-open", "orders-closed")]))
        wait(admin.create_acls([denied("orders-closed", AclOperation.ALL)]))
        options = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "group.protocol": "consumer"}
        consumer = Consumer(options)
        consumer.subscribe(["^orders-.*"])
        try:
            ends = time.monotonic() + 30
            while not (found := consumer.assignment()):
                message = consumer.poll(0.1)
                assert message is None or message.error() is None, message.error()
                assert time.monotonic() < ends
            assert [partition.topic for partition in found] == ["orders-open"]
            (group,) = admin.describe_consumer_groups(["g"]).values()
            (member,) = group.result(30).members
            assert [partition.topic for partition in member.assignment.topic_partitions] == ["orders-open"]
        finally:
            consumer.close()


def test_without_rules_only_super_users_are_served() -> None:
    with Cluster(config={"authorizer.class.name": STANDARD}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        assert code_of(admin.create_topics([NewTopic("mine", 1, 1)])) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert admin.list_topics(timeout=30).topics == {}
    with Cluster(config={"authorizer.class.name": STANDARD, "super.users": f"User:x; {ANONYMOUS}"}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        wait(admin.create_topics([NewTopic("mine", 1, 1)]))
        assert produced(cluster.bootstrap, "mine") == 0


def test_an_authorizer_of_ones_own_is_a_class_that_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=":")
    config = {"authorizer.class.name": f"{Path(__file__).stem}:NoDeletions", "allow.everyone.if.no.acl.found": "true"}
    with Cluster(config=config) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        wait(admin.create_topics([NewTopic("kept", 1, 1)]))
        assert code_of(admin.delete_topics(["kept"])) == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("name", ["org.example.OpaAuthorizer", "no.such.module:Class", "pathlib:Path", "kavka:none"])
def test_an_authorizer_that_is_not_there_keeps_the_node_from_starting(name: str) -> None:
    texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": "d", "authorizer.class.name": name}
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name"):
        node_config(texts)
    with pytest.raises(ConfigError, match=r"super\.users"):
        node_config({**texts, "authorizer.class.name": STANDARD, "super.users": "alice"})
