"""A cluster that is secured node by node, as docs/security.md has it: no client fails for it, but for the one pause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.load import Load
from kavka.client import blocking
from kavka.model.errors import KafkaError
from kavka.testing import Cluster
from kavka.testing.local import LocalNode, free_ports, lay_out
from kavka.testing.secured import ADMIN, STANDARD_AUTHORIZER, Secured, set_password
from scale import FULL

PARTITIONS = 3


class Steps:
    """A cluster and the files that its nodes read when they start."""

    def __init__(self, folder: Path) -> None:
        self.made = Secured(folder / "secured")
        self.nodes = lay_out(folder / "data", 3, {"min.insync.replicas": "2"})
        self.secured = {node.id: f"127.0.0.1:{port}" for node, port in zip(self.nodes, free_ports(3), strict=True)}
        self.cluster = Cluster(nodes=3, data_dir=folder / "data", timeout=60)

    @property
    def bootstrap(self) -> str:
        """Where clients come that log in."""
        return ",".join(self.secured.values())

    def listeners(self, node: LocalNode, *, plain: bool) -> str:
        before = f"PLAINTEXT://{node.listen}," if plain else ""
        return f"{before}SASL_SSL://{self.secured[node.id]},CONTROLLER://{node.controller}"

    def write(self, settings: Mapping[str, str], *, plain: bool = True) -> None:
        """Have every node start with other settings from now on."""
        for node in self.nodes:
            with node.config.open("a") as file:
                for key, value in {"listeners": self.listeners(node, plain=plain), **settings}.items():
                    file.write(f"{key}={value}\n")

    def roll(self, load: Load) -> None:
        """Restart one node after the other."""
        for node in self.nodes:
            self.cluster.restart(node.id)
            load.await_acks(5)

    @property
    def librdkafka(self) -> dict[str, Any]:
        """The options of a client that logs in."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": self.made.mechanism,
            "sasl.username": ADMIN,
            "sasl.password": self.made.passwords[ADMIN],
            "ssl.ca.location": str(self.made.folder / "ca.pem"),
        }


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    made = Steps(tmp_path)
    with made.cluster:
        yield made


def second_listener(made: Secured) -> Mapping[str, str]:
    """What the nodes are told of it; nothing else is secured yet."""
    own = {key: value for key, value in made.nodes.items() if key.startswith(("ssl.", "sasl.", "listener.name."))}
    return {**own, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT"}


def the_rest(steps: Steps, load: Load) -> None:
    """The steps after which nothing is left in plain text, and not everybody may do everything."""
    cluster = steps.cluster
    steps.write({}, plain=False)  # 4
    steps.roll(load)
    with pytest.raises((OSError, KafkaError)):
        blocking.Client(cluster.bootstrap)
    cluster.stop()  # 5
    protocols = "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL"
    steps.write({"listener.security.protocol.map": protocols}, plain=False)
    cluster.start()
    load.await_acks(5)
    rules = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": f"User:{ADMIN}"}
    steps.write(rules, plain=False)  # 6
    steps.roll(load)


def test_a_cluster_is_secured_node_by_node(steps: Steps) -> None:
    made, cluster = steps.made, steps.cluster
    with blocking.Client(cluster.bootstrap) as client:
        client.run(set_password(client.pool, ADMIN, made.passwords[ADMIN]))
        client.admin.create_topic("orders", partitions=PARTITIONS, replication_factor=3)
    with Load(cluster.bootstrap, "orders", PARTITIONS) as plain:
        steps.write(second_listener(made))  # 1
        steps.roll(plain)
        with Load(steps.bootstrap, "orders", PARTITIONS, **steps.librdkafka) as secured:
            steps.write({"inter.broker.listener.name": "SASL_SSL"})  # 2
            steps.roll(plain)
            plain.finish()  # 3
            if FULL:
                the_rest(steps, secured)
            secured.finish()
    assert plain.failed == []
    assert secured.failed == []
    with blocking.Client(steps.bootstrap, security=made.client()) as client:
        assert client.admin.list_topics()
