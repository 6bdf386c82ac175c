"""Three nodes with TLS and SASL on every listener, controllers included."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kavka.client import blocking
from kavka.model.errors import ClusterAuthorizationFailed, SaslAuthenticationFailed, TopicAuthorizationFailed
from kavka.testing import Cluster
from kavka.testing.secured import SCRAM, Secured

Both = tuple[Cluster, Secured]


@pytest.fixture(scope="module", params=[SCRAM, "PLAIN"])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    made = Secured(tmp_path_factory.mktemp("secured"), {"alice": "wonderland"}, request.param)
    with Cluster(nodes=3, config=made.nodes, users=made.users) as cluster:
        yield cluster, made


def test_records_go_to_all_nodes_and_come_back(secured: Both) -> None:
    cluster, made = secured
    with blocking.Client(cluster.bootstrap, security=made.client()) as client:
        client.admin.create_topic("orders", partitions=3, replication_factor=3)
        client.run(client.pool.topic("orders", wait_ms=20_000))
        with client.producer() as producer:
            for number in range(300):
                producer.send("orders", b"%d" % number, partition=number % 3)
        with client.consumer("orders") as consumer:
            assert sorted(int(record.value or b"") for record in consumer.until_end()) == list(range(300))


def test_a_plain_user_has_no_rights_and_a_stranger_does_not_get_in(secured: Both) -> None:
    cluster, made = secured
    with (
        blocking.Client(cluster.bootstrap, security=made.client("alice")) as client,
        pytest.raises((ClusterAuthorizationFailed, TopicAuthorizationFailed)),
    ):
        client.admin.create_topic("alices", partitions=1, replication_factor=3)
    wrong = made.client("alice")
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace("wonderland", "looking glass")
    with pytest.raises(SaslAuthenticationFailed):
        blocking.Client(cluster.bootstrap, security=wrong)


def test_it_comes_back_after_all_nodes_were_gone(secured: Both) -> None:
    cluster, made = secured
    cluster.kill()
    cluster.start()
    with blocking.Client(cluster.bootstrap, security=made.client()) as client:
        client.admin.create_topic("after", partitions=1, replication_factor=3)


def test_no_password_is_in_any_log(secured: Both) -> None:
    cluster, made = secured
    for password in made.passwords.values():
        assert password not in cluster.log
