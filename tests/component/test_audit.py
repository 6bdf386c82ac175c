"""The audit log of a secured node: what is denied, what is counted, and that the topic has all of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from kavka.cli.commands import app
from kavka.client import blocking
from kavka.model.errors import InvalidTopicException
from kavka.testing import Cluster
from kavka.testing.local import free_ports
from kavka.testing.secured import Secured

CONFIG = {
    "kavka.audit.enable": "true",
    "kavka.audit.topic.enable": "true",
    "kavka.audit.interval.ms": "500",
    "kavka.audit.logins": "succeeded,failed",
    "transaction.state.log.num.partitions": "1",
}
SECONDS = 60.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(tmp_path_factory.mktemp("secured"), {"eve": "evil"})


@pytest.fixture(scope="module")
def cluster(secured: Secured) -> Iterator[Cluster]:
    config = {"listeners": f"SASL_SSL://127.0.0.1:{free_ports(1)[0]}", **secured.nodes, **CONFIG}
    with Cluster(config=config, users=secured.users) as cluster:
        yield cluster


def options(cluster: Cluster, secured: Secured, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": str(cluster.bootstrap),
        "client.id": f"of-{user}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": secured.passwords[user],
        "ssl.ca.location": str(secured.folder / "ca.pem"),
    }


def entries(cluster: Cluster) -> list[dict[str, Any]]:
    files = sorted((Path(cluster.data_dir) / "kavka-audit").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def until(look: Callable[[], bool]) -> None:
    ends = time.monotonic() + SECONDS
    while not look():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_who_was_denied_is_written_and_again_is_counted(cluster: Cluster, secured: Secured) -> None:
    admin, eve = (options(cluster, secured, user) for user in ("admin", "eve"))
    owner, other = AdminClient(admin), AdminClient(eve)
    owner.create_topics([NewTopic("orders", 1, 1)])["orders"].result()
    with pytest.raises(KafkaException):
        other.create_topics([NewTopic("mine", 1, 1)])["mine"].result()
    with pytest.raises(KafkaException):
        other.delete_topics(["orders"])["orders"].result()
    for _ in range(3):  # each asks for the topic, and is told nothing of it
        other.list_topics("orders", timeout=20)

    def of_eve() -> list[tuple[object, ...]]:
        fields = ("api", "operation", "resource", "allowed", "outcome")
        return [
            tuple(each.get(field) for field in fields)
            for each in entries(cluster)
            if each["client_id"] == "of-eve" and each["operation"] != "LOGIN"
        ]

    assert ("CreateTopics", "CREATE", "mine", False, "TOPIC_AUTHORIZATION_FAILED") in of_eve()
    assert ("DeleteTopics", "DELETE", "orders", False, "TOPIC_AUTHORIZATION_FAILED") in of_eve()
    assert any(each[0] == "Metadata" and each[3] is False for each in of_eve())
    assert all(each[3] is False for each in of_eve())
    (created,) = [each for each in entries(cluster) if each["api"] == "CreateTopics" and each["resource"] == "orders"]
    assert (created["principal"], created["listener"], created["outcome"]) == ("User:admin", "SASL_SSL", "NONE")
    assert created["correlation_id"] > 0
    until(lambda: any(each.get("count", 1) > 1 for each in entries(cluster)))


def test_the_command_shows_topic_and_files_alike(cluster: Cluster, secured: Secured, tmp_path: Path) -> None:
    admin = AdminClient(options(cluster, secured, "admin"))
    admin.create_topics([NewTopic("shown", 1, 1)])["shown"].result()
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in secured.client("admin").items()))
    folder = str(Path(cluster.data_dir) / "kavka-audit")

    def shown(*arguments: str) -> list[str]:
        where = ["--client-config", str(config), "--bootstrap", str(cluster.bootstrap)]
        done = CliRunner().invoke(app, [*where, "audit", *arguments])
        return done.stdout.splitlines() if done.exit_code == 0 else []

    by_file = shown("--dir", folder, "--resource", "shown", "--output", "json")
    assert [json.loads(line)["api"] for line in by_file] == ["CreateTopics"]
    until(lambda: shown("--resource", "shown", "--output", "json") == by_file)
    assert [line.split()[4:] for line in shown("--resource", "shown")[1:]] == [
        ["CreateTopics", "TOPIC:shown", "yes", "NONE"]
    ]
    assert shown("--dir", folder, "--resource", "shown", "--denied") == []


def test_after_a_kill_the_topic_has_each_entry_once(cluster: Cluster, secured: Secured) -> None:
    admin = AdminClient(options(cluster, secured, "admin"))
    for number in range(5):
        admin.create_topics([NewTopic(f"before-{number}", 1, 1)])[f"before-{number}"].result()
    cluster.kill()
    cluster.start()
    admin.create_topics([NewTopic("after", 1, 1)])["after"].result()

    def numbers() -> list[int]:
        with (
            blocking.Client(cluster.bootstrap, security=secured.client("admin")) as client,
            client.consumer("__kavka_audit", isolation="read_committed") as consumer,
        ):
            return [json.loads(record.value or b"{}")["seq"] for record in consumer.until_end()]

    until(lambda: bool(numbers()) and len(numbers()) >= len(entries(cluster)))
    found = numbers()
    assert found == list(range(1, len(found) + 1))


def test_who_logs_in_is_written_and_who_fails_to_as_well(cluster: Cluster, secured: Secured) -> None:
    AdminClient(options(cluster, secured, "eve")).list_topics(timeout=30)
    wrong = {**options(cluster, secured, "eve"), "sasl.password": "not evil"}
    with pytest.raises(KafkaException):
        AdminClient(wrong).list_topics(timeout=5)

    def logins(outcome: str) -> list[dict[str, Any]]:
        found = [row for row in entries(cluster) if row["operation"] == "LOGIN" and row["outcome"] == outcome]
        return [row for row in found if row["resource"] == "eve" or not row["allowed"]]

    until(lambda: bool(logins("NONE")) and bool(logins("SASL_AUTHENTICATION_FAILED")))
    let_in, refused = logins("NONE")[-1], logins("SASL_AUTHENTICATION_FAILED")[0]
    assert (let_in["principal"], let_in["api"], let_in["allowed"]) == ("User:eve", "SaslAuthenticate", True)
    assert let_in["detail"] == "SCRAM-SHA-512"
    assert (refused["principal"], refused["error_code"], refused["allowed"]) == ("User:ANONYMOUS", 58, False)
    assert refused["detail"].startswith("SCRAM-SHA-512 ")
    assert "not evil" not in json.dumps(entries(cluster))


def test_without_an_authorizer_only_brokers_write_the_topic() -> None:
    with Cluster(config=CONFIG) as cluster, blocking.Client(cluster.bootstrap) as client:
        client.admin.create_topic("made", partitions=1)
        until(lambda: "__kavka_audit" in [topic.name for topic in client.admin.list_topics()])
        with client.producer() as producer:
            sent = [producer.send("__kavka_audit", b"forged"), producer.send("made", b"x")]
            with pytest.raises(InvalidTopicException):
                sent[0].result(30)
            sent[1].result(30)
        with client.consumer("__kavka_audit", isolation="read_committed") as consumer:
            until(lambda: any(b"CreateTopics" in (record.value or b"") for record in consumer.read(1000)))
