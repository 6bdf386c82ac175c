"""The fixture `kavka_secure`: one line for a node with TLS, SCRAM and access rules."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from kavka.client import blocking
from kavka.model.errors import TopicAuthorizationFailed
from kavka.testing.plugin import SecureKavka


def test_the_node_is_used_as_any_other(kavka_secure: SecureKavka) -> None:
    topic = kavka_secure.topic()
    with kavka_secure.client.producer() as producer:
        producer.send(topic, b"hello").result()
    with kavka_secure.client.consumer(topic) as consumer:
        assert [record.value for record in consumer.until_end()] == [b"hello"]


def test_users_have_passwords_and_no_rights(kavka_secure: SecureKavka) -> None:
    topic = kavka_secure.topic()
    alice = kavka_secure.user("alice", "wonderland")
    with (
        blocking.Client(str(kavka_secure.bootstrap), security=alice) as client,
        client.producer() as producer,
        pytest.raises(TopicAuthorizationFailed),
    ):
        producer.send(topic, b"hello").result()


def test_other_clients_get_in_as_well(kavka_secure: SecureKavka) -> None:
    topic = kavka_secure.topic()
    kavka_secure.user("bob", "builder")
    client = AdminClient(
        {
            "bootstrap.servers": str(kavka_secure.bootstrap),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "bob",
            "sasl.password": "builder",
            "ssl.ca.location": kavka_secure.ca,
        }
    )
    assert topic not in client.list_topics(timeout=20).topics
